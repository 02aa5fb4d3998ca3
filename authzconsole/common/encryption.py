"""Encrypt secrets that the console itself must read again, with the first of MFA_KEYS, or with SECRET_KEY.

All keys decrypt, so that keys can be replaced.
"""

import base64
import hashlib

from django.conf import settings


class UnknownKey(Exception):
    """No key of this console can decrypt the text."""


def encrypt(text: str, purpose: bytes) -> str:
    """Return the text encrypted. purpose: with another one, it cannot be decrypted."""
    return _cipher(purpose).encrypt(text.encode()).decode()


def decrypt(encrypted_text: str, purpose: bytes) -> str:
    """Return the text. Raise UnknownKey if no key can decrypt it."""
    from cryptography.fernet import InvalidToken

    try:
        return _cipher(purpose).decrypt(encrypted_text.encode()).decode()
    except InvalidToken:
        raise UnknownKey from None


def _cipher(purpose: bytes):
    # here, because most processes never see a secret, and the import takes time
    from cryptography.fernet import Fernet, MultiFernet

    keys = [*settings.MFA_KEYS, settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    return MultiFernet(
        [Fernet(base64.urlsafe_b64encode(hashlib.sha256(purpose + key.encode()).digest())) for key in keys]
    )
