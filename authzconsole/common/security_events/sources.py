"""Record events from the signals of Django for every way to sign in, and from journal lines for every way to
make a change.
"""

from collections.abc import Sequence

from django.contrib.auth import user_logged_in, user_logged_out, user_login_failed
from django.http import HttpRequest

from authzconsole.common.monitoring.metrics import count_security_event
from authzconsole.common.request_id import current_request
from authzconsole.common.security_events.kinds import FROM_JOURNAL, EventKind
from authzconsole.common.security_events.record import address_of_request, record_event, storable
from authzconsole.models import SecurityEvent
from grants.journal import lines_appended
from grants.models import JournalLine


def connect_sources() -> None:
    """Connect the receivers. Called once, when Django is ready."""
    user_logged_in.connect(_record_sign_in, dispatch_uid="security_events")
    user_login_failed.connect(_record_failure, dispatch_uid="security_events")
    user_logged_out.connect(_record_sign_out, dispatch_uid="security_events")
    lines_appended.connect(_record_lines, dispatch_uid="security_events")


def _record_sign_in(request: HttpRequest | None, user, **_) -> None:
    record_event(EventKind.SIGN_IN, request=request, account=user.get_username())


def _record_failure(credentials: dict, request: HttpRequest | None = None, **_) -> None:
    record_event(EventKind.SIGN_IN_FAILURE, request=request, account=str(credentials.get("username", "")))


def _record_sign_out(request: HttpRequest | None, user, **_) -> None:
    if user is not None:
        record_event(EventKind.SIGN_OUT, request=request, account=user.get_username())


def _record_lines(lines: Sequence[JournalLine], **_) -> None:
    """Store the events in the transaction of the lines, so that there is no line without its event."""
    if relevant_lines := [line for line in lines if line.action in FROM_JOURNAL]:
        for line in relevant_lines:
            count_security_event(line.action)
        address = address_of_request(current_request())
        SecurityEvent.objects.bulk_create(_event_of_line(line, address) for line in relevant_lines)


def _event_of_line(line: JournalLine, address: str) -> SecurityEvent:
    # lines about data stewards and approvers name a principal and a namespace; an event has one target
    detail = f"{line.entity} {line.detail}".strip() if line.principal else line.detail
    return SecurityEvent(
        at=line.at,
        kind=line.action,
        account=line.actor,
        address=address,
        target=storable(line.principal or line.entity, 600),
        detail=storable(detail, 600),
        request_id=line.request_id,
        token=line.token,
    )
