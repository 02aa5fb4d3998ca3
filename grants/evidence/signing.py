"""Sign evidence with Ed25519, so that an auditor can verify it with the public key alone.

The private key is derived from the first key of JOURNAL_KEYS. A new journal key therefore gives a new public
key.
"""

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from grants.journal_keys import JournalKey, journal_keys, signing_key

_KEY_BYTES = 32
_PURPOSE = b"authzconsole evidence signature"


def sign(data: bytes) -> bytes:
    """Return the signature of `data`. Raise JournalReadOnly if there is no journal key."""
    return _private_key(signing_key()).sign(data)


def public_key() -> str:
    """Return the public key for new signatures as hexadecimal text.

    Raise JournalReadOnly if there is no journal key.
    """
    return _public_key_of(signing_key())


def known_public_keys() -> set[str]:
    """Return the public keys of all keys in JOURNAL_KEYS, as hexadecimal texts."""
    return {_public_key_of(key) for key in journal_keys().values()}


def is_signature_valid(key: str, signature: bytes, data: bytes) -> bool:
    """Return whether `signature` is a valid signature of `data`. key: a public key as hexadecimal text."""
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(signature, data)
    except (InvalidSignature, ValueError):
        return False
    return True


def _private_key(key: JournalKey) -> Ed25519PrivateKey:
    derivation = HKDF(algorithm=SHA256(), length=_KEY_BYTES, salt=None, info=_PURPOSE)
    return Ed25519PrivateKey.from_private_bytes(derivation.derive(key.secret))


def _public_key_of(key: JournalKey) -> str:
    return _private_key(key).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()
