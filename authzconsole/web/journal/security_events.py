"""The page of security events with filters, and its downloads."""

from dataclasses import dataclass

from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from analytics.results.export import DOWNLOAD_FORMATS
from analytics.tables import Column, ColumnType, Table
from authzconsole.common.downloads.table_files import table_file
from authzconsole.common.security_events.kinds import EventKind
from authzconsole.common.security_events.queries import EVENT_MEMBERS, event_as_json, security_events
from authzconsole.models import SecurityEvent
from authzconsole.web.shared.guard import capability_required
from authzconsole.web.shared.paging import paginate_newest_first
from authzconsole.web.shared.parameters import TIME_FIELDS, choice_parameter, text_parameter, time_filters
from authzconsole.web.shared.principal_input import name_from_input
from authzconsole.web.shared.rendering import render_page, requested_section
from grants.roles.capabilities import Capability

EVENTS_PER_PAGE = 50
ROWS_PER_READ = 2_000
SECTION = "events"
TABLE = Table(
    "security-events",
    tuple(
        Column(name, ColumnType.LONG if name in ("id", "count") else ColumnType.TEXT)
        for name in ("id", "at", *EVENT_MEMBERS)
    ),
    ("id",),
)
EXTENSIONS = {name.removeprefix("."): DOWNLOAD_FORMATS[name] for name in (".csv", ".jsonl")}


@dataclass(frozen=True, slots=True)
class EventQuery:
    """The filters of a request. fields: the submitted texts. faults: messages by field; if there are any, no
    row matches.
    """

    fields: dict[str, str]
    faults: dict[str, str]
    rows: QuerySet[SecurityEvent]

    @property
    def is_filtered(self) -> bool:
        return any(self.fields.values())


@require_safe
@capability_required(Capability.READ_SECURITY_EVENTS)
def security_event_page(request: HttpRequest) -> HttpResponse:
    query = _query(request)
    page = paginate_newest_first(
        request,
        query.rows,
        "pk",
        max_rows=EVENTS_PER_PAGE,
        position=lambda events: f"{len(events):,} on this page",
    )
    template = (
        "journal/_security_events.html"
        if requested_section(request) == SECTION
        else "journal/security_events.html"
    )
    parameters = {name: text for name, text in query.fields.items() if text}
    return render_page(
        request,
        template,
        {
            "query": query,
            "form": query.fields,
            "page": page,
            "kinds": sorted(EventKind.choices, key=lambda choice: choice[1]),
            "rows": [{"event": event, "label": _label(event.kind)} for event in page.rows],
            "url": request.path,
            "downloads": []
            if query.faults
            else [
                (form.title, reverse("journal-security-events-file", args=[extension], query=parameters))
                for extension, form in EXTENSIONS.items()
            ],
        },
    )


@require_safe
@capability_required(Capability.READ_SECURITY_EVENTS)
def download_security_events(request: HttpRequest, extension: str) -> HttpResponse:
    """Stream all events that match the filters of the URL, newest first."""
    if extension not in EXTENSIONS:
        raise Http404("there is no such file format")
    events = _query(request).rows.iterator(chunk_size=ROWS_PER_READ)
    return table_file(TABLE, extension, "security-events", rows=map(_export_row, events))


def _label(kind: str) -> str:
    return EventKind(kind).label if kind in EventKind else kind


def _query(request: HttpRequest) -> EventQuery:
    fields = {
        "kind": choice_parameter(request, "kind", EventKind.values),
        "address": text_parameter(request, "address"),
        "account": name_from_input(text_parameter(request, "account"), "user"),
    }
    texts = {name: text_parameter(request, name) for name in TIME_FIELDS}
    times, faults = time_filters(texts)
    rows = SecurityEvent.objects.none() if faults else security_events(**fields, **times)
    return EventQuery(fields | texts, faults, rows)


def _export_row(event: SecurityEvent) -> dict:
    return event_as_json(event) | {"token": "" if event.token is None else str(event.token)}
