"""List, create, read, decide and answer access requests, and name the approvers of namespaces."""

from collections.abc import Callable
from datetime import datetime

from rest_framework.request import Request
from rest_framework.response import Response

from authzconsole.common.fields import MAX_INTEGER, StrictSerializer
from authzconsole.lists.requests import AccessRequests, Approvers, ApproversSerializer
from authzconsole.rest.access_requests.serializers import (
    APPROVED_EXAMPLE,
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
from authzconsole.rest.framework.lists import Download, ListEndpoint
from authzconsole.rest.framework.locations import access_request_location
from authzconsole.rest.framework.operations import LOCATION, api_operation
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

TAG = "Access requests"
APPROVERS_ONLY = "Returns 403 unless the caller decides about it, and for the caller's own request; 409 if it is not pending."
REQUESTER_ONLY = "Returns 403 if it belongs to others, and 409 if it is not pending."


def _visible_request(request: Request, number: int) -> RequestView | None:
    """Return the request as the caller sees it; None if the caller may not see it."""
    rows = visible_requests(request.user).select_related("subject")
    row = rows.filter(pk=number).first() if number <= MAX_INTEGER else None
    return None if row is None else view_of(row, request.user)


REQUEST = Resource("number", "The number of the request.", _visible_request, int)


class AccessRequestList(ListEndpoint):
    rows = AccessRequests
    rules = {"POST": any_account}
    operation = (
        "access_requests_list",
        TAG,
        "List access requests",
        "Newest first. Requesters see their own requests, approvers also those about which they decide, administrators and "
        "auditors all.",
    )

    @api_operation(
        "access_requests_create",
        TAG,
        "Request access",
        "The answer does not tell whether the addresses or the colleague exist. Returns 409 if all of it is permitted already, "
        "or if the same request is pending (`request` is its number). Every account can request access.",
        request=CreateSerializer,
        responses={201: RequestSerializer},
        errors=[409],
        request_example={
            "parts": [{"entity": "dataset:sales.orders", "operation": "read"}],
            "reason": "quarterly close",
            "valid_until": "2126-12-05T17:00:00Z",
        },
        parameters=[LOCATION],
    )
    def post(self, request: Request) -> Response:
        data = self.body(CreateSerializer)
        wanted = [WantedAccess(part["entity"], part["operation"]) for part in data.get("parts", ())]
        subject = request_subject(
            request.user,
            f"user:{data.get('subject', request.user.username)}",
            is_allowed_for_others=request.user.can_administer,
        )
        created = create_request(
            author=author_of(request),
            draft=RequestDraft(data["reason"], wanted, data.get("colleague", ""), end_of(data), subject),
        )
        return created_response(
            RequestSerializer.data_of(view_of(created, request.user)), access_request_location(created.pk)
        )


class AccessRequestFiles(Download):
    rows = AccessRequests
    operation = (
        "access_requests",
        TAG,
        "access requests",
        "The requests of the list, newest first, with the parts that the list on the page Requests would name: a part in no "
        "namespace of the caller is left out, even if the caller decides about it.",
    )


class AccessRequestDetail(Endpoint):
    resource = REQUEST
    rules = {"GET": any_account}

    @api_operation(
        "access_requests_retrieve",
        TAG,
        "Return an access request",
        "With its parts and its history. Approvers see only the parts about which they decide.",
        responses={200: RequestSerializer},
    )
    def get(self, request: Request, number: int) -> Response:
        return Response(RequestSerializer.data_of(self.object))


class AccessRequestProposals(Endpoint):
    resource = REQUEST
    rules = {"GET": any_account}
    queries = {"GET": ProposalsQuery}

    @api_operation(
        "access_requests_proposals",
        TAG,
        "Return the proposals for an access request",
        "For each pending part: the grants that would permit it, what the requester holds, and what colleagues in the same "
        "groups hold; and the effect of the chosen proposals together. An approver who does not decide about everything that a "
        "proposal grants sees neither its effect nor how many colleagues hold it. Returns 403 unless the caller decides about "
        "the request, or may read everything; 409 if it is not pending.",
        query=ProposalsQuery,
        responses={200: ProposalsSerializer},
        errors=[409],
    )
    def get(self, request: Request, number: int) -> Response:
        view, account = self.object, request.user
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
        return Response(ProposalsSerializer.data_of({"parts": shown, "effect": effect}))


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
    rules = {"POST": any_account}

    def take(
        self, request: Request, number: int, step: Callable[..., object], body: type[StrictSerializer]
    ) -> Response:
        """Call the step with the members of the body.

        The caller sees the request before, and may see it afterwards.
        """
        step(author=author_of(request), request_id=number, **self.body(body))
        return Response(RequestSerializer.data_of(self.resource.object_or_404(request, number)))


class AccessRequestApproval(Step):
    @api_operation(
        "access_requests_approve",
        TAG,
        "Approve an access request",
        "Approves all or some parts: creates the plan of their grants and applies it, in one transaction. Other parts are "
        "denied; parts of other approvers stay pending. Returns 409 (effect-changed) if the effect or a proposal is not the one "
        "that was read, and 409 (unconfirmed-effect) if the grants give more than was requested, unless `confirm_beyond` "
        f"is true. {APPROVERS_ONLY}",
        request=ApproveSerializer,
        request_example={
            "parts": [{"position": 1}],
            "effect": "9f86d081884c7d659a2feaa0c55ad015",
            "confirm_beyond": True,
        },
        responses={200: RequestSerializer},
        response_example=APPROVED_EXAMPLE,
        errors=[409],
    )
    def post(self, request: Request, number: int) -> Response:
        view, data = self.object, self.body(ApproveSerializer)
        parts = data.get("parts") or [{"position": part.position} for part in view.decidable]
        shown = Shown(data.get("effect") or "", accepts_beyond=data["confirm_beyond"])
        approve_request(
            author=author_of(request),
            request_id=number,
            approval=Approval(
                {part["position"]: part.get("proposal", "") for part in parts},
                data["comment"],
                end_of(data),
                shown,
            ),
        )
        return Response(RequestSerializer.data_of(self.resource.object_or_404(request, number)))


class AccessRequestRejection(Step):
    @api_operation(
        "access_requests_reject",
        TAG,
        "Reject an access request",
        f"Denies all pending parts about which the caller decides. The requester reads the reason. {APPROVERS_ONLY}",
        request=RejectSerializer,
        request_example={"reason": "use the monthly report instead"},
        responses={200: RequestSerializer},
        response_example={"state": "denied", "can": []},
        errors=[409],
    )
    def post(self, request: Request, number: int) -> Response:
        return self.take(request, number, deny_request, RejectSerializer)


class AccessRequestQuestion(Step):
    @api_operation(
        "access_requests_ask",
        TAG,
        "Ask the requester a question",
        f"The request stays pending, and waits for the answer. {APPROVERS_ONLY}",
        request=AskSerializer,
        request_example={"question": "For which report?"},
        responses={200: RequestSerializer},
        response_example={"waits_for_answer": True},
        errors=[409],
    )
    def post(self, request: Request, number: int) -> Response:
        return self.take(request, number, ask_back, AskSerializer)


class AccessRequestAnswer(Step):
    @api_operation(
        "access_requests_answer",
        TAG,
        "Answer the question of an approver",
        f"The request waits for its approvers again. {REQUESTER_ONLY}",
        request=AnswerSerializer,
        request_example={"answer": "For the yearly report."},
        responses={200: RequestSerializer},
        errors=[409],
    )
    def post(self, request: Request, number: int) -> Response:
        return self.take(request, number, answer_question, AnswerSerializer)


class AccessRequestWithdrawal(Step):
    @api_operation(
        "access_requests_withdraw",
        TAG,
        "Withdraw an access request",
        f"Ends the pending parts. Access that was approved already stays. {REQUESTER_ONLY}",
        request=WithdrawSerializer,
        request_example={"comment": "not needed any more"},
        responses={200: RequestSerializer},
        response_example={"state": "cancelled", "can": []},
        errors=[409],
    )
    def post(self, request: Request, number: int) -> Response:
        return self.take(request, number, withdraw_request, WithdrawSerializer)


class ApproverList(ListEndpoint):
    rows = Approvers
    rules = {"PUT": check_administrator}
    operation = (
        "approvers_list",
        TAG,
        "List the approvers of namespaces",
        "The groups whose members decide about access requests for a namespace and everything in it, besides administrators. For "
        "administrators and auditors.",
    )

    @api_operation(
        "approvers_set",
        TAG,
        "Set the approvers of a namespace",
        "Names the group, or none. The namespace need not be registered yet. For administrators.",
        request=SetApproversSerializer,
        request_example=ApproversSerializer.example_of(),
        responses={200: ApproversSerializer},
    )
    def put(self, request: Request) -> Response:
        data = self.body(SetApproversSerializer)
        set_namespace_approvers(
            author=author_of(request), namespace=data["namespace"], group=data["group"] or ""
        )
        return Response({"namespace": str(data["namespace"]), "group": data["group"]})
