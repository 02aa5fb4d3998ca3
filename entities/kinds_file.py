"""Register a deployment's own kinds of entity from a TOML file.

    [[kind]]
    name = "record"
    parent = "instance"                # or namespace, or application
    plural = "records"                 # default: the name with an s
    characters = "A-Za-z0-9_-"         # allowed in a name; this is the default

    [kind.operations]                  # by class: create, read, write, execute, admin, list, get, delete
    read = ["read"]
    write = ["write", "annotate"]

Document 001: "For new entities and entities not listed here, these core policies should be followed." Each
generation applies the general rules of its document to the operations of these kinds. Without such rules, the
operations are denied.
"""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from entities.vocabulary import PLAIN_NAME, Kind, OperationClass, VocabularyError, clip, register_kind

MAX_FILE_BYTES = 1_000_000
# whitespace, control characters, and characters that are invisible or change the direction of a text
_REFUSED_CHARACTERS = "".join(map(chr, [*range(0x21), *range(0x7F, 0xA1)])) + (
    "\xad\u200b\u200e\u200f\u2028\u2029\u202e\u2066\ud800\udfff\ufeff"
)
_MEMBERS = {"name", "title", "plural", "parent", "characters", "operations"}


def register_kinds(path: Path) -> list[Kind]:
    """Register every kind in the file. Raise VocabularyError if the file or a kind is invalid."""
    try:
        kinds = [_kind(table) for table in _tables(tomllib.loads(_text_of(path)))]
        for kind in kinds:
            register_kind(kind)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, VocabularyError) as error:
        raise VocabularyError(f"the kinds in {path} cannot be read: {error}") from error
    except RecursionError:
        raise VocabularyError(
            f"the kinds in {path} cannot be read: its values are nested too deeply"
        ) from None
    return kinds


def _text_of(path: Path) -> str:
    with path.open("rb") as file:
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise VocabularyError(f"it is longer than {MAX_FILE_BYTES:,} bytes")
    return content.decode("utf-8")


def _tables(document: dict[str, Any]) -> list[dict[str, Any]]:
    tables = document.get("kind")
    if (
        set(document) != {"kind"}
        or not isinstance(tables, list)
        or not all(isinstance(table, dict) for table in tables)
    ):
        raise VocabularyError("it must contain only [[kind]] tables")
    return tables


def _kind(table: dict[str, Any]) -> Kind:
    if unknown := sorted(set(table) - _MEMBERS):
        raise VocabularyError(
            f"`{clip(unknown[0])}` is not a member of a kind; the members are {', '.join(sorted(_MEMBERS))}"
        )
    name = _text(table, "name")
    title = _text(table, "title", default=name.replace("_", " "))
    classes = tuple(_classes(name, table.get("operations", {})))
    return Kind(
        name,
        title,
        _text(table, "plural", default=f"{title}s"),
        _text(table, "parent"),
        _pattern(table),
        tuple(operation for operation, _ in classes),
        classes,
    )


def _classes(name: str, operations: object) -> Iterator[tuple[str, OperationClass]]:
    if not isinstance(operations, dict):
        raise VocabularyError(
            f"`operations` of `{name}` must be a table with a list of names for each class of operations"
        )
    known: set[str] = set()
    for class_name, names in operations.items():
        if class_name not in tuple(OperationClass):
            raise VocabularyError(
                f"`{clip(class_name)}` is not a class of operations; the classes are "
                f"{', '.join(OperationClass)}"
            )
        if not isinstance(names, list) or not all(isinstance(operation, str) for operation in names):
            raise VocabularyError(f"`operations.{class_name}` of `{name}` must be a list of names")
        for operation in names:
            if operation in known:
                raise VocabularyError(f"`{name}` lists the operation `{clip(operation)}` twice")
            known.add(operation)
            yield operation, OperationClass(class_name)


def _pattern(table: dict[str, Any]) -> str:
    characters = _text(table, "characters", default="")
    if not characters:
        return PLAIN_NAME
    pattern = f"[{characters}]+"
    try:
        re.compile(pattern)
    except re.error as error:
        raise VocabularyError(f"`characters` is not a set of characters: {error}") from None
    if "]" in re.sub(r"\\.", "", characters):
        raise VocabularyError("`characters` must not include ], which ends the set: write \\]")
    if any(re.fullmatch(pattern, character) for character in _REFUSED_CHARACTERS):
        raise VocabularyError(
            "`characters` must not include whitespace, control characters or invisible ones, because addresses "
            "cannot contain them"
        )
    return pattern


def _text(table: dict[str, Any], member: str, *, default: str | None = None) -> str:
    value = table.get(member, default)
    if not isinstance(value, str) or (default is None and not value):
        raise VocabularyError(f"each kind must have `{member}`, a string")
    return value
