"""The page of security events with filters, and its downloads."""

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from authzconsole.common.security_events.record import EventKind
from authzconsole.lists.files import download_links, list_file
from authzconsole.lists.journal import SecurityEvents
from authzconsole.web.shared.guard import capability_required
from authzconsole.web.shared.paging import paginate_newest_first
from authzconsole.web.shared.parameters import TIME_FIELDS, choice_parameter, text_parameter, time_filters
from authzconsole.web.shared.principal_input import name_from_input
from authzconsole.web.shared.rendering import render_page, requested_section

EVENTS_PER_PAGE = 50
SECTION = "events"


@dataclass(frozen=True, slots=True)
class EventQuery:
    """The filters of a request. fields: the submitted texts. faults: messages by field; if there are any, no
    row matches.
    """

    fields: dict[str, str]
    faults: dict[str, str]
    listed: SecurityEvents

    @property
    def is_filtered(self) -> bool:
        return any(self.fields.values())


@require_safe
@capability_required(*SecurityEvents.readers)
def security_event_page(request: HttpRequest) -> HttpResponse:
    query = _query(request)
    page = paginate_newest_first(
        request,
        query.listed.rows(),
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
            else download_links(
                SecurityEvents,
                lambda extension: reverse("journal-security-events-file", args=[extension], query=parameters),
            ),
        },
    )


@require_safe
@capability_required(*SecurityEvents.readers)
def download_security_events(request: HttpRequest, extension: str) -> HttpResponse:
    """Stream all events that match the filters of the URL, newest first."""
    return list_file(_query(request).listed, extension)


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
    return EventQuery(
        fields | texts, faults, SecurityEvents(request.user, fields | times, is_valid=not faults)
    )
