"""Pass settings to Spark in a file, because the arguments of a process are visible to all users of the
machine.
"""

import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"


def write_properties(path: Path, settings: Mapping[str, str]) -> None:
    """Write a Java properties file that only its owner can read."""
    lines = [f"{_escape(name)}={_escape(value)}\n" for name, value in settings.items()]
    with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="ascii") as file:
        file.writelines(lines)


def _escape(text: str) -> str:
    """Escape the characters with a meaning in a properties file, and all characters outside of printable
    ASCII.
    """
    return "".join(
        f"\\{character}"
        if character in "\\=:#! "
        else character
        if " " < character < "\x7f"
        else _unicode_escapes(character)
        for character in text
    )


def _unicode_escapes(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[first : first + 4]}" for first in range(0, len(units), 4))


@contextmanager
def properties_argument(path: Path) -> Iterator[None]:
    """Let PySpark start Java with this properties file; the settings of spark-defaults.conf still apply."""
    previous = os.environ.get(_ARGUMENTS)
    arguments = (
        f"--load-spark-defaults --properties-file {shlex.quote(str(path))} {previous or 'pyspark-shell'}"
    )
    os.environ[_ARGUMENTS] = arguments
    try:
        yield
    finally:
        if previous is None:
            del os.environ[_ARGUMENTS]
        else:
            os.environ[_ARGUMENTS] = previous
