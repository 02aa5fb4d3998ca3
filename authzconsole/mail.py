"""E-mail about access requests, ended and break-glass access, alerts, and findings, in plain text, through the mail server of EMAIL_HOST.
Periodic tasks call this.

The rows are the queues: an event, a use or a finding without `notified_at` is due, and a maintenance record stores the last
journal line about an ended period that was read. So no message is lost if the worker or Redis stops.
"""

import logging
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.db import transaction
from django.db.models import Q
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone

from analytics.models import FigureCrossing
from authzconsole.common.mail import send_due_rows, send_message
from authzconsole.common.monitoring.maintenance import record_maintenance
from authzconsole.findings.kinds import in_state
from authzconsole.findings.refresh import finding_sentence
from authzconsole.findings.services import can_read_findings
from authzconsole.models import Finding, FindingState, MaintenanceRecord, MaintenanceTask, Severity
from authzconsole.web.reports.charts.trends import figure_label
from authzconsole.web.shared.times import abbreviation
from entities.vocabulary import quantity
from grants.changes import EXPIRE_ACTION
from grants.journal import current_revision
from grants.journal_details import parse_detail
from grants.models import (
    AccessRequest,
    AccessRequestEvent,
    BreakGlassUse,
    JournalLine,
    RequestEventKind,
    User,
)
from grants.principals.renaming import names_since
from grants.requests.approvers import approver_accounts
from grants.requests.disclosure import view_of
from grants.requests.expiry import expire_requests, mark_reminded, requests_to_remind
from grants.roles.capabilities import Capability, roles_with

logger = logging.getLogger(__name__)

LINES_AT_ONCE = 1_000
LISTED_MOST = 20
# older lines and events are not sent, such as those before the mail server was configured
MAX_AGE = timedelta(days=1)


def send_expiry_mail() -> int:
    """Send the due e-mails if a mail server is configured. Return their number. Runs four queries if none is
    due.

    If the mail server fails, the next call sends the e-mails of these lines again.
    """
    if not settings.EMAIL_HOST:
        return 0
    position, head = _position(), current_revision()
    # the journal can be shorter than the position after a database was restored
    if position is None or position > head:
        record_maintenance(MaintenanceTask.EXPIRY_MAIL, revision=head)
        return 0
    lines = list(
        JournalLine.objects.filter(revision__gt=position, revision__lte=head, action=EXPIRE_ACTION).order_by(
            "revision"
        )[:LINES_AT_ONCE]
    )
    last_read = lines[-1].revision if len(lines) == LINES_AT_ONCE else head
    if not _move(position, last_read) or not lines:
        return 0
    try:
        return _send(list(_expiry_messages(lines)))
    except OSError as error:
        fault = f"e-mail about ended access waits, because the mail server failed ({type(error).__name__})"
        _move(last_read, position, fault)
        logger.error(fault)
        return 0


def _position() -> int | None:
    return (
        MaintenanceRecord.objects.filter(task=MaintenanceTask.EXPIRY_MAIL)
        .values_list("revision", flat=True)
        .first()
    )


def _move(position: int, new_position: int, fault: str = "") -> bool:
    """Store the last line that was read. Return False if another worker has read these lines."""
    record = MaintenanceRecord.objects.filter(task=MaintenanceTask.EXPIRY_MAIL, revision=position)
    return bool(record.update(revision=new_position, at=timezone.now(), is_ok=not fault, text=fault))


def _send(messages: list[EmailMessage]) -> int:
    if not messages:
        return 0
    with get_connection() as connection:
        return sum(send_message(message, connection) for message in messages)


def _expiry_messages(lines: list[JournalLine]) -> Iterator[EmailMessage]:
    """Yield one message for each active user with an e-mail address. Runs two queries."""
    written_name, newest = names_since(lines[0].revision - 1), timezone.now() - MAX_AGE
    ended = defaultdict(list)
    for line in lines:
        if line.principal.startswith("user:") and line.at > newest:
            ended[written_name(line.principal).removeprefix("user:")].append(_ended_access(line))
    for user in (
        User.objects.filter(username__in=ended, is_active=True).exclude(email="").order_by("username")
    ):
        yield _expiry_message(user, ended[user.username])


def _ended_access(line: JournalLine) -> dict:
    detail = parse_detail(line.detail)
    what = f"{line.privilege} on {line.entity}" if line.entity else f"the membership in {detail.rest}"
    return {"what": what, "at": detail.period.valid_until}


