"""Pages of long lists: from a row of the list for lists of any length, with page numbers for short ones."""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any
from urllib.parse import urlencode

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.encoding import escape_uri_path

from authzconsole.common.paging import (
    CursorOfAnotherList,
    InvalidCursor,
    read_cursor,
    reversed_order,
    rows_after,
    sign_cursor,
)
from authzconsole.web.shared.parameters import name_parameter, number_parameter
from entities.address import address_or_none
from entities.frozen import frozen

ADDRESS_ORDER = ("kind", "key")
# the columns with numbers by which lists are sorted
NUMBERS = ("pk", "place")
CURSOR_SALT = "page of rows"
MAX_PAGE_NUMBER = 1_000_000


@frozen
class Page:
    """One page of a list. position: a text such as `51 to 100 of 230`. previous_url, next_url: empty at an
    end of the list.
    """

    rows: list
    position: str
    total: int
    previous_url: str = ""
    next_url: str = ""


def url_with(request: HttpRequest, **changes: object) -> str:
    """Return the URL of the request with other query parameters. None and empty text remove a parameter."""
    parameters = request.GET.copy()
    for name, value in changes.items():
        parameters.pop(name, None)
        if value not in (None, ""):
            parameters[name] = str(value)
    # request.path is decoded; escape it, because an unescaped `?` or `%` in a name would change the URL
    path = escape_uri_path(request.path)
    return f"{path}?{parameters.urlencode(safe=':')}" if parameters else path


def url_with_query(url_name: str, parameters: Mapping[str, object]) -> str:
    """Return the URL of a view with these query parameters. Empty values are omitted."""
    return f"{reverse(url_name)}?{urlencode({name: value for name, value in parameters.items() if value}, safe=':')}"


def keyset_page(
    request: HttpRequest,
    rows: QuerySet,
    *order: str,
    max_rows: int,
    total: int | None = None,
    prefix: str = "",
) -> Page:
    """Return the rows after or before the row that the URL names. Runs one query.

    All pages cost the same, because a page starts from a row instead of an offset.

    order: ADDRESS_ORDER; or one unique column, with names in ascending order, or NUMBERS in any order; or several columns
    that together are unique; the URL then has their values in a signed cursor.
    total: the number of all rows, if it is known. prefix: of the query parameters `after` and `before`.
    """
    following, preceding = f"{prefix}after", f"{prefix}before"
    if order[0].startswith("-"):
        following, preceding = preceding, following
    start, end = (_row_in_url(request, name, order) for name in (following, preceding))
    is_backwards = start is None and end is not None
    direction, position = (reversed_order(order), end) if is_backwards else (order, start)
    rows = rows if position is None else rows.filter(rows_after(direction, position))
    found = list(rows.order_by(*direction)[: max_rows + 1])
    has_more, page_rows = len(found) > max_rows, found[:max_rows]
    if is_backwards:
        page_rows.reverse()
    has_previous, has_next = (has_more, True) if is_backwards else (start is not None, has_more)
    first, last = (_text_of(page_rows[index], order) if page_rows else None for index in (0, -1))
    return Page(
        page_rows,
        f"{len(page_rows):,} {'on this page' if total is None else f'of {total:,}'}",
        len(page_rows) if total is None else total,
        url_with(request, **{preceding: first, following: None}) if has_previous and page_rows else "",
        url_with(request, **{following: last, preceding: None}) if has_next and page_rows else "",
    )


def _row_in_url(request: HttpRequest, name: str, order: Sequence[str]) -> tuple | None:
    """Return the values of the columns of a row; None if the parameter is missing or invalid."""
    value: Any = name_parameter(request, name) or None
    if order == ADDRESS_ORDER:
        address = address_or_none(value or "")
        return (address.kind, address.key) if address else None
    if len(order) > 1:
        try:
            return tuple(read_cursor(value or "", list_identity=order, salt=CURSOR_SALT))  # type: ignore[call-overload]
        except (InvalidCursor, CursorOfAnotherList):
            return None
    if order[0].lstrip("-") in NUMBERS:
        value = number_parameter(request, name)
    return None if value is None else (value,)


def _text_of(row: object, order: Sequence[str]) -> str:
    if order == ADDRESS_ORDER:
        return str(row)
    values = [attrgetter(column.lstrip("-").replace("__", "."))(row) for column in order]
    if len(values) > 1:
        return sign_cursor(values, list_identity=order, salt=CURSOR_SALT)
    return str(values[0])


def paginate_sequence(
    request: HttpRequest, rows: QuerySet | Sequence, *, max_rows: int, name: str = "page"
) -> Page:
    """Return a numbered page of a queryset or sequence, of which it needs the length and a slice.

    The query parameter `name` holds the page number, which starts at 1; beyond the end, it is the last page.
    """
    page = Paginator(rows, max_rows).get_page(page_number(request, name))
    return numbered_page(
        request,
        list(page.object_list),
        number=page.number,
        total=page.paginator.count,
        max_rows=max_rows,
        name=name,
    )


def numbered_page(
    request: HttpRequest, rows: list, *, number: int, total: int, max_rows: int, name: str = "page"
) -> Page:
    """Return a numbered page with rows that are read already."""
    first = (number - 1) * max_rows
    position = (
        f"{first + 1:,} to {first + len(rows):,} of {total:,}"
        if total > max_rows
        else f"{total:,} of {total:,}"
    )
    return Page(
        rows,
        position,
        total,
        url_with(request, **{name: number - 1 if number > 2 else None}) if number > 1 else "",
        url_with(request, **{name: number + 1}) if first + max_rows < total else "",
    )


def page_number(request: HttpRequest, name: str = "page") -> int:
    """Return the page number in the URL, or 1 if it is missing or invalid."""
    return min(max(number_parameter(request, name) or 1, 1), MAX_PAGE_NUMBER)
