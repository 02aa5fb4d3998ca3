"""Keyset paging: the condition that selects the rows after a known row, so that a page can start there, and signed
cursors with the digest of their list and a position in it.

In contrast to OFFSET, the cost of a page does not depend on its position. REST (`cursor`) and the AuthZEN searches
(`page.token`) use the same format with different salts.
"""

import hashlib
import json
from collections.abc import Sequence

from django.core import signing
from django.db.models import Q


def rows_after(order: Sequence[str], values: Sequence) -> Q:
    """Return the condition for rows that come after `values` in this order.

    order: columns that together are unique; a leading `-` means descending. values: one for each column.
    """
    after, equal = Q(), {}
    for column, value in zip(order, values, strict=True):
        name = column.lstrip("-")
        after |= Q(**equal, **{f"{name}__{_comparison(column)}": value})
        equal[name] = value
    first = order[0]
    # redundant, but lets the database start from an index
    return Q(**{f"{first.lstrip('-')}__{_comparison(first)}e": values[0]}) & after


def reversed_order(order: Sequence[str]) -> tuple[str, ...]:
    return tuple(column[1:] if column.startswith("-") else f"-{column}" for column in order)


def _comparison(column: str) -> str:
    return "lt" if column.startswith("-") else "gt"


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
