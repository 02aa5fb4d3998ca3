"""List, create, read, decide and answer access requests, and name the approvers of namespaces."""

from collections.abc import Callable
from datetime import datetime

from rest_framework.request import Request
from rest_framework.response import Response

from authzconsole.common.fields import MAX_INTEGER
from authzconsole.lists.requests import AccessRequests, Approvers, ApproversSerializer
from authzconsole.rest.access_requests.serializers import (
    AnswerSerializer,
    ApproveSerializer,
    AskSerializer,
    CreateSerializer,
    ProposalsQuery,
    ProposalsSerializer,
    RejectSerializer,
    RequestSerializer,
    SetApproversSerializer,
    WithdrawSerializer,
)
from authzconsole.rest.framework.callers import any_account, author_of, check_administrator
from authzconsole.rest.framework.endpoint import Endpoint, Resource, created_response
from authzconsole.rest.framework.lists import FORMULAS, ListEndpoint
from authzconsole.rest.framework.locations import access_request_location
from authzconsole.rest.framework.operations import operation
from authzconsole.rest.framework.problems import Problem
from grants.changes import Shown
from grants.requests.approvers import set_namespace_approvers, visible_requests
from grants.requests.background import PartBackground, can_see_effect, part_background
from grants.requests.create import RequestDraft, WantedAccess, create_request, request_subject
from grants.requests.decide import Approval, approve_request, ask_back, deny_request
from grants.requests.disclosure import RequestView, view_of
from grants.requests.own_steps import answer_question, withdraw_request
from grants.requests.proposals import Proposal, effect_of_proposals
from grants.validity import Validity


def _visible_request(request: Request, number: int) -> RequestView | None:
    """Return the request as the caller sees it; None if the caller may not see it."""
    rows = visible_requests(request.user).select_related("subject")
    row = rows.filter(pk=number).first() if number <= MAX_INTEGER else None
    return None if row is None else view_of(row, request.user)


REQUEST = Resource("number", "The number of the request.", _visible_request, int)


class AccessRequestList(ListEndpoint):
    """List access requests.

    Newest first. Requesters see their own requests, approvers also those about which they decide,
    administrators and auditors all.
    """

    route, url_name = "access-requests", "rest-access-requests"
    operation_id = "access_requests_list"
    rows = AccessRequests
    files = {
        "csv": FORMULAS,
        "jsonl": "With the parts that the list on the page Requests would name: a part in no namespace of the caller is left out, "
        "even if the caller decides about it.",
    }

    @operation(
        "access_requests_create",
        any_account,
        {201: RequestSerializer},
        body=CreateSerializer,
    )
    def post(self) -> Response:
        """Request access.

        The answer does not tell whether the addresses or the colleague exist. Returns 409 if all of it is
        permitted already, or if the same request is pending (`request` is its number). Every account can
        request access.
        """
        data = self.data
        wanted = [WantedAccess(part["entity"], part["operation"]) for part in data.get("parts", ())]
        subject = request_subject(
            self.request.user,
            f"user:{data.get('subject', self.request.user.username)}",
            is_allowed_for_others=self.request.user.can_administer,
        )
        created = create_request(
            author=author_of(self.request),
            draft=RequestDraft(data["reason"], wanted, data.get("colleague", ""), end_of(data), subject),
        )
        return created_response(
            RequestSerializer.data_of(view_of(created, self.request.user)),
            access_request_location(created.pk),
        )


class AccessRequestDetail(Endpoint):
    route, url_name = "access-requests/<int:number>", "rest-access-request"
    resource = REQUEST

    @operation(
        "access_requests_retrieve",
        any_account,
        RequestSerializer,
    )
    def get(self) -> object:
        """Return an access request.

        With its parts and its history. Approvers see only the parts about which they decide.
        """
        return self.object


class AccessRequestProposals(Endpoint):
    route, url_name = "access-requests/<int:number>/proposals", "rest-access-request-proposals"
    resource = REQUEST

    @operation(
        "access_requests_proposals",
        any_account,
        ProposalsSerializer,
        query=ProposalsQuery,
        errors=[409],
    )
    def get(self) -> object:
        """Return the proposals for an access request.

        For each pending part: the grants that would permit it, what the requester holds, and what
        colleagues in the same groups hold; and the effect of the chosen proposals together. An approver
        who does not decide about everything that a proposal grants sees neither its effect nor how many
        colleagues hold it. Returns 403 unless the caller decides about the request, or may read
        everything; 409 if it is not pending.
        """
        view, account = self.object, self.request.user
        parts = [part for part in (view.parts if account.can_see_all else view.decidable) if part.is_pending]
        if not view.request.is_pending or view.request.subject is None:
            raise Problem(409, f"{view.request} is not pending: there is nothing to decide")
        if not account.can_see_all and not parts:
            raise Problem(403, f"you may not decide about {view.request}")
        shown = [part_background(view.request, part, view.scope) for part in parts]
        choices = _choices(self.query.get("choose", ""))
        chosen: list[tuple[PartBackground, Proposal]] = []
        for background in shown:
            wanted_id = choices.get(background.part.position, "" if not choices else None)
            if wanted_id is not None:
                chosen += [
                    (background, proposal)
                    for proposal in background.proposals
                    if wanted_id in ("", proposal.id)
                ][:1]
        effect = (
            effect_of_proposals(
                view.request.subject, [(background.part, proposal) for background, proposal in chosen]
            )
            if can_see_effect(chosen)
            else None
        )
        return {"parts": shown, "effect": effect}


