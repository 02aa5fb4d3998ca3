"""The kinds of security events, and how they are recorded: from requests, responses, signals of Django, and
journal lines.

Every event costs one INSERT, and a failing database never fails the request. While SQLite is locked by an
import, events wait in the memory of the process, up to MAX_WAITING, and are stored with the next event. Events
that cannot be stored are logged.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from time import time

from django.conf import settings
from django.contrib.auth import user_logged_in, user_logged_out, user_login_failed
from django.db import DatabaseError, InterfaceError
from django.db.models import QuerySet, TextChoices
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from rest_framework.throttling import BaseThrottle

from authzconsole.common.database import lock_wait
from authzconsole.common.login_throttle import WINDOW_SECONDS, client_address, increment, with_shared_cache
from authzconsole.common.monitoring.metrics import count_security_event
from authzconsole.common.request_id import CONTROL_CHARACTERS, current_request
from authzconsole.models import SecurityEvent
from grants.journal import ACTIONS, lines_appended
from grants.models import JournalLine

logger = logging.getLogger(__name__)

MAX_WAITING = 1_000
LOCK_WAIT_MILLISECONDS = 200
MAX_ROWS_PER_ADDRESS = 20
# many addresses can send failures at the same time
MAX_ROWS_PER_KIND = 2_000
ROWS_PER_DELETION = 10_000
MAX_DELETIONS = 100
# an example without data
UNRECORDED_DOWNLOADS = ("plan-import-sample",)
_waiting: deque[SecurityEvent] = deque(maxlen=MAX_WAITING)


class EventKind(TextChoices):
    """The kind of an event. Kinds that come from a journal line have the name of its action."""

    SIGN_IN = "sign-in", "Signed in"
    SIGN_IN_FAILURE = "sign-in-failure", "Failed sign-in"
    BREAK_GLASS = "break-glass", "Break-glass account used"
    BREAK_GLASS_START = "break-glass-start", "Break-glass access started"
    BREAK_GLASS_END = "break-glass-end", "Break-glass access ended"
    BREAK_GLASS_REVIEW = "break-glass-review", "Break-glass access reviewed"
    SIGN_OUT = "sign-out", "Signed out"
    DENIAL = "denial", "Access denied"
    SEE_AS_START = "see-as-start", "Started to see as another user"
    SEE_AS_STOP = "see-as-stop", "Stopped to see as another user"
    DOWNLOAD = "download", "Download"
    TOKEN_REJECTED = "token-rejected", "Token rejected"
    TOKEN_ADD = "token-add", "Token created"
    TOKEN_REVOKE = "token-revoke", "Token revoked"
    ROLE_SET = "role-set", "Console role changed"
    IDENTITY_LINK = "identity-link", "Identity linked"
    IDENTITY_UNLINK = "identity-unlink", "Identity unlinked"
    FACTOR_ADD = "factor-add", "Second factor added"
    FACTOR_REMOVE = "factor-remove", "Second factor removed"
    FACTOR_RESET = "factor-reset", "Second factors reset"
    PASSWORD_SET = "password-set", "Password set"
    GENERATION_ACTIVATE = "generation-activate", "Generation activated"
    GENERATION_PROPOSE = "generation-propose", "Generation proposed"
    SCHEDULE_ON = "schedule-on", "Nightly run switched on"
    SCHEDULE_OFF = "schedule-off", "Nightly run switched off"
    SCHEDULE_CHANGE = "schedule-change", "Nightly run changed"
    RUN_START = "run-start", "Run started"
    RUN_CANCEL = "run-cancel", "Run cancelled"
    PLAN_DISCARD = "plan-discard", "Plan discarded"
    SEAL = "seal", "Journal sealed"
    SESSIONS_END = "sessions-end", "Sessions ended"
    SIGN_IN_LIMITS_CLEAR = "sign-in-limits-clear", "Sign-in limits cleared"
    WEBHOOK_ADD = "webhook-add", "Webhook created"
    WEBHOOK_CHANGE = "webhook-change", "Webhook changed"
    WEBHOOK_DELETE = "webhook-delete", "Webhook deleted"
    STORAGE_IDENTITY = "storage-identity", "Storage identity changed"
    REQUEST_APPROVE = "request-approve", "Access request approved"
    REQUEST_DENY = "request-deny", "Access request denied"
    APPROVERS_PROPOSE = "approvers-propose", "Approvers of a namespace proposed"
    APPROVERS_SET = "approvers-set", "Approvers of a namespace changed"
    DELEGATION_SET = "delegation-set", "Limits of delegation changed"
    STEWARD_PROPOSE = "steward-propose", "Data steward proposed"
    STEWARD_ADD = "steward-add", "Data steward assigned"
    STEWARD_REMOVE = "steward-remove", "Data steward removed"


# callers without valid credentials can cause these, so their number is limited
FAILURES = frozenset({EventKind.SIGN_IN_FAILURE, EventKind.DENIAL, EventKind.TOKEN_REJECTED})
FROM_JOURNAL = frozenset(EventKind.values).intersection(ACTIONS)


class SecurityEventMiddleware:
    """Record each 403 as a denial, and each attachment or stream as a download."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]):
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if response.status_code == 403:
            record_denial(request)
        elif response.status_code == 200 and (response.streaming or "Content-Disposition" in response):
            match = request.resolver_match
            if match is None or match.url_name not in UNRECORDED_DOWNLOADS:
                query = request.META.get("QUERY_STRING", "")
                record_event(EventKind.DOWNLOAD, request=request, target=request.path, detail=query)
        return response