def _expiry_message(user: User, ended: list[dict]) -> EmailMessage:
    text = render_to_string(
        "people/mail/ended_access.txt",
        {
            "user": user,
            "listed": ended[:LISTED_MOST],
            "more": max(0, len(ended) - LISTED_MOST),
            "url": f"{settings.PUBLIC_URL}{reverse('my-access')}",
        },
    )
    return EmailMessage(
        f"{quantity(len(ended), 'grant or membership', 'grants and memberships')} ended",
        text,
        to=[user.email],
    )


EVENTS_AT_ONCE = 100
# older events are not sent, such as those before the mail server was configured
FOR_APPROVERS = (RequestEventKind.CREATED, RequestEventKind.ANSWERED, RequestEventKind.REMINDED)
FOR_REQUESTERS = (
    RequestEventKind.APPROVED,
    RequestEventKind.DENIED,
    RequestEventKind.ASKED,
    RequestEventKind.EXPIRED,
)


def sweep_requests() -> None:
    """Expire requests, remind approvers, and send the e-mails that are due."""
    while expire_requests():
        pass
    for request in requests_to_remind()[:EVENTS_AT_ONCE]:
        mark_reminded(request)
    if settings.EMAIL_HOST:
        send_due_mail()


def send_due_mail() -> int:
    """Send the e-mails of events that are due.

    Return how many were sent. If the mail server fails, the next call continues.
    """
    due = AccessRequestEvent.objects.filter(
        notified_at=None, at__gt=timezone.now() - MAX_AGE, kind__in=[*FOR_APPROVERS, *FOR_REQUESTERS]
    ).order_by("pk")
    events = list(due.select_related("request__subject", "request__creator")[:EVENTS_AT_ONCE])
    return send_due_rows(events, _request_messages, "access requests") if events else 0


def _request_messages(event: AccessRequestEvent) -> Iterator[EmailMessage]:
    """Yield one message for each recipient with an e-mail address.

    A message names only what its recipient may see.
    """
    request = event.request
    is_for_approvers = event.kind in FOR_APPROVERS
    if is_for_approvers and not request.is_pending:
        return
    for account in approver_accounts(request) if is_for_approvers else _requesters(request):
        if account.email:
            yield _request_message(event, request, account, is_for_approvers)


def _requesters(request: AccessRequest) -> list[User]:
    accounts = {
        user.pk: user for user in (request.subject, request.creator) if user is not None and user.is_active
    }
    return list(accounts.values())


def _request_message(
    event: AccessRequestEvent, request: AccessRequest, account: User, is_for_approvers: bool
) -> EmailMessage:
    parts = view_of(request, account).parts
    what = (
        f"the access of user:{request.colleague}"
        if request.colleague
        else ", ".join(part.title for part in parts)
    )
    context = {
        "event": event,
        "request": request,
        "parts": parts,
        "account": account,
        "what": what,
        "url": f"{settings.PUBLIC_URL}{reverse('request', args=[request.pk])}",
    }
    subject = f"Access request {request.pk}: {event.label.lower()}"
    template = f"requests/mail/{'approver' if is_for_approvers else 'requester'}.txt"
    return EmailMessage(subject, render_to_string(template, context), to=[account.email])


def time_in_mail(at: datetime) -> str:
    """Return a time in UTC, with the word UTC.

    If DISPLAY_TIME_ZONE is another zone, the time there precedes it.
    """
    in_utc = f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    with timezone.override(ZoneInfo(settings.DISPLAY_TIME_ZONE)):
        local = f"{timezone.localtime(at):%Y-%m-%d %H:%M} {abbreviation(at)}"
    return in_utc if local == in_utc else f"{local} ({in_utc})"


USES_AT_ONCE = 20


def send_break_glass_mail() -> int:
    """Send the due e-mails if a mail server is configured.

    Return their number. Runs one query if none is due.
    """
    if not settings.EMAIL_HOST:
        return 0
    uses = list(
        BreakGlassUse.objects.filter(notified_at=None, reviewed_at=None).order_by("pk")[:USES_AT_ONCE]
    )
    if not uses:
        return 0
    accounts = User.objects.filter(is_active=True, role__in=roles_with(Capability.READ_JOURNAL)).exclude(
        email=""
    )
    addresses = sorted(set(accounts.values_list("email", flat=True)))
    return send_due_rows(
        uses, lambda use: [_break_glass_message(use, address) for address in addresses], "break-glass access"
    )


