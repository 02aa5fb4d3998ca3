"""Show pages as of an earlier revision: the URL parameter `as_of` of pages that support it.

Only administrators and auditors can look at the past. They see it without buttons that change anything.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import wraps

from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

from authzconsole.web.shared.paging import url_with
from authzconsole.web.shared.parameters import text_parameter
from authzconsole.web.shared.rendering import render_page
from entities.address import Address
from grants.history import HistoryError, KnownSince, as_of, known_since, parse_as_of, revision_time
from grants.models import Role, User

OVERSEERS_ONLY = "Only administrators and auditors can look at earlier states. This page shows the state now."
Subject = Callable[..., Address | str | None]


@dataclass(frozen=True, slots=True)
class Past:
    """The revision that a page shows. known: the first line about its subject, if the subject is one address or principal."""

    revision: int
    time: datetime
    now_url: str
    known: KnownSince | None

    @property
    def is_before_known(self) -> bool:
        return self.known is not None and self.revision < self.known.revision


def past_revision_of(request: HttpRequest) -> str:
    """Return the revision that the page shows, as text; empty for the present."""
    past = getattr(request, "past", None)
    return str(past.revision) if past else ""


def shows_past(subject: Subject) -> Callable:
    """Render the page with the state at the revision or time in the URL parameter `as_of`.

    subject: returns the address or principal of the page from the arguments of the view; None if it has none.
    If the revision or time does not exist, the page shows the present state with an error message above it.
    """
    def decorate(view):
        @wraps(view)
        def past_view(request: HttpRequest, *args, **kwargs) -> HttpResponse:
            if not (text := text_parameter(request, "as_of")):
                return view(request, *args, **kwargs)
            if not request.user.can_see_all:
                return _present(request, OVERSEERS_ONLY, lambda: view(request, *args, **kwargs))
            try:
                revision = revision_from_input(text)
                return _render_past(request, revision, subject(*args, **kwargs), lambda: view(request, *args, **kwargs))
            except HistoryError as error:
                return _present(request, f"{str(error).capitalize()}. This page shows the state now.",
                                lambda: view(request, *args, **kwargs))

        return past_view

    return decorate


def revision_from_input(text: str) -> int:
    """Return the revision for the text of a form: a revision, a date, which means its end, or a time, by default in UTC.

    Raise AsOfError if there is no such revision.
    """
    try:
        day, time = parse_date(text), None
        time = None if day else parse_datetime(text)
    except ValueError:
        return parse_as_of(text)
    if day:
        end = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=1, microseconds=-1)
        # today has not ended
        time = min(end, timezone.now()) if end - timezone.now() < timedelta(days=1) else end
    if time is None:
        return parse_as_of(text)
    return parse_as_of((time if time.tzinfo else time.replace(tzinfo=UTC)).isoformat())


def _present(request: HttpRequest, fault: str, render: Callable[[], HttpResponse]) -> HttpResponse:
    request.past, request.past_fault = None, fault
    return render()


def _render_past(request: HttpRequest, revision: int, subject: Address | str | None,
                 render: Callable[[], HttpResponse]) -> HttpResponse:
    present_user = request.user
    try:
        with as_of(revision):
            known = known_since(subject) if subject else None
            request.past = Past(revision, revision_time(revision), url_with(request, as_of=None), known)
            request.user = _read_only(present_user)
            response = render()
            # its rows would be read after the end of `as_of`
            assert not response.streaming, "a page about the past cannot be streamed"
            return response
    except Http404:
        return render_page(request, "shared/past/missing.html", {"subject": subject}, status=404)
    finally:
        request.user = present_user


def _read_only(user: User) -> User:
    """Return the account without the right to change anything, for the checks of pages and templates. It is never stored."""
    reader = copy.copy(user)
    reader.role = Role.AUDITOR
    # the page names the role that the account has
    setattr(reader, "get_role_display", user.get_role_display)  # noqa: B010
    return reader
