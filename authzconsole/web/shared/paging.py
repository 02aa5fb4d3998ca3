"""Pages of long lists: with cursors for lists of any length, with page numbers for sequences."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.encoding import escape_uri_path

from authzconsole.common.keyset import reversed_order, rows_after
from authzconsole.web.shared.parameters import name_parameter, number_parameter
from entities.address import Address, AddressError, parse_address
from entities.models import Entity

ADDRESS_ORDER = ("kind", "key")
MAX_PAGE_NUMBER = 1_000_000


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list. position: a text such as `51 to 100 of 230`. previous_url, next_url: empty at an
    end of the list.
    """

    rows: list
    position: str
    total: int
    previous_url: str = ""
    next_url: str = ""


def url_with(request: HttpRequest, **changes: str | int | None) -> str:
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


def paginate_entities(
    request: HttpRequest, rows: QuerySet[Entity], *, max_rows: int, total_rows: int, prefix: str = ""
) -> Page:
    """Return the rows after or before the address in the URL. `rows` must be sorted by (kind, key). Runs one
    query.

    All pages cost the same, because a page starts from an address instead of an offset.
    """
    after, before = f"{prefix}after", f"{prefix}before"
    start, end = _cursor(request, after), _cursor(request, before)
    if start is None and end is not None:
        backwards = reversed_order(ADDRESS_ORDER)
        page_rows = list(
            rows.filter(rows_after(backwards, (end.kind, end.key))).order_by(*backwards)[: max_rows + 1]
        )
        has_previous, has_next = len(page_rows) > max_rows, True
        page_rows = page_rows[:max_rows][::-1]
    else:
        if start is not None:
            rows = rows.filter(rows_after(ADDRESS_ORDER, (start.kind, start.key)))
        page_rows = list(rows[: max_rows + 1])
        has_previous, has_next = start is not None, len(page_rows) > max_rows
        page_rows = page_rows[:max_rows]
    return Page(
        page_rows,
        f"{len(page_rows):,} of {total_rows:,}",
        total_rows,
        url_with(request, **{before: page_rows[0] if has_previous and page_rows else None, after: None})
        if has_previous
        else "",
        url_with(request, **{after: page_rows[-1], before: None}) if has_next and page_rows else "",
    )


def _cursor(request: HttpRequest, name: str) -> Address | None:
    try:
        return parse_address(request.GET[name]) if name in request.GET else None
    except AddressError:
        return None


def paginate_names(
    request: HttpRequest, rows: QuerySet, column: str, *, max_rows: int, prefix: str = ""
) -> Page:
    """Return the rows after or before the name in the URL, sorted by a unique column.

    Runs one query, because the total is not counted.
    """
    after, before = f"{prefix}after", f"{prefix}before"
    start, end = name_parameter(request, after), name_parameter(request, before)
    if end and not start:
        page_rows = list(rows.filter(**{f"{column}__lt": end}).order_by(f"-{column}")[: max_rows + 1])
        has_previous, has_next = len(page_rows) > max_rows, True
        page_rows = page_rows[:max_rows][::-1]
    else:
        page_rows = list(
            (rows.filter(**{f"{column}__gt": start}) if start else rows).order_by(column)[: max_rows + 1]
        )
        has_previous, has_next = bool(start), len(page_rows) > max_rows
        page_rows = page_rows[:max_rows]
    first_name, last_name = (getattr(page_rows[index], column) if page_rows else None for index in (0, -1))
    return Page(
        page_rows,
        f"{len(page_rows):,} on this page",
        len(page_rows),
        url_with(request, **{before: first_name, after: None}) if has_previous else "",
        url_with(request, **{after: last_name, before: None}) if has_next and page_rows else "",
    )


def paginate_newest_first(
    request: HttpRequest, rows: QuerySet, column: str, *, max_rows: int, position: Callable[[list], str]
) -> Page:
    """Return the rows before or after the number in the URL. Runs one query, and old pages cost no more than
    recent ones.

    rows: in descending order of `column`, which is a unique number. position: returns the position of a page
    that is not empty.
    """
    before, after = (number_parameter(request, name) for name in ("before", "after"))
    if before is None and after is not None:
        page_rows = list(rows.filter(**{f"{column}__gt": after}).order_by(column)[: max_rows + 1])
        has_newer, has_older = len(page_rows) > max_rows, True
        page_rows = page_rows[:max_rows][::-1]
    else:
        page_rows = list(
            (rows if before is None else rows.filter(**{f"{column}__lt": before}))[: max_rows + 1]
        )
        has_newer, has_older = before is not None, len(page_rows) > max_rows
        page_rows = page_rows[:max_rows]
    if not page_rows:
        return Page([], "", 0)
    newest, oldest = (getattr(page_rows[index], column) for index in (0, -1))
    return Page(
        page_rows,
        position(page_rows),
        len(page_rows),
        url_with(request, after=newest, before=None) if has_newer else "",
        url_with(request, before=oldest, after=None) if has_older else "",
    )


class QuerySetSequence(Sequence):
    """A queryset as a sequence that supports `len` and slices. Each of them runs one query."""

    def __init__(self, rows: QuerySet):
        self._rows = rows

    def __len__(self) -> int:
        return self._rows.count()

    def __getitem__(self, bounds: slice) -> list:
        return list(self._rows[bounds])


def paginate_sequence(request: HttpRequest, rows: Sequence, *, max_rows: int, name: str) -> Page:
    """Return a numbered page of a sequence.

    The query parameter `name` holds the page number, which starts at 1.
    """
    number, total = page_number(request, name), len(rows)
    number = min(number, max(1, -(-total // max_rows)))
    first = (number - 1) * max_rows
    return numbered_page(
        request,
        list(rows[first : first + max_rows]),
        number=number,
        total=total,
        max_rows=max_rows,
        name=name,
    )


def numbered_page(
    request: HttpRequest, rows: list, *, number: int, total: int, max_rows: int, name: str
) -> Page:
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


def page_number(request: HttpRequest, name: str) -> int:
    """Return the page number in the URL, or 1 if it is missing or invalid."""
    text = request.GET.get(name, "")
    return (
        min(max(int(text), 1), MAX_PAGE_NUMBER) if text.isascii() and text.isdigit() and len(text) < 9 else 1
    )
