"""Decide about requests: approve all or part, deny, ask back.

An approval creates and applies a plan in the same transaction.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime

from entities.frozen import frozen
from entities.selectors import entities_at
from grants.active_generation import active_generation
from grants.authority.four_eyes import check_approval
from grants.change_set import Grant, Join, principals_of
from grants.changes import Shown
from grants.errors import EffectChanged, NotApprover, RequestError
from grants.journal import Author
from grants.models import (
    AccessRequest,
    AccessRequestPart,
    JournalHead,
    Plan,
    RequestEventKind,
    RequestState,
)
from grants.plans.apply import write_plan
from grants.plans.create import PlanDraft, PlanOrigin, store_plan, stored_periods
from grants.policies.principals import group_text
from grants.principal_names import MAX_REASON_CHARACTERS, principals_by_name
from grants.requests.approvers import ApproverScope, approver_scope, is_own
from grants.requests.proposals import Proposal, changes_of, proposals_of, wanted_pairs
from grants.requests.steps import (
    close_if_decided,
    pending_request,
    record_step,
    request_transaction,
    stored_text,
)
from grants.validity import Validity, time_in_words


@frozen
class Approval:
    """What an approver approves.

    choices: the id of the chosen proposal, by position of the part; an empty id chooses the narrowest. The
    other parts about which the approver may decide are denied. valid_until: the end of the access; None for
    the requested end.
    shown: the effect that the approver has seen.
    """

    choices: Mapping[int, str]
    comment: str = ""
    valid_until: datetime | None = None
    shown: Shown = field(default_factory=Shown)


def approve_request(*, author: Author, request_id: int, approval: Approval) -> AccessRequest:
    """Approve parts of a request, and apply the plan with their grants. Parts of other approvers stay
    pending.

    Raise RequestClosed if it is not pending, NotApprover if the author may not decide about a part,
    SecondPersonRequired if it is the person who made the request, EffectChanged if a chosen proposal or its
    effect has changed since it was shown, EffectUnconfirmed if it is wider than the request.
    """
    comment = stored_text(approval.comment, "comment", is_required=False)
    with request_transaction(author) as (head, account):
        request, scope = pending_request(request_id), approver_scope(account)
        decidable = decidable_parts(request, scope)
        requesters = {*request.maker_ids, *filter(None, [request.creator_id, request.subject_id])}
        check_approval(author, requesters, decides_all=scope.decides_all)
        approved = [part for part in decidable if part.position in approval.choices]
        if not approved or len(approved) < len(approval.choices):
            raise RequestError("choose parts of the request that are pending and that you may decide about")
        if request.subject is None or not request.subject.is_active:
            raise RequestError(f"{request.principal} is not active any more: deny the request")
        valid_until = _approved_end(request, approval.valid_until)
        chosen = [
            (part, _chosen_proposal(part, request, approval.choices[part.position])) for part in approved
        ]
        for part, proposal in chosen:
            if fault := scope.grant_fault(proposal.grants, Validity(None, valid_until)):
                raise NotApprover(f"{part.title} needs {proposal.words}: {fault}")
        plan = _apply(head, author, request, chosen, comment, valid_until, approval.shown)
        for part in approved:
            part.state, part.decided_by, part.valid_until, part.plan = (
                RequestState.APPROVED,
                author.name,
                valid_until,
                plan,
            )
        denied = [part for part in decidable if part not in approved]
        for part in denied:
            part.state, part.decided_by = RequestState.DENIED, author.name
        AccessRequestPart.objects.bulk_update(decidable, ["state", "decided_by", "valid_until", "plan"])
        record_step(
            head, author, request, RequestEventKind.APPROVED, comment, parts=approved, detail=str(plan or "")
        )
        if denied:
            record_step(head, author, request, RequestEventKind.DENIED, comment, parts=denied)
        close_if_decided(request, RequestState.DENIED)
    return request


def deny_request(*, author: Author, request_id: int, reason: str) -> AccessRequest:
    """Deny all pending parts about which the author may decide.

    The reason is required, and the requester reads it.
    """
    reason = stored_text(reason, "reason")
    with request_transaction(author) as (head, account):
        request = pending_request(request_id)
        parts = decidable_parts(request, approver_scope(account))
        for part in parts:
            part.state, part.decided_by = RequestState.DENIED, author.name
        AccessRequestPart.objects.bulk_update(parts, ["state", "decided_by"])
        visible = [part for part in parts if not part.is_hidden]
        record_step(head, author, request, RequestEventKind.DENIED, reason, parts=visible)
        close_if_decided(request, RequestState.DENIED)
    return request


def ask_back(*, author: Author, request_id: int, question: str) -> AccessRequest:
    """Ask the requester a question. The request stays pending, but is not in the list of requests to decide
    until there is an answer."""
    question = stored_text(question, "question")
    with request_transaction(author) as (head, account):
        request = pending_request(request_id)
        decidable_parts(request, approver_scope(account))
        request.waits_for_answer = True
        request.save(update_fields=["waits_for_answer"])
        record_step(head, author, request, RequestEventKind.ASKED, question)
    return request


def decidable_parts(request: AccessRequest, scope: ApproverScope) -> list[AccessRequestPart]:
    """Return the pending parts about which the account may decide.

    Raise NotApprover if there are none, unless the whole request has none and the account may close it.
    """
    parts = [
        part
        for part in request.parts.order_by("position")
        if part.is_pending and scope.can_decide(request, part)
    ]
    if not parts and not _can_close_empty(request, scope):
        raise NotApprover(
            f"{request} is your own: another approver decides"
            if is_own(request, scope.account)
            else f"you may not decide about {request}"
        )
    return parts


def _can_close_empty(request: AccessRequest, scope: ApproverScope) -> bool:
    """Return whether the request has no parts, because the colleague holds nothing else, so that it can only
    be denied.
    """
    return scope.decides_all and not is_own(request, scope.account) and not request.parts.exists()


def _approved_end(request: AccessRequest, valid_until: datetime | None) -> datetime | None:
    """Return the end of the approved access.

    Raise ValidityError if it is in the past, RequestError if it is later than requested.
    """
    if valid_until is None:
        return request.requested_until
    Validity.between(None, valid_until).check_not_over()
    if request.requested_until and valid_until > request.requested_until:
        raise RequestError(
            f"the access was requested until {time_in_words(request.requested_until)}: an approval can only "
            f"shorten this"
        )
    return valid_until


def _chosen_proposal(part: AccessRequestPart, request: AccessRequest, proposal_id: str) -> Proposal:
    """Return the chosen proposal of a part, from the current data."""
    proposals = proposals_of(part, request.subject, request.requested_until)
    if not proposals:
        raise RequestError(f"no grant would permit {part.title}: deny the request")
    if not proposal_id:
        return proposals[0]
    chosen = next((proposal for proposal in proposals if proposal.id == proposal_id), None)
    if chosen is None:
        raise EffectChanged(str(request))
    return chosen


def _apply(
    head: JournalHead,
    author: Author,
    request: AccessRequest,
    chosen: Iterable[tuple[AccessRequestPart, Proposal]],
    comment: str,
    valid_until: datetime | None,
    shown: Shown,
) -> Plan | None:
    """Create and apply the plan of the chosen proposals; return None if nothing is missing any more."""
    chosen = list(chosen)
    if all(proposal.is_empty for _, proposal in chosen):
        return None
    changes = changes_of(request.subject, [proposal for _, proposal in chosen], Validity(None, valid_until))
    _check_shortens_nothing(request, changes, valid_until)
    parts = [part for part, _ in chosen]
    wanted = wanted_pairs(parts)
    reason = "; ".join(filter(None, [f"{request} of {request.principal}: {request.reason}", comment]))
    draft = PlanDraft(
        title=f"{request} of {request.principal}: {', '.join(part.title for part in parts)}",
        changes=changes,
        recipe={
            "request": request.pk,
            "subject": request.subject.username,
            "wanted": wanted,
            "generation": active_generation().name,
        },
    )
    # the requester proposed the changes, so that the approver is the second person
    on_behalf = f"on behalf of {request.created_by}; {reason}"
    plan = store_plan(
        Author(request.created_by),
        PlanOrigin.REQUEST,
        draft,
        head=head,
        writer=replace(author, reason=on_behalf[:MAX_REASON_CHARACTERS]),
    )
    write_plan(head, replace(author, reason=reason[:MAX_REASON_CHARACTERS]), plan, shown)
    return plan


def _check_shortens_nothing(
    request: AccessRequest, changes: Sequence[Grant | Join], valid_until: datetime | None
) -> None:
    """Raise RequestError if a grant or a membership that begins later would end earlier than now, because it
    gets a new period.

    Runs the queries of `stored_periods` and three more if the access has an end, otherwise none.
    """
    if valid_until is None:
        return
    principals = principals_by_name({name for change in changes for name in principals_of(change)})
    entities = entities_at(change.address for change in changes if isinstance(change, Grant))
    stored = stored_periods(changes, principals, entities)
    later = {
        f"a membership in {group_text(change.group)}"
        if isinstance(change, Join)
        else f"{change.privilege} on {change.address}": period
        for change in changes
        if (period := stored.get(change.key)) and (not period.valid_until or period.valid_until > valid_until)
    }
    if later:
        what, period = min(later.items())
        raise RequestError(
            f"{request.principal} has {what} {period.sentence or 'without limits'}, and this approval would end "
            f"it on {time_in_words(valid_until)}: an administrator can change the period instead"
        )
