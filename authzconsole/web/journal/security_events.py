"""The page of security events with filters."""

from authzconsole.common.security_events.record import EventKind
from authzconsole.lists.journal import SecurityEvents
from authzconsole.web.forms import ListForm, OptionalChoiceField, PrincipalField, TextField, TimeFilterField
from authzconsole.web.lists import ListPage


class EventForm(ListForm):
    list_type = SecurityEvents

    kind = OptionalChoiceField(choices=sorted(EventKind.choices, key=lambda choice: choice[1]))
    account = PrincipalField(only="user")
    address = TextField()
    since = TimeFilterField()
    until = TimeFilterField(is_end=True)


class SecurityEventList(ListPage):
    form_class = EventForm
    template_name = "journal/security_events.html"
    section = ("events", "journal/_security_events.html")
    page_url = "journal-security-events"
    file_url = "journal-security-events-file"
