"""Keyset paging for long lists, with signed cursors. Every page costs as much as the first one."""

from collections.abc import Iterable
from functools import cache

from rest_framework import serializers

from authzconsole.common.fields import QueryInteger, StrictSerializer, Text
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
