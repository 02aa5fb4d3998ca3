"""Tell users by e-mail that grants and memberships of theirs have ended. A periodic task calls this.

The journal lines about ended periods are the queue. A maintenance record stores the last line that was read,
so no line is lost if the worker or Redis stops.
"""

import logging
from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta

from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone

from authzconsole.common.mail import send_message
from authzconsole.common.monitoring.maintenance import record_maintenance
from authzconsole.models import MaintenanceRecord, MaintenanceTask
from entities.vocabulary import quantity
from grants.changes.period_lines import EXPIRE_ACTION
from grants.journal import current_revision
from grants.journal_details import parse_detail
from grants.models import JournalLine, User
from grants.principals.renaming import names_since

logger = logging.getLogger(__name__)

LINES_AT_ONCE = 1_000
LISTED_MOST = 20
# older lines are not sent, such as those before the mail server was configured
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
        return _send(list(_messages(lines)))
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


def _messages(lines: list[JournalLine]) -> Iterator[EmailMessage]:
    """Yield one message for each active user with an e-mail address. Runs two queries."""
    written_name, newest = names_since(lines[0].revision - 1), timezone.now() - MAX_AGE
    ended = defaultdict(list)
    for line in lines:
        if line.principal.startswith("user:") and line.at > newest:
            ended[written_name(line.principal).removeprefix("user:")].append(_ended_access(line))
    for user in (
        User.objects.filter(username__in=ended, is_active=True).exclude(email="").order_by("username")
    ):
        yield _message(user, ended[user.username])


def _ended_access(line: JournalLine) -> dict:
    detail = parse_detail(line.detail)
    what = f"{line.privilege} on {line.entity}" if line.entity else f"the membership in {detail.rest}"
    return {"what": what, "at": detail.period.valid_until}


def _message(user: User, ended: list[dict]) -> EmailMessage:
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
