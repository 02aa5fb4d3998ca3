"""Open the transaction of a step of a request, and record the step: its event and its journal lines."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from django.db import transaction
from django.utils import timezone

from entities.text import storage_fault
from grants.errors import NotApprover, RequestClosed, RequestError
from grants.journal import Author, JournalEntry, append_to_journal, lock_journal
from grants.models import (
    AccessRequest,
    AccessRequestEvent,
    AccessRequestPart,
    JournalHead,
    RequestEventKind,
    RequestState,
    User,
)
from grants.principal_names import MAX_REASON_CHARACTERS
from grants.requests.approvers import is_own

ACTION_BY_KIND = {
    RequestEventKind.CREATED: "request-create",
    RequestEventKind.APPROVED: "request-approve",
    RequestEventKind.DENIED: "request-deny",
    RequestEventKind.ASKED: "request-ask",
    RequestEventKind.ANSWERED: "request-answer",
    RequestEventKind.CANCELLED: "request-cancel",
    RequestEventKind.EXPIRED: "request-expire",
}


@contextmanager
def request_transaction(author: Author) -> Iterator[tuple[JournalHead, User]]:
    """Open a transaction, lock the journal, and yield its head and the account of the author.

    It accepts every active account, so each step checks what this account may do. Raise RequestError for
    other authors.
    """
    with transaction.atomic():
        head = lock_journal()
        account = User.objects.filter(pk=author.user_id, is_active=True).first()
        if account is None:
            raise RequestError("requests are made and decided by active accounts: sign in")
        yield head, account


def stored_text(text: str, name: str, *, is_required: bool = True) -> str:
    """Return the text without spaces around it.

    Raise RequestError if it is empty, too long or cannot be stored.
    """
    text = text.strip()
    if is_required and not text:
        raise RequestError(f"the {name} is missing")
    if fault := storage_fault(text, MAX_REASON_CHARACTERS):
        raise RequestError(f"the {name} cannot be stored: {fault}")
    return text


def pending_request(pk: int) -> AccessRequest:
    """Return a pending request with its subject. Raise RequestClosed if it is closed, RequestError if there
    is none.

    The caller holds the lock of the journal; otherwise two callers could decide about the same request.
    """
    request = AccessRequest.objects.select_related("subject").filter(pk=pk).first()
    if request is None:
        raise RequestError(f"there is no request {pk}")
    if not request.is_pending:
        decided = f" on {request.decided_at:%Y-%m-%d %H:%M} UTC" if request.decided_at else ""
        raise RequestClosed(f"{request} was already {request.state_label.lower()}{decided}")
    return request


def check_own(request: AccessRequest, account: User) -> None:
    """Raise NotApprover unless the account is the subject or the creator of the request."""
    if not is_own(request, account):
        raise NotApprover(f"{request} belongs to {request.principal}: only they can do this")


def record_step(
    head: JournalHead,
    author: Author,
    request: AccessRequest,
    kind: RequestEventKind,
    text: str = "",
    *,
    parts: Iterable[AccessRequestPart] = (),
    detail: str = "",
) -> None:
    """Store the event of a step, and append its journal lines: one for each part with an address, or one for
    the request.
    """
    AccessRequestEvent.objects.create(
        request=request, at=timezone.now(), kind=kind, actor=author.name, text=text
    )
    action, suffix = ACTION_BY_KIND[kind], f"; {detail}" if detail else ""
    principal = request.principal
    lines = [
        JournalEntry(
            action, principal, str(part.address or ""), detail=f"{request}: {part.title}{suffix}", reason=text
        )
        for part in parts
    ]
    append_to_journal(
        head,
        lines or [JournalEntry(action, principal, detail=f"{request}{suffix}", reason=text)],
        author=author,
    )


def close_if_decided(request: AccessRequest, state: RequestState) -> None:
    """Save the request with its final state if no part is pending: approved if any part was approved,
    otherwise `state`.
    """
    states = set(request.parts.values_list("state", flat=True))
    request.waits_for_answer = request.waits_for_answer and RequestState.PENDING in states
    if RequestState.PENDING not in states:
        request.state = RequestState.APPROVED if RequestState.APPROVED in states else state
        request.decided_at = timezone.now()
    request.save(update_fields=["state", "decided_at", "waits_for_answer"])
