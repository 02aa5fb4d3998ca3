"""The journal: every change, by whom it concerns, who made it, on what and when; its export, and the proof of its chain."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice

import pyarrow as pa
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import reverse
from django.utils.cache import patch_cache_control
from django.utils.dateparse import parse_date, parse_datetime
from django.views.decorators.http import require_safe

from analytics.arrow import arrow_schema
from analytics.results.export import DOWNLOAD_FORMATS, export_chunks
from analytics.tables import Column, ColumnType, Table
from authzconsole.web.journal.rows import journal_line_shown
from authzconsole.web.shared.guard import auditor_required
from authzconsole.web.shared.paging import Page, url_with
from authzconsole.web.shared.parameters import name_parameter, text_parameter
from authzconsole.web.shared.principal_input import name_from_input, principal_from_input
from authzconsole.web.shared.rendering import render_page, requested_section
from entities.address import AddressError, parse_address
from grants.journal import LINES_PER_BATCH, current_revision, first_break
from grants.journal_queries import journal_lines
from grants.models import JournalLine

LINES_A_PAGE = 50
TEXTS = ("principal", "actor", "entity", "action")
TIMES = ("since", "until")
PART = "lines"
LINES = Table(
    "journal",
    tuple(Column(name, ColumnType.LONG if name == "revision" else ColumnType.TEXT) for name in (*JournalLine.HASHED, "hash")),
    ("revision",),
)


@dataclass(frozen=True, slots=True)
class JournalQuery:
    """given: what was typed, by field. faults: why a field cannot be read, by field; nothing is shown then."""

    given: dict[str, str]
    faults: dict[str, str]
    rows: QuerySet[JournalLine]

    @property
    def is_filtered(self) -> bool:
        return any(self.given.values())

    @property
    def more_are_set(self) -> bool:
        """Of the fields that a narrow screen folds away: all but the first."""
        return any(text for name, text in self.given.items() if name != TEXTS[0])


@require_safe
@auditor_required
def journal_page(request: HttpRequest) -> HttpResponse:
    asked = _asked(request)
    page = _page(request, asked.rows)
    context = {
        "asked": asked, "given": asked.given, "page": page, "rows": [journal_line_shown(line) for line in page.rows],
        "url": reverse("journal"), "revision": current_revision(), "downloads": _downloads(asked),
    }
    if requested_section(request) == PART:
        return render_page(request, "journal/_lines.html", context)
    return render_page(request, "journal/page.html", context)


@require_safe
@auditor_required
def download_journal(request: HttpRequest, extension: str) -> HttpResponse:
    """The lines that the page would show, all of them, newest first, in pieces as they are read."""
    form = {name.removeprefix("."): form for name, form in DOWNLOAD_FORMATS.items()}.get(extension)
    if form is None:
        raise Http404("there is no such form of the journal")
    rows = _asked(request).rows
    response = StreamingHttpResponse(export_chunks(LINES, _batches(rows), form), content_type=f"{form.media_type}; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="journal.{extension}"'
    patch_cache_control(response, private=True, no_store=True)
    return response


@require_safe
@auditor_required
def verify_journal(request: HttpRequest) -> HttpResponse:
    """Follows the whole chain, which takes about a second for 100,000 lines."""
    found, revision = first_break(), current_revision()
    return render_page(request, "journal/proof.html", {"break": found, "revision": revision})


def _asked(request: HttpRequest) -> JournalQuery:
    given = {name: text_parameter(request, name) for name in (*TEXTS, *TIMES)}
    given |= {"principal": principal_from_input(name_parameter(request, "principal")),
              "actor": name_from_input(name_parameter(request, "actor"), "user")}
    read, faults = {name: given[name] for name in TEXTS}, {}
    if given["entity"]:
        try:
            read["entity"] = str(parse_address(given["entity"]))
        except AddressError as error:
            faults["entity"] = f"{error}."
    if given["principal"] and ":" not in given["principal"]:
        read["principal"] = f"user:{given['principal']}"
    for name in TIMES:
        try:
            read[name] = _moment(given[name], is_end=name == "until")
        except (ValueError, OverflowError):
            faults[name] = f"`{given[name]}` is no day, such as 2026-02-28, nor a time, such as 2026-02-28T13:30, in UTC."
    return JournalQuery(given, faults, journal_lines().none() if faults else journal_lines(**read))


def _moment(text: str, *, is_end: bool) -> datetime | None:
    """A day or a time in UTC; of a day that ends a stretch, the end. Raises ValueError, OverflowError."""
    if not text:
        return None
    if (day := parse_date(text)) is not None:
        return datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=is_end)
    if (moment := parse_datetime(text)) is None:
        raise ValueError(text)
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def _page(request: HttpRequest, rows: QuerySet[JournalLine]) -> Page:
    """A page from a revision in the URL on, downwards or upwards: it starts from the number, whatever stands before it."""
    before, after = (_revision(request, name) for name in ("before", "after"))
    if before is None and after is not None:
        found = list(rows.filter(place__gt=after).order_by("place")[: LINES_A_PAGE + 1])
        has_newer, has_older = len(found) > LINES_A_PAGE, True
        found = found[:LINES_A_PAGE][::-1]
    else:
        found = list((rows if before is None else rows.filter(place__lt=before))[: LINES_A_PAGE + 1])
        has_newer, has_older = before is not None, len(found) > LINES_A_PAGE
        found = found[:LINES_A_PAGE]
    words = f"lines {found[0].revision:,} to {found[-1].revision:,}" if found else ""
    return Page(
        found, words, len(found),
        url_with(request, after=found[0].revision, before=None) if has_newer and found else "",
        url_with(request, before=found[-1].revision, after=None) if has_older and found else "",
    )


def _revision(request: HttpRequest, name: str) -> int | None:
    text = request.GET.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 18 else None


def _downloads(asked: JournalQuery) -> list[tuple[str, str]]:
    if asked.faults:
        return []
    query = {name: text for name, text in asked.given.items() if text}
    return [(form.title, reverse("journal-file", args=[name.removeprefix(".")], query=query))
            for name, form in DOWNLOAD_FORMATS.items()]


def _batches(rows: QuerySet[JournalLine]) -> Iterator[pa.RecordBatch]:
    schema, lines = arrow_schema(LINES), rows.iterator(chunk_size=LINES_PER_BATCH)
    while some := list(islice(lines, LINES_PER_BATCH)):
        yield pa.RecordBatch.from_pylist([_exported(line) for line in some], schema)


def _exported(line: JournalLine) -> dict:
    return {name: getattr(line, name) for name in LINES.column_names} | {"at": line.at.isoformat()}
