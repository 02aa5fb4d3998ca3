"""Signed cursors for paging. A cursor contains the digest of its list and a position in the list.

REST (`cursor`) and the AuthZEN searches (`page.token`) use the same format with different salts.
"""

import hashlib
import json

from django.core import signing


class InvalidCursor(ValueError):
    """The cursor was not signed by this console, or was altered."""


class CursorOfAnotherList(ValueError):
    """The cursor is valid, but belongs to another list or to other filters."""


def sign_cursor(position: object, *, list_identity: object, salt: str) -> str:
    """Return a cursor.

    `list_identity` is everything that must stay the same from page to page; both are JSON values.
    """
    return signing.dumps([_digest(list_identity), position], salt=salt)


def read_cursor(cursor: str, *, list_identity: object, salt: str) -> object:
    """Return the position in a cursor.

    Raise InvalidCursor or CursorOfAnotherList if it is not a cursor of this list.
    """
    try:
        # a cursor of this console is ASCII
        digest, position = signing.loads(cursor.encode("ascii").decode(), salt=salt)
    except (signing.BadSignature, UnicodeEncodeError, TypeError, ValueError):
        raise InvalidCursor from None
    if digest != _digest(list_identity):
        raise CursorOfAnotherList
    return position


def _digest(list_identity: object) -> str:
    return hashlib.sha256(json.dumps(list_identity, sort_keys=True, default=str).encode()).hexdigest()[:32]
