"""The steps of a requester: answer a question, and withdraw the request."""

from grants.errors import RequestError
from grants.journal import Author
from grants.models import AccessRequest, AccessRequestPart, RequestEventKind, RequestState
from grants.requests.steps import (
    check_own,
    close_if_decided,
    pending_request,
    record_step,
    request_transaction,
    stored_text,
)


def answer_question(*, author: Author, request_id: int, answer: str) -> AccessRequest:
    """Answer the question of an approver, so that the request waits for the approvers again.

    Raise NotApprover if the request belongs to others, RequestClosed if it is not pending, RequestError
    without a question.
    """
    answer = stored_text(answer, "answer")
    with request_transaction(author) as (head, account):
        request = pending_request(request_id)
        check_own(request, account)
        if not request.waits_for_answer:
            raise RequestError(f"{request} has no open question")
        request.waits_for_answer = False
        request.save(update_fields=["waits_for_answer"])
        record_step(head, author, request, RequestEventKind.ANSWERED, answer)
    return request


def withdraw_request(*, author: Author, request_id: int, comment: str = "") -> AccessRequest:
    """Withdraw the pending parts of a request. Access that was approved already stays.

    Raise NotApprover if the request belongs to others, RequestClosed if it is not pending.
    """
    comment = stored_text(comment, "comment", is_required=False)
    with request_transaction(author) as (head, account):
        request = pending_request(request_id)
        check_own(request, account)
        close_pending_parts(request, RequestState.CANCELLED)
        record_step(head, author, request, RequestEventKind.CANCELLED, comment)
    return request


def close_pending_parts(request: AccessRequest, state: RequestState) -> None:
    """Set the state of all pending parts, and close the request."""
    AccessRequestPart.objects.filter(request=request, state=RequestState.PENDING).update(state=state)
    close_if_decided(request, state)