def _choices(text: str) -> dict[int, str]:
    """Return the ids of proposals by position of their parts."""
    choices = {}
    for item in filter(None, text.split(",")):
        position, _, proposal = item.partition(":")
        if not (position.isascii() and position.isdigit() and len(position) < 6):
            raise Problem(
                400,
                "choose: write POSITION:ID, separated by commas",
                errors=[{"field": "choose", "message": "write POSITION:ID, separated by commas"}],
            )
        choices[int(position)] = proposal
    return choices


def end_of(data: dict) -> datetime | None:
    """Return `valid_until` of a body; None if it is missing. Raise ValidityError."""
    return Validity.parse(None, data.get("valid_until")).valid_until


class Step(Endpoint):
    """A step of a request. Subclasses describe it."""

    resource = REQUEST

    def take(self, step: Callable[..., object]) -> object:
        """Call the step with the members of the body.

        The caller sees the request before, and may see it afterwards.
        """
        number = self.kwargs["number"]
        step(author=author_of(self.request), request_id=number, **self.data)
        return self.resource.object_or_404(self.request, number)


class AccessRequestApproval(Step):
    route, url_name = "access-requests/<int:number>/approve", "rest-access-request-approve"

    @operation(
        "access_requests_approve",
        any_account,
        RequestSerializer,
        body=ApproveSerializer,
    )
    def post(self) -> object:
        """Approve an access request.

        Approves all or some parts: creates the plan of their grants and applies it, in one transaction.
        Other parts are denied; parts of other approvers stay pending. Returns 409 (effect-changed) if the
        effect or a proposal is not the one that was read, and 409 (unconfirmed-effect) if the grants give
        more than was requested, unless `confirm_beyond` is true. Returns 403 unless the caller decides
        about it, and for the caller's own request; 409 if it is not pending.
        """
        view, data = self.object, self.data
        parts = data.get("parts") or [{"position": part.position} for part in view.decidable]
        shown = Shown(data.get("effect") or "", accepts_beyond=data["confirm_beyond"])
        approve_request(
            author=author_of(self.request),
            request_id=self.kwargs["number"],
            approval=Approval(
                {part["position"]: part.get("proposal", "") for part in parts},
                data["comment"],
                end_of(data),
                shown,
            ),
        )
        return self.resource.object_or_404(self.request, self.kwargs["number"])


class AccessRequestRejection(Step):
    route, url_name = "access-requests/<int:number>/reject", "rest-access-request-reject"

    @operation(
        "access_requests_reject",
        any_account,
        RequestSerializer,
        body=RejectSerializer,
    )
    def post(self) -> object:
        """Reject an access request.

        Denies all pending parts about which the caller decides. The requester reads the reason. Returns
        403 unless the caller decides about it, and for the caller's own request; 409 if it is not
        pending.
        """
        return self.take(deny_request)


class AccessRequestQuestion(Step):
    route, url_name = "access-requests/<int:number>/ask", "rest-access-request-ask"

    @operation(
        "access_requests_ask",
        any_account,
        RequestSerializer,
        body=AskSerializer,
    )
    def post(self) -> object:
        """Ask the requester a question.

        The request stays pending, and waits for the answer. Returns 403 unless the caller decides about
        it, and for the caller's own request; 409 if it is not pending.
        """
        return self.take(ask_back)


class AccessRequestAnswer(Step):
    route, url_name = "access-requests/<int:number>/answer", "rest-access-request-answer"

    @operation(
        "access_requests_answer",
        any_account,
        RequestSerializer,
        body=AnswerSerializer,
    )
    def post(self) -> object:
        """Answer the question of an approver.

        The request waits for its approvers again. Returns 403 if it belongs to others, and 409 if it is
        not pending.
        """
        return self.take(answer_question)


class AccessRequestWithdrawal(Step):
    route, url_name = "access-requests/<int:number>/withdraw", "rest-access-request-withdraw"

    @operation(
        "access_requests_withdraw",
        any_account,
        RequestSerializer,
        body=WithdrawSerializer,
    )
    def post(self) -> object:
        """Withdraw an access request.

        Ends the pending parts. Access that was approved already stays. Returns 403 if it belongs to
        others, and 409 if it is not pending.
        """
        return self.take(withdraw_request)


class ApproverList(ListEndpoint):
    """List the approvers of namespaces.

    Approvers are members of a group. They decide about access requests for a namespace and its contents.
    Administrators may decide too. Administrators and auditors may read this list.
    """

    route, url_name = "approvers", "rest-approvers"
    operation_id = "approvers_list"
    rows = Approvers

    @operation(
        "approvers_set",
        check_administrator,
        ApproversSerializer,
        body=SetApproversSerializer,
    )
    def put(self) -> Response:
        """Set the approvers of a namespace.

        Names the group, or none. The namespace need not be registered yet. For administrators.
        """
        data = self.data
        set_namespace_approvers(
            author=author_of(self.request), namespace=data["namespace"], group=data["group"] or ""
        )
        return Response({"namespace": str(data["namespace"]), "group": data["group"]})
