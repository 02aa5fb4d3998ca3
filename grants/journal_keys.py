"""Sign journal lines and the head of the journal with keys that are not in the database.

Each line stores an HMAC over its hash. The hash covers the line and, through the hash of the line before, all
earlier lines. An account that can only write the database can compute hashes, but no HMAC. The head has an
HMAC over its revision and hash.
"""

import hashlib
import hmac
from collections.abc import Sequence
from functools import cache

from django.conf import settings

from entities.frozen import frozen
from grants.errors import JournalReadOnly
from grants.models import JournalHead

MIN_KEY_CHARACTERS = 32
KEY_ID_CHARACTERS = 16


@frozen
class JournalKey:
    """A secret key. key_id: derived from the secret, and stored with every signature."""

    secret: bytes
    key_id: str

    def sign(self, purpose: str, *values: object) -> str:
        """Return the HMAC-SHA-256 of the values. A signature for one purpose is not valid for another."""
        text = "\n".join((f"authzconsole {purpose}", self.key_id, *map(str, values)))
        return hmac.digest(self.secret, text.encode(), "sha256").hex()

    def sign_line(self, line_hash: str) -> str:
        return self.sign("journal line", line_hash)

    def sign_head(self, revision: int, line_hash: str) -> str:
        return self.sign("journal head", revision, line_hash)


@cache
def _keys_of(secrets: tuple[str, ...]) -> dict[str, JournalKey]:
    keys = [
        JournalKey(
            text.encode(),
            hashlib.sha256(f"authzconsole key id\n{text}".encode()).hexdigest()[:KEY_ID_CHARACTERS],
        )
        for text in secrets
    ]
    return {key.key_id: key for key in keys}


def journal_keys() -> dict[str, JournalKey]:
    """Return the keys of the setting JOURNAL_KEYS by id. The first key signs new lines; all keys verify."""
    return _keys_of(tuple(settings.JOURNAL_KEYS))


def signing_key() -> JournalKey:
    """Return the key for new lines. Raise JournalReadOnly if there is none."""
    for key in journal_keys().values():
        return key
    raise JournalReadOnly("JOURNAL_KEYS contains no key, so the journal cannot be signed")


def head_fault(head: JournalHead) -> str:
    """Return why no known key signed the head; an empty string if one did, or the journal is empty."""
    if not (head.revision or head.mac):
        return ""
    if not head.mac:
        return "the head of the journal is not signed"
    key = journal_keys().get(head.key_id)
    if key is None:
        return (
            f"the journal was signed with the key {head.key_id}, which is not in JOURNAL_KEYS (its keys are "
            f"{', '.join(journal_keys()) or 'none'})"
        )
    if not hmac.compare_digest(head.mac, key.sign_head(head.revision, head.hash)):
        return (
            "the head of the journal was changed outside the console: its signature with the key "
            f"{head.key_id} does not match"
        )
    return ""


def is_line_signed(key_id: str, mac: str, line_hash: str) -> bool | None:
    """Return whether the signature of a line is valid; None if the line has none or its key is unknown."""
    key = journal_keys().get(key_id)
    return None if key is None else hmac.compare_digest(mac, key.sign_line(line_hash))


def key_fault(secrets: Sequence[str]) -> str:
    """Return why these texts cannot be keys; an empty string if they can."""
    if any(len(text) < MIN_KEY_CHARACTERS for text in secrets):
        return f"each key must have at least {MIN_KEY_CHARACTERS} characters"
    return "" if len(set(secrets)) == len(secrets) else "two keys are equal"
