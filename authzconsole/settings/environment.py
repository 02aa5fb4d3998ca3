"""The environment variables, the state folder, and secrets that are generated at the first start."""

import contextlib
import os
import secrets
from pathlib import Path

import environ
from django.core.exceptions import ImproperlyConfigured

BASE_DIR = Path(__file__).resolve().parent.parent.parent
env = environ.Env()

# the folder for everything that the console writes on this machine
STATE_DIR = BASE_DIR / (env.str("STATE_DIR", default="") or "var")
STATE_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)


def stored_secret(name: str, consequence: str) -> str:
    """Return a secret of this checkout. It is generated at the first start, and only its owner can read it.

    consequence: what happens if the secret is generated again.
    """
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
        raise ImproperlyConfigured(f"{path} is empty: remove it, and the next start generates a new key ({consequence})")
    return key
