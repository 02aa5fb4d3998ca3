"""Show pages as of an earlier revision: the URL parameter `as_of` of pages that support it.

Only administrators and auditors can look at the past. They see it without buttons that change anything.
"""

import copy
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import partial, wraps

from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

from authzconsole.common.messages import as_sentence
from authzconsole.web.shared.paging import url_with
from authzconsole.web.shared.parameters import text_parameter
from authzconsole.web.shared.rendering import render_page
from authzconsole.web.shared.times import in_reader_zone, start_of_day
from entities.address import Address
from entities.frozen import frozen
from entities.vocabulary import clip
from grants.history import (
    AsOfError,
    HistoryError,
    KnownSince,
    Moment,
    as_of,
    known_since,
    parse_at,
    parse_moment,
    revision_time,
)
from grants.models import Role, User
from grants.validity import at_time

EARLIER_STATES_REFUSED = "only administrators and auditors can look at earlier states"
OTHER_TIMES_REFUSED = "only administrators and auditors can ask about other times"
Subject = Callable[..., Address | str | None]


@frozen
class Past:
    """The revision that a page shows.

    at: the time that `as_of` names; None if it names a revision. The periods of grants and memberships count
    at this time.
    subject: the address or principal of the page; empty for a page about several.
    known: the first journal line about the address or principal of the page; None for a page about several.
    link_text: the value of `as_of` for links, a revision or a time in UTC.
    """

    revision: int
    time: datetime
    at: datetime | None
    now_url: str
    subject: str
    known: KnownSince | None
    link_text: str

    @property
    def is_before_known(self) -> bool:
        return self.known is not None and self.revision < self.known.revision


def past_moment_of(request: HttpRequest) -> str:
    """Return the value of `as_of` for downloads with the same content as the page; empty for the present."""
    past = getattr(request, "past", None)
    return past.link_text if past else ""


def as_of_for_links(request: HttpRequest) -> str:
    """Return the parameter `as_of` of the page so that it means the same in every time zone."""
    return past_moment_of(request) or text_parameter(request, "as_of")


def at_for_links(request: HttpRequest) -> str:
    """Return the parameter `at` of the page so that it means the same in every time zone."""
    moment = getattr(request, "question_time", None)
    return _in_utc(moment) if moment else text_parameter(request, "at")


def shows_past(subject: Subject) -> Callable:
    """Render the page with the state at the revision or time in the URL parameter `as_of`.

    subject: returns the address or principal of the page from the arguments of the view; None if it has none.
    If the revision or time does not exist, the page shows the current state with an error message above it.
    """

    def decorate(view):
        @wraps(view)
        def past_view(request: HttpRequest, *args, **kwargs) -> HttpResponse:
            text = text_parameter(request, "as_of")
            if text and not request.user.can_read_journal:
                _show_present(request, EARLIER_STATES_REFUSED)
            elif text:
                try:
                    moment = _moment_from_input(text)
                    render = partial(view, request, *args, **kwargs)
                    return _render_past(request, moment, subject(*args, **kwargs), render)
                except HistoryError as error:
                    _show_present(request, error)
            return view(request, *args, **kwargs)

        return past_view

    return decorate


def shows_time(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Render the page with the grants and memberships that are valid at the time in the URL parameter `at`.

    Only for administrators and auditors, because the grants of another time do not decide what an account may
    see now. If the time is invalid, the page shows the present with an error message above it. The page must
    not be streamed.
    """

    @wraps(view)
    def view_at_time(request: HttpRequest, *args, **kwargs) -> HttpResponse:
        text = text_parameter(request, "at")
        if text and not request.user.can_see_all:
            _show_present(request, OTHER_TIMES_REFUSED)
        elif text:
            try:
                moment = _time_from_input(text)
            except HistoryError as error:
                _show_present(request, error)
            else:
                request.question_time, request.now_url = moment, url_with(request, at=None)
                with at_time(moment):
                    return view(request, *args, **kwargs)
        return view(request, *args, **kwargs)

    return view_at_time


def _time_from_input(text: str) -> datetime:
    """Return the time for the text of a form: a date, which means its beginning, or a time, by default in the
    reader's zone.

    Raise AsOfError if it is invalid.
    """
    day, time = _parse_input(text)
    try:
        if day:
            return start_of_day(day)
        return parse_at(text) if time is None else in_reader_zone(time)
    except OverflowError:
        raise AsOfError(f"`{clip(text)}` is too far away") from None


def revision_from_input(text: str) -> int:
    """Return the revision for the text of a form; see `_moment_from_input`."""
    return _moment_from_input(text).revision or 0


def _moment_from_input(text: str) -> Moment:
    """Return the moment for the text of a form: a revision, a date, which means its end, or a time.

    Dates, and times without a zone, are those of the reader. Raise AsOfError if there is no such revision.
    """
    day, time = _parse_input(text)
    try:
        if day:
            end = start_of_day(day + timedelta(days=1)) - timedelta(microseconds=1)
            # today has not ended
            time = min(end, timezone.now()) if end - timezone.now() < timedelta(days=1) else end
        return parse_moment(text if time is None else in_reader_zone(time).isoformat())
    except OverflowError:
        raise AsOfError(f"`{clip(text)}` is too far away") from None


def _in_utc(time: datetime) -> str:
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _parse_input(text: str) -> tuple[date | None, datetime | None]:
    """Return a date, or a time, or neither."""
    try:
        day = parse_date(text)
        return day, None if day else parse_datetime(text)
    except ValueError:
        return None, None


def _show_present(request: HttpRequest, fault: str | HistoryError) -> None:
    """Let the page show the present, with an error message above it."""
    request.past, request.past_fault = None, f"{as_sentence(fault)} This page shows the state now."


def _render_past(
    request: HttpRequest, moment: Moment, subject: Address | str | None, render: Callable[[], HttpResponse]
) -> HttpResponse:
    present_user, revision = request.user, moment.revision or 0
    try:
        with as_of(revision, moment.at):
            known = known_since(subject) if subject else None
            request.past = Past(
                revision,
                revision_time(revision),
                moment.at,
                url_with(request, as_of=None),
                str(subject or ""),
                known,
                _in_utc(moment.at) if moment.at else str(revision),
            )
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
    """Return the account without the right to change anything, for the checks of pages and templates.

    It is never stored.
    """
    reader = copy.copy(user)
    reader.role = Role.AUDITOR
    # the page names the role that the account has
    setattr(reader, "get_role_display", user.get_role_display)  # noqa: B010
    return reader
