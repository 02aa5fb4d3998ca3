"""Send an e-mail about each start of break-glass access to the accounts that can read the journal. A periodic
task calls this.

A use without `notified_at` is due, so no message is lost if the worker or Redis stops.
"""

from django.conf import settings
from django.core.mail import EmailMessage
from django.urls import reverse

from authzconsole.common.mail import send_due_rows
from authzconsole.mail.times import time_in_mail
from grants.models import BreakGlassUse, User
from grants.roles.capabilities import Capability, roles_with

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
        uses, lambda use: [_message(use, address) for address in addresses], "break-glass access"
    )


def _message(use: BreakGlassUse, address: str) -> EmailMessage:
    return EmailMessage(f"Break-glass access of {use.account_name}", _text(use), to=[address])


def _text(use: BreakGlassUse) -> str:
    url = f"{settings.PUBLIC_URL}{reverse('journal-break-glass-use', args=[use.pk])}"
    return (
        f"{use.account_name} started break-glass access at {time_in_mail(use.started_at)}. Until "
        f"{time_in_mail(use.ends_at)}, the account can change grants without a second person.\n\n"
        f"Reason: {use.reason}\n\nAnother person must review it afterwards:\n{url}\n"
    )
