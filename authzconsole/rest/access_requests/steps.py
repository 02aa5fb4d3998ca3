"""Approve, reject, ask back, answer and withdraw access requests."""

from collections.abc import Callable

from rest_framework.request import Request
from rest_framework.response import Response

from authzconsole.common.fields import StrictSerializer
from authzconsole.rest.access_requests.requests import REQUEST_PATH, TAG, end_of, request_view_or_404
from authzconsole.rest.access_requests.serializers import (
    APPROVED_EXAMPLE,
    REQUEST_EXAMPLE,
    AnswerSerializer,
    ApproveSerializer,
    AskSerializer,
    RejectSerializer,
    RequestSerializer,
    WithdrawSerializer,
    request_as_json,
)
from authzconsole.rest.framework.callers import any_account, author_of
from authzconsole.rest.framework.endpoint import Endpoint
from authzconsole.rest.framework.operations import api_operation
from grants.plans.apply import EffectConfirmation
from grants.requests.decide import Approval, approve_request, ask_back, deny_request
from grants.requests.own_steps import answer_question, withdraw_request

APPROVERS_ONLY = "Returns 403 unless the caller decides about it, and for the caller's own request; 409 if it is not pending."
REQUESTER_ONLY = "Returns 403 if it belongs to others, and 409 if it is not pending."


class Step(Endpoint):
    """A step of a request. Subclasses describe it."""

    rules = {"POST": any_account}

    def take(
        self, request: Request, number: int, step: Callable[..., object], body: type[StrictSerializer]
    ) -> Response:
        """Call the step with the members of the body.

        The caller sees the request before, and may see it afterwards.
        """
        request_view_or_404(request, number)
        step(author=author_of(request), request_id=number, **self.body(body))
        return Response(request_as_json(request_view_or_404(request, number)))


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
        errors=[404, 409],
        parameters=[REQUEST_PATH],
    )
    def post(self, request: Request, number: int) -> Response:
        view, data = request_view_or_404(request, number), self.body(ApproveSerializer)
        parts = data.get("parts") or [{"position": part.position} for part in view.decidable]
        confirmation = EffectConfirmation(data.get("effect"), confirms_beyond=data["confirm_beyond"])
        approve_request(
            author=author_of(request),
            request_id=number,
            approval=Approval(
                {part["position"]: part.get("proposal", "") for part in parts},
                data["comment"],
                end_of(data),
                confirmation,
            ),
        )
        return Response(request_as_json(request_view_or_404(request, number)))


class AccessRequestRejection(Step):
    @api_operation(
        "access_requests_reject",
        TAG,
        "Reject an access request",
        f"Denies all pending parts about which the caller decides. The requester reads the reason. {APPROVERS_ONLY}",
        request=RejectSerializer,
        request_example={"reason": "use the monthly report instead"},
        responses={200: RequestSerializer},
        response_example=REQUEST_EXAMPLE | {"state": "denied", "can": []},
        errors=[404, 409],
        parameters=[REQUEST_PATH],
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
        response_example=REQUEST_EXAMPLE | {"waits_for_answer": True},
        errors=[404, 409],
        parameters=[REQUEST_PATH],
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
        response_example=REQUEST_EXAMPLE,
        errors=[404, 409],
        parameters=[REQUEST_PATH],
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
        response_example=REQUEST_EXAMPLE | {"state": "cancelled", "can": []},
        errors=[404, 409],
        parameters=[REQUEST_PATH],
    )
    def post(self, request: Request, number: int) -> Response:
        return self.take(request, number, withdraw_request, WithdrawSerializer)
