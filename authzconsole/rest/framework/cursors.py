"""Keyset paging for long lists, with signed cursors. Every page costs as much as the first one."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from django.db.models import QuerySet
from rest_framework import serializers

from authzconsole.common.fields import QueryInteger, StrictSerializer, Text
from authzconsole.common.keyset import rows_after
from authzconsole.common.signed_cursor import CursorOfAnotherList, InvalidCursor, read_cursor, sign_cursor
from authzconsole.rest.framework.problems import Problem

MAX_ROWS, DEFAULT_ROWS = 1_000, 50
SALT = "authzconsole.rest.cursor"


class PageQuery(StrictSerializer):
    limit = QueryInteger(
        required=False,
        default=DEFAULT_ROWS,
        min_value=1,
        max_value=MAX_ROWS,
        help_text=f"The number of items per page: 1 to {MAX_ROWS:,}, by default {DEFAULT_ROWS}.",
    )
    cursor = Text(
        required=False,
        default="",
        allow_blank=True,
        max_length=4_000,
        help_text="The `next` member of the previous page. All other parameters except `limit` must stay the same.",
    )


@cache
def page_serializer(
    item: type[serializers.Serializer], **fields: serializers.Field
) -> type[serializers.Serializer]:
    """Return the serializer of a page of `item`. `fields` are further members of the page."""
    name = item.__name__.removesuffix("Serializer") + "Page"
    return type(
        name,
        (serializers.Serializer,),
        {
            "items": item(many=True),
            "next": serializers.CharField(
                allow_null=True, help_text="The cursor of the next page; null on the last page."
            ),
            **fields,
            "__doc__": None,
        },
    )


@dataclass(frozen=True, slots=True)
class ListPart:
    """One part of a list. A list has one part for each table that its rows come from.

    order: columns that together are unique; a leading `-` means descending.
    """

    rows: QuerySet
    order: tuple[str, ...]

    def rows_from(self, values: Sequence | None, max_rows: int) -> list:
        """Return up to `max_rows` rows after these values of the order columns, or from the start."""
        rows = self.rows.order_by(*self.order)
        return list((rows if values is None else rows.filter(rows_after(self.order, values)))[:max_rows])

    def position_of(self, row: object) -> list:
        return [getattr(row, column.lstrip("-")) for column in self.order]


def page_of(
    parts: Sequence[ListPart], as_json: Callable[[object], dict], *, query: dict, identity: object
) -> dict:
    """Return one page of the parts, one part after the other.

    `identity` is everything that must stay the same between pages.
    """
    first_part, values = position_in_list(query["cursor"], identity) if query["cursor"] else (0, None)
    limit, rows = query["limit"], []
    for number, part in enumerate(parts):
        if number < first_part or len(rows) > limit:
            continue
        part_rows = part.rows_from(values if number == first_part else None, limit + 1 - len(rows))
        rows += [(number, part, row) for row in part_rows]
    page, has_more = rows[:limit], len(rows) > limit
    return {
        "items": [as_json(row) for _, _, row in page],
        "next": _next_cursor(page, identity) if has_more else None,
    }


def _next_cursor(page: Sequence[tuple], identity: object) -> str:
    number, part, row = page[-1]
    return cursor_for([number, part.position_of(row)], identity)


def cursor_for(position: object, identity: object) -> str:
    return sign_cursor(position, list_identity=identity, salt=SALT)


def position_in_list(cursor: str, identity: object):
    """Return the position in a cursor. Raise Problem if it was altered or belongs to another list."""
    try:
        return read_cursor(cursor, list_identity=identity, salt=SALT)
    except InvalidCursor:
        raise Problem(
            400,
            "`cursor` was not issued by this console, or was altered: leave it out to start with the first page",
            errors=[{"field": "cursor", "message": "not a cursor of this console"}],
        ) from None
    except CursorOfAnotherList:
        raise Problem(
            400,
            "`cursor` belongs to another list: do not change any other parameter",
            errors=[{"field": "cursor", "message": "a cursor of another list"}],
        ) from None


def list_identity(name: str, query: dict) -> Iterable:
    """Return the identity of this list: its name and its filters, but not its page size."""
    return [
        name,
        *(f"{key}={value}" for key, value in sorted(query.items()) if key not in ("cursor", "limit", "wait")),
    ]
