"""Send an e-mail about each start of break-glass access to the accounts that can read the journal. A periodic
task calls this.

A use without `notified_at` is due, so no message is lost if the worker or Redis stops.
"""

import logging

from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.urls import reverse
from django.utils import timezone

from authzconsole.common.mail.sending import send_message
from authzconsole.mail.times import time_in_mail
from grants.models import BreakGlassUse, User
from grants.roles.capabilities import Capability, roles_with

logger = logging.getLogger(__name__)
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
    addresses, sent = sorted(set(accounts.values_list("email", flat=True))), 0
    try:
        with get_connection() as connection:
            for use in uses:
                sent += _send(use, addresses, connection)
    except OSError as error:
        logger.error(
            "e-mail about break-glass access waits, because the mail server failed (%s)", type(error).__name__
        )
    return sent


def _send(use: BreakGlassUse, addresses: list[str], connection) -> int:
    # before the mail is sent, so that two workers do not send it twice
    if not BreakGlassUse.objects.filter(pk=use.pk, notified_at=None).update(notified_at=timezone.now()):
        return 0
    sent = 0
    for address in addresses:
        try:
            sent += send_message(
                EmailMessage(
                    f"Break-glass access of {use.account_name}",
                    _text(use),
                    to=[address],
                    connection=connection,
                ),
                use,
            )
        except OSError:
            # the next call sends it to everybody again
            BreakGlassUse.objects.filter(pk=use.pk).update(notified_at=None)
            raise
    return sent


def _text(use: BreakGlassUse) -> str:
    url = f"{settings.PUBLIC_URL}{reverse('journal-break-glass-use', args=[use.pk])}"
    return (
        f"{use.account_name} started break-glass access at {time_in_mail(use.started_at)}. Until "
        f"{time_in_mail(use.ends_at)}, the account can change grants without a second person.\n\n"
        f"Reason: {use.reason}\n\nAnother person must review it afterwards:\n{url}\n"
    )
