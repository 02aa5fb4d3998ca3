"""Send an e-mail about each step of an access request, and reminders. A periodic task calls this.

The events are the queue: an event without `notified_at` is due. So no message is lost if the worker or Redis
stops.
"""

from collections.abc import Iterator
from datetime import timedelta

from django.conf import settings
from django.core.mail import EmailMessage
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone

from authzconsole.common.mail import send_due_rows
from grants.models import AccessRequest, AccessRequestEvent, RequestEventKind, User
from grants.requests.approvers import approver_accounts
from grants.requests.disclosure import view_of
from grants.requests.expiry import expire_requests, mark_reminded, requests_to_remind

EVENTS_AT_ONCE = 100
# older events are not sent, such as those before the mail server was configured
MAX_AGE = timedelta(days=1)
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
    return send_due_rows(events, _messages, "access requests") if events else 0


def _messages(event: AccessRequestEvent) -> Iterator[EmailMessage]:
    """Yield one message for each recipient with an e-mail address.

    A message names only what its recipient may see.
    """
    request = event.request
    is_for_approvers = event.kind in FOR_APPROVERS
    if is_for_approvers and not request.is_pending:
        return
    for account in approver_accounts(request) if is_for_approvers else _requesters(request):
        if account.email:
            yield _message(event, request, account, is_for_approvers)


def _requesters(request: AccessRequest) -> list[User]:
    accounts = {
        user.pk: user for user in (request.subject, request.creator) if user is not None and user.is_active
    }
    return list(accounts.values())


def _message(
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
