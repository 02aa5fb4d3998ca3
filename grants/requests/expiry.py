"""Expire pending requests, and find those whose approvers must be reminded. Periodic tasks call this."""

from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from grants.journal import Author, JournalEntry, lock_journal
from grants.models import AccessRequest, AccessRequestEvent, RequestEventKind, RequestState, User
from grants.requests.own_steps import close_pending_parts
from grants.requests.steps import record_step

REQUESTS_AT_ONCE = 200
CONSOLE = Author("access_requests")


def expire_requests() -> int:
    """Store the state `expired` of requests whose time has come, at most REQUESTS_AT_ONCE.

    Return their number.
    """
    overdue = AccessRequest.objects.select_related("subject").filter(
        state=RequestState.PENDING, expires_at__lte=timezone.now()
    )
    if not overdue.exists():
        return 0
    with transaction.atomic():
        head = lock_journal()
        requests = list(overdue.order_by("expires_at")[:REQUESTS_AT_ONCE])
        for request in requests:
            close_pending_parts(request, RequestState.EXPIRED)
            record_step(head, CONSOLE, request, RequestEventKind.EXPIRED)
    return len(requests)


def requests_to_remind() -> QuerySet[AccessRequest]:
    """Return the pending requests whose approvers must be reminded (REQUEST_REMINDER_DAYS), oldest first."""
    if not settings.REQUEST_REMINDER_DAYS:
        return AccessRequest.objects.none()
    now = timezone.now()
    long_ago = now - timedelta(days=settings.REQUEST_REMINDER_DAYS)
    is_due = Q(reminded_at=None, created_at__lte=long_ago) | Q(reminded_at__lte=long_ago)
    return (
        AccessRequest.objects.select_related("subject")
        .filter(is_due, state=RequestState.PENDING, waits_for_answer=False, expires_at__gt=now)
        .order_by("created_at")
    )


def mark_reminded(request: AccessRequest) -> bool:
    """Store that the approvers are reminded now. Return False if another process did this in the meantime."""
    now = timezone.now()
    with transaction.atomic():
        is_first = requests_to_remind().filter(pk=request.pk).order_by().update(reminded_at=now) == 1
        if is_first:
            AccessRequestEvent.objects.create(request=request, at=now, kind=RequestEventKind.REMINDED)
    return is_first


def cancel_requests_of(user: User) -> list[JournalEntry]:
    """Withdraw the pending requests that are by or for a user who leaves. Return the changes for the journal."""
    changes = []
    own = AccessRequest.objects.filter(Q(subject=user) | Q(creator=user))
    for request in own.select_related("subject").filter(state=RequestState.PENDING):
        close_pending_parts(request, RequestState.CANCELLED)
        AccessRequestEvent.objects.create(request=request, at=timezone.now(), kind=RequestEventKind.CANCELLED)
        changes.append(
            JournalEntry(
                "request-cancel", principal=request.principal, detail=f"{request}; {user} was removed"
            )
        )
    return changes


def detach_requests_of(user: User) -> None:
    """Separate the requests of a former user from the account, so that another person who gets it cannot read
    them. They keep the name.
    """
    AccessRequest.objects.filter(subject=user).update(subject=None)
    AccessRequest.objects.filter(creator=user).update(creator=None)
