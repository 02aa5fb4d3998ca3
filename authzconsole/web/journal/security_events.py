"""The page of security events with filters, and its downloads."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from authzconsole.common.security_events.record import EventKind
from authzconsole.lists.files import list_file
from authzconsole.lists.journal import SecurityEvents
from authzconsole.web.forms import ListForm, OptionalChoiceField, PrincipalField, TextField, TimeFilterField
from authzconsole.web.shared.guard import capability_required
from authzconsole.web.shared.paging import keyset_page
from authzconsole.web.shared.rendering import render_page, requested_section

EVENTS_PER_PAGE = 50
SECTION = "events"


class EventForm(ListForm):
    list_type = SecurityEvents

    kind = OptionalChoiceField(choices=sorted(EventKind.choices, key=lambda choice: choice[1]))
    account = PrincipalField(only="user")
    address = TextField()
    since = TimeFilterField()
    until = TimeFilterField(is_end=True)


@require_safe
@capability_required(*SecurityEvents.readers)
def security_event_page(request: HttpRequest) -> HttpResponse:
    form = EventForm(request.GET)
    listed = form.filtered_list(request.user)
    is_section = requested_section(request) == SECTION
    return render_page(
        request,
        f"journal/{'_' if is_section else ''}security_events.html",
        {
            "form": form,
            "page": keyset_page(request, listed.rows(), *listed.order, max_rows=EVENTS_PER_PAGE),
            "url": request.path,
            "downloads": form.downloads("journal-security-events-file"),
        },
    )


@require_safe
@capability_required(*SecurityEvents.readers)
def download_security_events(request: HttpRequest, extension: str) -> HttpResponse:
    """Stream all events that match the filters of the URL, newest first."""
    return list_file(EventForm(request.GET).filtered_list(request.user), extension)
