"""Record security events. Every event costs one INSERT, and a failing database never fails the request.

While SQLite is locked by an import, events wait in the memory of the process, up to MAX_WAITING, and are
stored with the next event. Events that cannot be stored are logged.
"""

import logging
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from django.db import DatabaseError, InterfaceError, connection
from django.http import HttpRequest
from django.utils import timezone
from rest_framework.throttling import BaseThrottle

from authzconsole.common import login_throttle
from authzconsole.common.monitoring.metrics import count_security_event
from authzconsole.common.request_id import CONTROL_CHARACTERS, current_request
from authzconsole.common.security_events.kinds import FAILURES, EventKind
from authzconsole.common.security_events.limits import count_to_record
from authzconsole.models import SecurityEvent

logger = logging.getLogger(__name__)

MAX_WAITING = 1_000
LOCK_WAIT_MILLISECONDS = 200
_waiting: deque[SecurityEvent] = deque(maxlen=MAX_WAITING)


def record_event(
    kind: EventKind,
    *,
    request: HttpRequest | None = None,
    account: str | None = None,
    target: str = "",
    detail: str = "",
) -> None:
    """Record an event of the request, by default the current one. Never raises a database error.

    account: by default the account of the request. An administrator who sees the console as another user is
    recorded as the administrator.
    """
    request = request or current_request()
    count = 1
    count_security_event(kind)
    if kind in FAILURES:
        count = count_to_record(kind, login_throttle.client_address(request) if request else "")
    if not count:
        return
    token = getattr(request, "api_token", None)
    _store(
        [
            SecurityEvent(
                at=timezone.now(),
                kind=str(kind),
                account=storable(account_of(request) if account is None else account, 150),
                address=address_of_request(request),
                target=storable(target, 600),
                detail=storable(detail, 600),
                request_id=getattr(request, "id", ""),
                token=token.number if token else None,
                count=count,
            )
        ]
    )


def account_of(request: HttpRequest | None) -> str:
    """Return the name of the account that sent the request; empty if it is not known yet. Runs no query."""
    if token := getattr(request, "api_token", None):
        return token.owner_name
    user = getattr(request, "impersonator", None) or getattr(request, "user", None)
    return user.get_username() if user is not None and user.is_authenticated else ""


def address_of_request(request: HttpRequest | None) -> str:
    """Return the client address that the trusted proxies report; empty without a request."""
    return storable((BaseThrottle().get_ident(request) or "") if request else "", 45)


def storable(text: str, max_characters: int) -> str:
    """Return the text without control characters and lone surrogates, which the database or the log would
    refuse.
    """
    return (
        CONTROL_CHARACTERS.sub("\N{REPLACEMENT CHARACTER}", text[:max_characters])
        .encode("utf-8", "replace")
        .decode()
    )


def _store(events: Sequence[SecurityEvent]) -> None:
    events = [*_take_waiting(), *events]
    try:
        with _short_lock_wait():
            if len(events) == 1:
                events[0].save(force_insert=True)
            else:
                SecurityEvent.objects.bulk_create(events)
    except (DatabaseError, InterfaceError) as error:
        _waiting.extend(events)
        logger.error(
            "%d security events wait, because the database refused them (%s); the last is %s of `%s` from %s: %s %s",
            len(events),
            type(error).__name__,
            events[-1].kind,
            events[-1].account,
            events[-1].address,
            events[-1].target,
            events[-1].detail,
        )


def _take_waiting() -> Iterator[SecurityEvent]:
    while _waiting:
        try:
            yield _waiting.popleft()
        except IndexError:
            # another thread took it
            return


@contextmanager
def _short_lock_wait() -> Iterator[None]:
    """Wait at most LOCK_WAIT_MILLISECONDS for the lock of SQLite, because an import can hold it for minutes."""
    if connection.vendor != "sqlite" or connection.in_atomic_block:
        yield
        return
    with connection.cursor() as cursor:
        timeout_milliseconds = cursor.execute("PRAGMA busy_timeout").fetchone()[0]
        cursor.execute(f"PRAGMA busy_timeout = {LOCK_WAIT_MILLISECONDS}")
        try:
            yield
        finally:
            cursor.execute(f"PRAGMA busy_timeout = {timeout_milliseconds}")
