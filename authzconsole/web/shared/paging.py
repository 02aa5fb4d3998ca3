"""Pages of long lists: by cursor where the list may be very long, by number where it is a slice of a sequence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.encoding import escape_uri_path

from authzconsole.web.shared.parameters import name_parameter
from entities.address import AddressError, parse_address
from entities.models import Entity

LARGEST_PAGE_NUMBER = 1_000_000


@dataclass(frozen=True, slots=True)
class Page:
    """words: which part of the list this is. Either URL is empty at its end of the list."""

    rows: list
    words: str
    total: int
    previous_url: str = ""
    next_url: str = ""


def url_with(request: HttpRequest, **changes: str | int | None) -> str:
    """This URL with other parameters; None and the empty text leave one out."""
    parameters = request.GET.copy()
    for name, value in changes.items():
        parameters.pop(name, None)
        if value not in (None, ""):
            parameters[name] = str(value)
    # the path comes decoded: a `?` or `%` of a name would end or change it
    path = escape_uri_path(request.path)
    return f"{path}?{parameters.urlencode(safe=':')}" if parameters else path


def url_with_query(url_name: str, asked: Mapping[str, object]) -> str:
    """The page of that name with these parameters; what is empty is left out."""
    return f"{reverse(url_name)}?{urlencode({name: value for name, value in asked.items() if value}, safe=':')}"


def paginate_entities(request: HttpRequest, rows: QuerySet[Entity], *, most_rows: int, total_rows: int, prefix: str = "") -> Page:
    """A page of rows that are sorted by (kind, key), after or before the address in the URL. One query.

    A page in the middle of a long list costs what the first one costs: it starts from the address, not from a number.
    """
    after, before = f"{prefix}after", f"{prefix}before"
    start, backwards = _cursor(request, after), _cursor(request, before)
    if start is None and backwards is not None:
        found = list(rows.filter(_beyond(backwards, "lt")).order_by("-kind", "-key")[: most_rows + 1])
        has_previous, has_next = len(found) > most_rows, True
        found = found[:most_rows][::-1]
    else:
        found = list((rows if start is None else rows.filter(_beyond(start, "gt")))[: most_rows + 1])
        has_previous, has_next = start is not None, len(found) > most_rows
        found = found[:most_rows]
    return Page(
        found, f"{len(found):,} of {total_rows:,}", total_rows,
        url_with(request, **{before: found[0] if has_previous and found else None, after: None}) if has_previous else "",
        url_with(request, **{after: found[-1], before: None}) if has_next and found else "",
    )


def _cursor(request: HttpRequest, name: str):
    try:
        return parse_address(request.GET[name]) if name in request.GET else None
    except AddressError:
        return None


def _beyond(address, way: str) -> Q:
    # the first condition is what an index can start from
    return Q(**{f"kind__{way}e": address.kind}) & (
        Q(**{f"kind__{way}": address.kind}) | Q(**{f"key__{way}": address.key})
    )


def paginate_names(request: HttpRequest, rows: QuerySet, column: str, *, most_rows: int, prefix: str = "") -> Page:
    """A page of rows that a unique column sorts, after or before the name in the URL. One query; the total is not counted."""
    after, before = f"{prefix}after", f"{prefix}before"
    start, backwards = name_parameter(request, after), name_parameter(request, before)
    if backwards and not start:
        found = list(rows.filter(**{f"{column}__lt": backwards}).order_by(f"-{column}")[: most_rows + 1])
        has_previous, has_next = len(found) > most_rows, True
        found = found[:most_rows][::-1]
    else:
        found = list((rows.filter(**{f"{column}__gt": start}) if start else rows).order_by(column)[: most_rows + 1])
        has_previous, has_next = bool(start), len(found) > most_rows
        found = found[:most_rows]
    ends = [getattr(found[place], column) if found else None for place in (0, -1)]
    return Page(
        found, f"{len(found):,} on this page", len(found),
        url_with(request, **{before: ends[0], after: None}) if has_previous else "",
        url_with(request, **{after: ends[1], before: None}) if has_next and found else "",
    )


class Rows(Sequence):
    """A queryset as something that is counted once and sliced."""

    def __init__(self, rows: QuerySet):
        self._rows = rows

    def __len__(self) -> int:
        return self._rows.count()

    def __getitem__(self, place: slice) -> list:
        return list(self._rows[place])


def paginate_sequence(request: HttpRequest, rows: Sequence, *, most_rows: int, name: str) -> Page:
    """A numbered page of anything that can be counted and sliced; the number stands in the URL as `name`. Starts at 1."""
    number, total = page_number(request, name), len(rows)
    number = min(number, max(1, -(-total // most_rows)))
    first = (number - 1) * most_rows
    return numbered_page(request, list(rows[first : first + most_rows]), number=number, total=total, most_rows=most_rows,
                         name=name)


def numbered_page(request: HttpRequest, rows: list, *, number: int, total: int, most_rows: int, name: str) -> Page:
    first = (number - 1) * most_rows
    words = f"{first + 1:,} to {first + len(rows):,} of {total:,}" if total > most_rows else f"{total:,} of {total:,}"
    return Page(
        rows, words, total,
        url_with(request, **{name: number - 1 if number > 2 else None}) if number > 1 else "",
        url_with(request, **{name: number + 1}) if first + most_rows < total else "",
    )


def page_number(request: HttpRequest, name: str) -> int:
    text = request.GET.get(name, "")
    return min(max(int(text), 1), LARGEST_PAGE_NUMBER) if text.isascii() and text.isdigit() and len(text) < 9 else 1
