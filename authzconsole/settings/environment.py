"""The environment variables, the state folder, and secrets that are generated at the first start."""

import contextlib
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path

import environ
from django.core.exceptions import ImproperlyConfigured


class FileVariables(Mapping[str, str]):
    """Environment variables.

    The value of NAME can be in the file that NAME_FILE names, as container secrets are.
    """

    def __init__(self, variables: Mapping[str, str]):
        self._variables = variables

    def __getitem__(self, name: str) -> str:
        path = self._variables.get(f"{name}_FILE", "")
        if not path:
            return self._variables[name]
        if self._variables.get(name):
            raise ImproperlyConfigured(f"{name} and {name}_FILE are both set: remove one of them")
        try:
            value = Path(path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise ImproperlyConfigured(f"{name}_FILE: {path} cannot be read ({reason})") from None
        if not value:
            raise ImproperlyConfigured(f"{name}_FILE: {path} is empty")
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._variables)

    def __len__(self) -> int:
        return len(self._variables)


BASE_DIR = Path(__file__).resolve().parent.parent.parent
env = environ.Env()
env.ENVIRON = FileVariables(os.environ)

# with this setting, the console does not start in an unsafe state; see production.py
PRODUCTION = env.bool("PRODUCTION", default=False)

# the folder for everything that the console writes on this machine
STATE_DIR = BASE_DIR / (env.str("STATE_DIR", default="") or "var")
STATE_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)
if STATE_DIR == BASE_DIR / "var":
    # `make setup` or an earlier version may have created it with the usual mode
    with contextlib.suppress(OSError):
        STATE_DIR.chmod(0o700)
# the folder for temporary files, on the same disk instead of /tmp
TEMP_DIR = STATE_DIR / "tmp"
TEMP_DIR.mkdir(mode=0o700, exist_ok=True)


def listed_keys(text: str) -> list[str]:
    """Return the keys of a text that separates them by commas, as variables do."""
    return [key for part in text.split(",") if (key := part.strip())]


def stored_secret(name: str, consequence: str) -> str:
    """Return a secret of this checkout. It is generated at the first start, and only its owner can read it.

    In production no secret is generated, so the result is empty. consequence: what happens if the secret is
    generated again.
    """
    if PRODUCTION:
        return ""
    path = STATE_DIR / name
    if not path.exists():
        temporary = path.with_name(f"{name}.{os.getpid()}.{secrets.token_hex(4)}")
        with open(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(50))
        # atomic: the first process that links its file decides the key for all
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
        temporary.unlink()
    key = path.read_text()
    if not key:
        raise ImproperlyConfigured(
            f"{path} is empty: remove it, and the next start generates a new key ({consequence})"
        )
    return key
