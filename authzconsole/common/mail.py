"""Send e-mail to one recipient after the other."""

import logging
from collections.abc import Callable, Iterable
from smtplib import SMTPRecipientsRefused, SMTPSenderRefused
from typing import Any

from django.core.mail import EmailMessage, get_connection
from django.db.models import Model
from django.utils import timezone

logger = logging.getLogger(__name__)


def send_message(message: EmailMessage, connection) -> int:
    """Send a message to its only recipient. Return 1 if the mail server took it, otherwise 0. Raise OSError
    if it failed.

    An address that is refused does not stop other messages.
    """
    message.connection = connection
    try:
        return message.send()
    # Django raises ValueError for a text that is no address; accounts may have any text as their e-mail
    except (SMTPRecipientsRefused, SMTPSenderRefused, ValueError) as error:
        logger.warning("the e-mail %r was refused (%s)", message.subject, type(error).__name__)
        return 0


def send_due_rows(
    rows: Iterable[Model], messages_of: Callable[[Any], Iterable[EmailMessage]], subject: str
) -> int:
    """Send the messages of the rows without `notified_at`, and return how many were sent.

    If the mail server fails, the row stays due: the next call sends its messages to everybody again.
    """
    sent = 0
    try:
        with get_connection() as connection:
            for row in rows:
                due = type(row)._default_manager.filter(pk=row.pk)
                # before the mail is sent, so that two workers do not send it twice
                if not due.filter(notified_at=None).update(notified_at=timezone.now()):
                    continue
                try:
                    sent += sum(send_message(message, connection) for message in messages_of(row))
                except OSError:
                    due.update(notified_at=None)
                    raise
    except OSError as error:
        logger.error(
            "e-mail about %s waits, because the mail server failed (%s)", subject, type(error).__name__
        )
    return sent