def _break_glass_message(use: BreakGlassUse, address: str) -> EmailMessage:
    return EmailMessage(f"Break-glass access of {use.account_name}", _break_glass_text(use), to=[address])


def _break_glass_text(use: BreakGlassUse) -> str:
    url = f"{settings.PUBLIC_URL}{reverse('journal-break-glass-use', args=[use.pk])}"
    return (
        f"{use.account_name} started break-glass access at {time_in_mail(use.started_at)}. Until "
        f"{time_in_mail(use.ends_at)}, the account can change grants without a second person.\n\n"
        f"Reason: {use.reason}\n\nAnother person must review it afterwards:\n{url}\n"
    )


def send_alert_mail() -> int:
    """Send the due e-mails about figures that crossed the value of an alert, if a mail server is configured.

    Return their number. Runs one query if none is due.
    """
    if not settings.EMAIL_HOST:
        return 0
    due = FigureCrossing.objects.filter(notified_at=None, at__gt=timezone.now() - MAX_AGE)
    crossings = list(due.select_related("alert").order_by("pk")[:EVENTS_AT_ONCE])
    return send_due_rows(crossings, _alert_messages, "alerts") if crossings else 0


def _alert_messages(crossing: FigureCrossing) -> Iterator[EmailMessage]:
    alert = crossing.alert
    label = figure_label(alert.figure)
    url = reverse("analysis", args=[crossing.run_id]) if crossing.run_id else reverse("trends")
    text = (
        f"{label[0].upper()}{label[1:]}: {crossing.value:,}, at {time_in_mail(crossing.at)}.\n\n"
        f"The alert fires {'above' if alert.is_above else 'below'} {alert.value:,}. It fires again after a run that is within "
        f"the limit.\n\n{settings.PUBLIC_URL}{url}\n"
    )
    for address in alert.recipients:
        yield EmailMessage(f"{crossing.value:,} {label}", text, to=[address])


def send_finding_mail() -> int:
    """Send the due e-mails about open errors, if a mail server is configured: one to each account, with all of its errors.

    Return their number. Runs one query if none is due. If the mail server fails, the next call sends them again.
    """
    if not settings.EMAIL_HOST:
        return 0
    due = in_state(Finding.objects.filter(severity=Severity.ERROR, notified_at=None), FindingState.OPEN)
    if not due.exists():
        return 0
    with transaction.atomic():
        # before the mail is sent, so that two workers do not send it twice
        rows = list(due.select_for_update().order_by("pk")[:EVENTS_AT_ONCE])
        claimed = Finding.objects.filter(pk__in=[row.pk for row in rows])
        claimed.update(notified_at=timezone.now())
    try:
        return _send(list(_finding_messages(rows)))
    except OSError as error:
        claimed.update(notified_at=None)
        logger.error("e-mail about findings waits, because the mail server failed (%s)", type(error).__name__)
        return 0


def _finding_messages(rows: list[Finding]) -> Iterator[EmailMessage]:
    """Yield one message for each owner, and for each account that wants all of them, if it may see findings. Runs one query."""
    owners = {row.owner_id for row in rows}
    accounts = User.objects.filter(Q(wants_finding_mail=True) | Q(pk__in=owners - {None}), is_active=True)
    for account in accounts.exclude(email="").order_by("username"):
        own = [row for row in rows if account.wants_finding_mail or row.owner_id == account.pk]
        if own and can_read_findings(account):
            yield _finding_message(account, own)


def _finding_message(account: User, rows: list[Finding]) -> EmailMessage:
    listed = "".join(
        f"{finding_sentence(row)}\n{settings.PUBLIC_URL}{reverse('finding', args=[row.pk])}\n\n"
        for row in rows[:LISTED_MOST]
    )
    more = f"and {len(rows) - LISTED_MOST} more\n\n" if len(rows) > LISTED_MOST else ""
    url = f"{settings.PUBLIC_URL}{reverse('findings')}"
    return EmailMessage(
        f"{quantity(len(rows), 'new error', 'new errors')} in the inbox",
        f"{listed}{more}All findings, and the choice of this e-mail:\n{url}\n",
        to=[account.email],
    )
