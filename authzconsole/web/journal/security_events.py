"""The page of security events with filters, and its downloads."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import reverse
from django.utils.cache import patch_cache_control
from django.views.decorators.http import require_safe

from analytics.arrow import arrow_schema
from analytics.results.export import DOWNLOAD_FORMATS, export_chunks
from analytics.tables import Column, ColumnType, Table
from authzconsole.common.security_events.kinds import EventKind
from authzconsole.common.security_events.queries import EVENT_MEMBERS, event_as_json, security_events
from authzconsole.models import SecurityEvent
from authzconsole.web.shared.guard import auditor_required
from authzconsole.web.shared.paging import Page, url_with
from authzconsole.web.shared.parameters import TIME_FAULT, choice_parameter, parse_time, text_parameter
from authzconsole.web.shared.principal_input import name_from_input
from authzconsole.web.shared.rendering import render_page, requested_section

EVENTS_PER_PAGE = 50
ROWS_PER_BATCH = 2_000
SECTION = "events"
TIME_FIELDS = ("since", "until")
TABLE = Table(
    "security-events",
    tuple(Column(name, ColumnType.LONG if name in ("id", "count") else ColumnType.TEXT) for name in ("id", "at", *EVENT_MEMBERS)),
    ("id",),
)
EXTENSIONS = {name.removeprefix("."): DOWNLOAD_FORMATS[name] for name in (".csv", ".jsonl")}


@dataclass(frozen=True, slots=True)
class EventQuery:
    """The filters of a request. fields: the submitted texts. faults: messages by field; if there are any, no row matches."""

    fields: dict[str, str]
    faults: dict[str, str]
    rows: QuerySet[SecurityEvent]

    @property
    def is_filtered(self) -> bool:
        return any(self.fields.values())


@require_safe
@auditor_required
def security_event_page(request: HttpRequest) -> HttpResponse:
    query = _query(request)
    page = _page(request, query.rows)
    template = "journal/_security_events.html" if requested_section(request) == SECTION else "journal/security_events.html"
    parameters = {name: text for name, text in query.fields.items() if text}
    return render_page(request, template, {
        "query": query, "form": query.fields, "page": page, "kinds": sorted(EventKind.choices, key=lambda choice: choice[1]),
        "rows": [{"event": event, "label": _label(event.kind)} for event in page.rows], "url": request.path,
        "downloads": [] if query.faults else [
            (form.title, reverse("journal-security-events-file", args=[extension], query=parameters))
            for extension, form in EXTENSIONS.items()]})


@require_safe
@auditor_required
def download_security_events(request: HttpRequest, extension: str) -> HttpResponse:
    """Stream all events that match the filters of the URL, newest first."""
    if (form := EXTENSIONS.get(extension)) is None:
        raise Http404("there is no such file format")
    response = StreamingHttpResponse(export_chunks(TABLE, _batches(_query(request).rows), form),
                                     content_type=f"{form.media_type}; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="security-events.{extension}"'
    patch_cache_control(response, private=True, no_store=True)
    return response


def _label(kind: str) -> str:
    return EventKind(kind).label if kind in EventKind else kind


def _query(request: HttpRequest) -> EventQuery:
    fields = {"kind": choice_parameter(request, "kind", EventKind.values), "address": text_parameter(request, "address"),
              "account": name_from_input(text_parameter(request, "account"), "user")}
    filters, faults = dict(fields), {}
    for name in TIME_FIELDS:
        fields[name] = text_parameter(request, name)
        try:
            filters[name] = parse_time(fields[name], is_end=name == "until")
        except (ValueError, OverflowError):
            faults[name] = TIME_FAULT.format(fields[name])
    return EventQuery(fields, faults, SecurityEvent.objects.none() if faults else security_events(**filters))


def _page(request: HttpRequest, rows: QuerySet[SecurityEvent]) -> Page:
    """Return the events before or after the number in the URL. Runs one query."""
    before, after = (_number(request, name) for name in ("before", "after"))
    if before is None and after is not None:
        events = list(rows.filter(pk__gt=after).order_by("pk")[: EVENTS_PER_PAGE + 1])
        has_newer, has_older = len(events) > EVENTS_PER_PAGE, True
        events = events[:EVENTS_PER_PAGE][::-1]
    else:
        events = list((rows if before is None else rows.filter(pk__lt=before))[: EVENTS_PER_PAGE + 1])
        has_newer, has_older = before is not None, len(events) > EVENTS_PER_PAGE
        events = events[:EVENTS_PER_PAGE]
    return Page(
        events, f"{len(events):,} on this page" if events else "", len(events),
        url_with(request, after=events[0].pk, before=None) if has_newer and events else "",
        url_with(request, before=events[-1].pk, after=None) if has_older and events else "")


def _number(request: HttpRequest, name: str) -> int | None:
    text = request.GET.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 18 else None


def _batches(rows: QuerySet[SecurityEvent]) -> Iterator[pa.RecordBatch]:
    schema, events = arrow_schema(TABLE), rows.iterator(chunk_size=ROWS_PER_BATCH)
    while batch := list(islice(events, ROWS_PER_BATCH)):
        yield pa.RecordBatch.from_pylist([_export_row(event) for event in batch], schema)


def _export_row(event: SecurityEvent) -> dict:
    return event_as_json(event) | {"token": "" if event.token is None else str(event.token)}
