"""Pages of long lists by keyset: a page in the middle costs what the first one costs.

A cursor is signed; it carries the list that it belongs to and the last row before it.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from django.core import signing
from django.db.models import Q, QuerySet
from rest_framework import serializers

from authzconsole.rest.framework.fields import QueryWhole, Shape, Text
from authzconsole.rest.framework.problems import Problem

MOST_ROWS, USUAL_ROWS = 1_000, 50
SALT = "authzconsole.rest.cursor"


class PageQuery(Shape):
    limit = QueryWhole(required=False, default=USUAL_ROWS, min_value=1, max_value=MOST_ROWS,
                       help_text=f"How many items a page holds: 1 to {MOST_ROWS:,}; {USUAL_ROWS} unless given.")
    cursor = Text(required=False, default="", allow_blank=True, max_length=4_000,
                  help_text="`next` of the page before; every other parameter must stay as it was.")


def page_shape(item: type[serializers.Serializer], **more: serializers.Field) -> type[serializers.Serializer]:
    """The shape of one page of `item`."""
    name = item.__name__.removesuffix("Serializer") + "Page"
    following = serializers.CharField(allow_null=True, help_text="The cursor of the next page; null on the last one.")
    return type(name, (serializers.Serializer,), {"items": item(many=True), "next": following, **more, "__doc__": None})


@dataclass(frozen=True, slots=True)
class Part:
    """One stretch of a list. order: columns that together tell its rows apart; a `-` in front of one turns it round."""

    rows: QuerySet
    order: tuple[str, ...]

    def after(self, values: Sequence | None, most_rows: int) -> list:
        rows = self.rows.order_by(*self.order)
        return list((rows if values is None else rows.filter(self._beyond(values)))[:most_rows])

    def place_of(self, row: object) -> list:
        return [getattr(row, column.lstrip("-")) for column in self.order]

    def _beyond(self, values: Sequence) -> Q:
        beyond, equal = Q(), {}
        for column, value in zip(self.order, values, strict=True):
            name, way = column.lstrip("-"), "lt" if column.startswith("-") else "gt"
            beyond |= Q(**equal, **{f"{name}__{way}": value})
            equal[name] = value
        first, way = self.order[0].lstrip("-"), "lte" if self.order[0].startswith("-") else "gte"
        # the first condition is what an index can start from
        return Q(**{f"{first}__{way}": values[0]}) & beyond


def page_of(parts: Sequence[Part], shown: Callable[[object], dict], *, asked: dict, of: object) -> dict:
    """One page over the parts, one after the other. of: all that must stay the same from page to page."""
    place, values = cursor_read(asked["cursor"], of=of) if asked["cursor"] else (0, None)
    most_rows, found = asked["limit"], []
    for number, part in enumerate(parts):
        if number < place or len(found) > most_rows:
            continue
        rows = part.after(values if number == place else None, most_rows + 1 - len(found))
        found += [(number, part, row) for row in rows]
    page, has_more = found[:most_rows], len(found) > most_rows
    return {"items": [shown(row) for _, _, row in page], "next": _next(page, of) if has_more else None}


def _next(page: Sequence[tuple], of: object) -> str:
    number, part, row = page[-1]
    return cursor_written([number, part.place_of(row)], of=of)


def cursor_written(place: object, *, of: object) -> str:
    return signing.dumps([_digest(of), place], salt=SALT)


def cursor_read(cursor: str, *, of: object):
    """Raises Problem where it was altered or belongs to another list."""
    try:
        digest, place = signing.loads(cursor.encode("ascii").decode(), salt=SALT)
    except (signing.BadSignature, UnicodeEncodeError):
        raise Problem(400, "`cursor` is none that this console gave, or was altered: leave it out to begin with the first page",
                      errors=[{"field": "cursor", "message": "not a cursor of this console"}]) from None
    if digest != _digest(of):
        raise Problem(400, "`cursor` belongs to another list: every other parameter must stay as it was",
                      errors=[{"field": "cursor", "message": "a cursor of another list"}])
    return place


def list_identity(name: str, asked: dict) -> Iterable:
    """What tells one list from another: its name and its filters, but not the size of a page."""
    return [name, *(f"{key}={value}" for key, value in sorted(asked.items()) if key not in ("cursor", "limit"))]


def _digest(of: object) -> str:
    return hashlib.sha256(json.dumps(of, default=str).encode()).hexdigest()[:16]