def record_denial(request: HttpRequest) -> None:
    """Record that the console refused a request with 403. Decisions that deny are not recorded."""
    record_event(EventKind.DENIAL, request=request, target=request.path, detail=request.method)


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
        count = count_to_record(kind, client_address(request) if request else "")
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
        with lock_wait(LOCK_WAIT_MILLISECONDS):
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


def count_to_record(kind: str, network: str) -> int:
    """Count a failure. Return the number of failures that the next row represents, or 0 if no row must be
    written, so that a flood of wrong passwords does not fill the table.

    In each window, each of the first failures of a kind from one address has a row. After that, a row is
    written when the number of failures reaches a power of two, and represents those since the previous row.
    """
    key = f"events:{kind}:{int(time()) // WINDOW_SECONDS}"
    number, total = (
        with_shared_cache(lambda cache, key=key: increment(cache, key)) for key in (f"{key}:{network}", key)
    )
    limit = MAX_ROWS_PER_ADDRESS
    if total > MAX_ROWS_PER_KIND:
        number, limit = total, MAX_ROWS_PER_KIND
    if number <= limit:
        return 1
    is_power_of_two = number & (number - 1) == 0
    return number - max(limit, number // 2) if is_power_of_two else 0


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


def clean_security_events() -> int:
    """Delete old events in short transactions and return their number.

    At most MAX_DELETIONS batches; the next call continues.
    """
    if not settings.SECURITY_EVENTS_KEPT_DAYS:
        return 0
    before, deleted = timezone.now() - timedelta(days=settings.SECURITY_EVENTS_KEPT_DAYS), 0
    for _ in range(MAX_DELETIONS):
        numbers = list(
            SecurityEvent.objects.filter(at__lt=before)
            .order_by("pk")
            .values_list("pk", flat=True)[:ROWS_PER_DELETION]
        )
        if not numbers:
            break
        # the model's own queryset refuses to delete rows
        QuerySet(SecurityEvent).filter(at__lt=before, pk__lte=numbers[-1]).delete()
        deleted += len(numbers)
    if deleted:
        logger.info(
            "%d security events were deleted: SECURITY_EVENTS_KEPT_DAYS is %d",
            deleted,
            settings.SECURITY_EVENTS_KEPT_DAYS,
        )
    return deleted
