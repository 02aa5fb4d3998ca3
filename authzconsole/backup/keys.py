"""The keys of the console in a backup.

They are encrypted with a passphrase, because they suffice to forge the journal.
"""

import hashlib
import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings

from authzconsole.backup.archive import BackupError
from authzconsole.settings.environment import listed_keys

MIN_PASSPHRASE_CHARACTERS = 16
SALT_BYTES, NONCE_BYTES = 16, 12
# scrypt with 64 MB of memory, so that guessing a passphrase is slow
SCRYPT = {"n": 2**16, "r": 8, "p": 1, "maxmem": 128 << 20, "dklen": 32}
_LABEL = b"authzconsole backup keys 1"


@dataclass(frozen=True)
class ConsoleKeys:
    secret_key: str
    journal_keys: list[str]
    mfa_keys: list[str]


def read_passphrase(path: Path) -> str:
    try:
        passphrase = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BackupError(f"the passphrase in {path} cannot be read: {error}") from None
    if len(passphrase) < MIN_PASSPHRASE_CHARACTERS:
        raise BackupError(
            f"the passphrase in {path} must have at least {MIN_PASSPHRASE_CHARACTERS} characters"
        )
    return passphrase


def encrypted_keys(passphrase: str) -> bytes:
    """Return the keys of this console, encrypted with AES-256-GCM and a key that scrypt derives from the
    passphrase.
    """
    salt, nonce = secrets.token_bytes(SALT_BYTES), secrets.token_bytes(NONCE_BYTES)
    keys = ConsoleKeys(settings.SECRET_KEY, list(settings.JOURNAL_KEYS), list(settings.MFA_KEYS))
    text = json.dumps(vars(keys)).encode()
    return salt + nonce + AESGCM(_derive_key(passphrase, salt)).encrypt(nonce, text, _LABEL)


def decrypted_keys(data: bytes, passphrase: str) -> ConsoleKeys:
    salt, nonce, text = (
        data[:SALT_BYTES],
        data[SALT_BYTES : SALT_BYTES + NONCE_BYTES],
        data[SALT_BYTES + NONCE_BYTES :],
    )
    try:
        return ConsoleKeys(**json.loads(AESGCM(_derive_key(passphrase, salt)).decrypt(nonce, text, _LABEL)))
    except (InvalidTag, ValueError, TypeError):
        raise BackupError(
            "the keys of the backup cannot be decrypted: the passphrase is wrong, or they were changed"
        ) from None


def _derive_key(passphrase: str, salt: bytes) -> bytes:
    return hashlib.scrypt(passphrase.encode(), salt=salt, **SCRYPT)


def has_generated_keys() -> bool:
    """Return whether this console uses the keys that it generated in its state folder."""
    path = Path(settings.STATE_DIR) / "journal_keys"
    return path.is_file() and listed_keys(path.read_text()) == list(settings.JOURNAL_KEYS)


def store_keys(keys: ConsoleKeys, folder: Path) -> None:
    """Write the keys into files in `folder`, with the text of the settings.

    Only the current user can read them.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    texts = {
        "secret_key": keys.secret_key,
        "journal_keys": ",".join(keys.journal_keys),
        "mfa_keys": ",".join(keys.mfa_keys),
    }
    for name, text in texts.items():
        if not text:
            continue
        temporary = folder / f".{name}.{os.getpid()}"
        with open(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            file.write(text)
        temporary.rename(folder / name)
