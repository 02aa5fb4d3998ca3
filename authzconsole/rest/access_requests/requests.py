"""List, create and read access requests, and read the proposals for their parts."""

from datetime import datetime

from django.http import Http404
from rest_framework.request import Request
from rest_framework.response import Response

from authzconsole.common.fields import MAX_INTEGER
from authzconsole.rest.access_requests.serializers import (
    PROPOSALS_EXAMPLE,
    REQUEST_EXAMPLE,
    SUMMARY_EXAMPLE,
    CreateSerializer,
    ListQuery,
    ProposalsQuery,
    ProposalsSerializer,
    RequestSerializer,
    RequestSummarySerializer,
    background_as_json,
    request_as_json,
    summary_as_json,
)
from authzconsole.rest.framework.callers import any_account, author_of
from authzconsole.rest.framework.cursors import ListPart, list_identity, page_of, page_serializer
from authzconsole.rest.framework.endpoint import Endpoint, created_response
from authzconsole.rest.framework.locations import access_request_location
from authzconsole.rest.framework.operations import LOCATION, api_operation, path_parameter
from authzconsole.rest.framework.problems import Problem
from grants.requests.approvers import listed_requests, visible_requests
from grants.requests.background import PartBackground, can_see_effect, part_background
from grants.requests.create import RequestDraft, WantedAccess, create_request, request_subject
from grants.requests.disclosure import RequestView, view_of
from grants.requests.proposals import Proposal, effect_of_proposals
from grants.validity import Validity

TAG = "Access requests"
REQUEST_PATH = path_parameter("number", "The number of the request.", int)


class AccessRequests(Endpoint):
    rules = {"GET": any_account, "POST": any_account}
    queries = {"GET": ListQuery}

    @api_operation(
        "access_requests_list",
        TAG,
        "List access requests",
        "Newest first. Requesters see their own requests, approvers also those about which they decide, administrators and "
        "auditors all.",
        query=ListQuery,
        responses={200: page_serializer(RequestSummarySerializer)},
        response_example={"items": [SUMMARY_EXAMPLE], "next": None},
    )
    def get(self, request: Request) -> Response:
        rows = listed_requests(request.user, self.query["show"], self.query.get("state", ""))
        return Response(
            page_of(
                [ListPart(rows, ("-pk",))],
                summary_as_json,
                query=self.query,
                identity=[*list_identity("access-requests", self.query), request.user.pk],
            )
        )

    @api_operation(
        "access_requests_create",
        TAG,
        "Request access",
        "The answer does not tell whether the addresses or the colleague exist. Returns 409 if all of it is permitted already, "
        "or if the same request is pending (`request` is its number). Every account can request access.",
        request=CreateSerializer,
        responses={201: RequestSerializer},
        response_example=REQUEST_EXAMPLE,
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
            request_as_json(view_of(created, request.user)), access_request_location(created.pk)
        )


class AccessRequestDetail(Endpoint):
    rules = {"GET": any_account}

    @api_operation(
        "access_requests_retrieve",
        TAG,
        "Return an access request",
        "With its parts and its history. Approvers see only the parts about which they decide.",
        responses={200: RequestSerializer},
        response_example=REQUEST_EXAMPLE,
        errors=[404],
        parameters=[REQUEST_PATH],
    )
    def get(self, request: Request, number: int) -> Response:
        return Response(request_as_json(request_view_or_404(request, number)))


class AccessRequestProposals(Endpoint):
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
        response_example=PROPOSALS_EXAMPLE,
        errors=[404, 409],
        parameters=[REQUEST_PATH],
    )
    def get(self, request: Request, number: int) -> Response:
        view = request_view_or_404(request, number)
        account = request.user
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
        return Response(
            {
                "parts": list(map(background_as_json, shown)),
                "effect": None
                if effect is None
                else {
                    "digest": effect.digest,
                    "purpose": effect.summary["for"],
                    "beyond": effect.summary["beyond"],
                },
            }
        )


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


def request_view_or_404(request: Request, number: int) -> RequestView:
    """Return the request as the caller sees it.

    Raise Http404 if the caller may not see it, as if it did not exist.
    """
    rows = visible_requests(request.user).select_related("subject")
    row = rows.filter(pk=number).first() if number <= MAX_INTEGER else None
    if row is None:
        raise Http404
    return view_of(row, request.user)


def end_of(data: dict) -> datetime | None:
    """Return `valid_until` of a body; None if it is missing. Raise ValidityError."""
    return Validity.parse(None, data.get("valid_until")).valid_until
