"""The REST resources of access requests: list, create, read, decide and answer them, and name the approvers of
namespaces.
"""

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from rest_framework.request import Request
from rest_framework.response import Response

from authzconsole.common import output
from authzconsole.common.api_caller import author_of
from authzconsole.common.fields import (
    MAX_INTEGER,
    AddressText,
    Boolean,
    Integer,
    List,
    NameText,
    QuerySerializer,
    StrictSerializer,
    Text,
    optional_text,
)
from authzconsole.lists.requests import (
    AccessRequests,
    Approvers,
    Catalogue,
    RequestSummarySerializer,
)
from authzconsole.models import TokenScope
from authzconsole.rest.framework.callers import any_account, check_administrator, visible_entity
from authzconsole.rest.framework.endpoint import Endpoint, Resource
from authzconsole.rest.framework.lists import FORMULAS, ListEndpoint
from authzconsole.rest.framework.operations import operation
from authzconsole.rest.framework.problems import Problem
from authzconsole.rest.people import OutcomeSerializer
from grants.changes import Shown
from grants.models import AccessRequestPart, NamespaceApprovers, RequestEventKind, RequestState
from grants.outcomes import Outcome
from grants.principal_names import MAX_REASON_CHARACTERS
from grants.requests.approvers import own_requests, set_namespace_approvers, visible_requests
from grants.requests.background import PartBackground, can_see_effect, part_background
from grants.requests.catalogue import MAX_DESCRIPTION_CHARACTERS, publish, withdraw
from grants.requests.create import MAX_PARTS, RequestDraft, WantedAccess, create_request, request_subject
from grants.requests.decide import Approval, approve_request, ask_back, deny_request
from grants.requests.disclosure import RequestView, view_of
from grants.requests.own_steps import answer_question, withdraw_request
from grants.requests.proposals import Proposal, effect_of_proposals
from grants.validity import Validity

UNTIL_HELP = "An RFC 3339 time with a time zone; without it, the access has no end."


class WantedSerializer(StrictSerializer):
    """An operation on an address."""

    entity = AddressText(help_text="An address. Whether it exists makes no difference to the answer.")
    operation = Text(max_length=40, help_text="An operation of the kind, or a privilege such as READ.")


class CreateSerializer(StrictSerializer):
    """What, why and until when."""

    parts = List(
        child=WantedSerializer(),
        required=False,
        min_length=1,
        max_length=MAX_PARTS,
        help_text="What is requested. Parts that are permitted already are left out.",
    )
    colleague = NameText(
        required=False, help_text="Instead of `parts`: the name of a user whose access is requested."
    )
    reason = Text(max_length=MAX_REASON_CHARACTERS, help_text="Approvers read it.")
    valid_until = Text(required=False, max_length=40, help_text=UNTIL_HELP)
    subject = NameText(
        required=False,
        help_text="The user who gets the access, as `NAME` or `user:NAME`; by default the caller. Only "
        "administrators can request access for others.",
    )


class ChosenSerializer(StrictSerializer):
    """A part, and the proposal for it."""

    position = Integer(min_value=1, max_value=32_000, help_text="The position of the part in the request.")
    proposal = Text(
        required=False, max_length=40, help_text="The id of a proposal; by default the narrowest one."
    )


class ApproveSerializer(StrictSerializer):
    """What is approved. Parts that are left out are denied, if the caller may decide about them."""

    parts = List(
        child=ChosenSerializer(),
        required=False,
        min_length=1,
        max_length=200,
        help_text="By default all pending parts about which the caller may decide.",
    )
    comment = optional_text("The requester reads it.")
    valid_until = Text(required=False, max_length=40, help_text="An earlier end than the requested one.")
    effect = Text(
        required=False,
        max_length=40,
        help_text="The `digest` that was read: refuse (409) if the effect is another one now.",
    )
    confirm_beyond = Boolean(
        default=False,
        help_text="Whether the grants may permit more than the request asks for.",
    )


class RejectSerializer(StrictSerializer):
    """Why the request is denied."""

    reason = Text(max_length=MAX_REASON_CHARACTERS, help_text="The requester reads it.")


class AskSerializer(StrictSerializer):
    """A question to the requester."""

    question = Text(max_length=MAX_REASON_CHARACTERS, help_text="The requester is notified of it.")


class AnswerSerializer(StrictSerializer):
    """The answer to the question of an approver."""

    answer = Text(max_length=MAX_REASON_CHARACTERS, help_text="Approvers read it with the request.")


class WithdrawSerializer(StrictSerializer):
    """A comment about the withdrawal."""

    comment = optional_text("Approvers read it.")


class ShownPart(NamedTuple):
    """A part of a request as the caller sees it. plan: the number of its plan; None if the caller may not see it."""

    part: AccessRequestPart
    plan: int | None


class PartSerializer(output.Output):
    position = output.Integer(source="part.position", example=1)
    entity = output.Text(source="part.address", allow_null=True, example="dataset:sales.orders")
    operation = output.Text(source="part.operation", allow_null=True, example="read")
    group = output.Text(
        source="part.group_name",
        allow_null=True,
        help_text="Of a requested membership: the name of the group.",
    )
    state = output.Choice(choices=RequestState.values, source="part.state")
    decided_by = output.Text(source="part.decided_by", allow_null=True)
    valid_until = output.Time(
        source="part.valid_until", allow_null=True, help_text="The end of the approved access."
    )
    plan = output.Integer(allow_null=True, help_text="The applied plan; for administrators and auditors.")


class EventSerializer(output.Output):
    at = output.Time(example="2026-12-01T08:00:00Z")
    kind = output.Choice(choices=RequestEventKind.values)
    actor = output.Text(example="julia.novak", allow_null=True)
    text = output.Text(example="quarterly close")


def _shown_parts(view: RequestView) -> list[ShownPart]:
    shows_plan = view.scope.account.can_see_all
    return [ShownPart(part, part.plan_id if shows_plan else None) for part in view.parts]


def _steps(view: RequestView) -> list[str]:
    steps = {
        "approve": view.can_approve,
        "reject": view.can_decide,
        "ask": view.can_decide,
        "answer": view.can_answer,
        "withdraw": view.can_withdraw,
    }
    return [step for step, is_possible in steps.items() if is_possible]


class RequestViewSerializer(output.Output):
    """What a request has in addition to its summary."""

    parts = PartSerializer(many=True, get=_shown_parts, help_text="The parts that the caller may see.")
    hidden_parts = output.Integer(source="hidden_count", help_text="The number of parts of other approvers.")
    can = output.Texts(
        ["approve", "reject", "ask", "answer", "withdraw"],
        get=_steps,
        example=["withdraw"],
        help_text="The steps that the caller can take.",
    )
    events = EventSerializer(many=True, get=lambda view: view.request.events.all())


class RequestSerializer(RequestSummarySerializer, RequestViewSerializer):
    def to_representation(self, view: RequestView) -> dict:
        return RequestSummarySerializer.data_of(view.request) | RequestViewSerializer.data_of(view)


def _grants(proposal: Proposal) -> list[dict]:
    return [{"entity": address, "privilege": privilege} for address, privilege in proposal.grants]


def _held_privileges(background: PartBackground) -> list[dict]:
    return [{"privilege": privilege, "through": through} for privilege, through in background.held.items()]


class ProposedGrantSerializer(output.Output):
    entity = output.Text()
    privilege = output.Text()


class HeldSerializer(output.Output):
    privilege = output.Text()
    through = output.Text(help_text="The principal of the grant.")


class ProposalSerializer(output.Output):
    id = output.Text(example="0a1b2c3d4e5f")
    group = output.Text(allow_null=True)
    beyond = output.Integer(
        example=3,
        allow_null=True,
        help_text="How many other permissions it gives; null if not computed, or "
        "if the caller may not see it.",
    )
    grants = ProposedGrantSerializer(get=_grants, many=True)


class PartProposalsSerializer(output.Output):
    position = output.Integer(source="part.position", example=1)
    proposals = ProposalSerializer(
        many=True,
        help_text="The narrowest first. Proposals with an effect that the caller may not "
        "see are last. Empty if no grants would permit the part.",
    )
    fault = output.Text(help_text="Why there is no proposal; otherwise empty.")
    entity_state = output.Text(
        source="state",
        example="live",
        allow_null=True,
        help_text="`live`, `planned`, `deleted` or `not registered`.",
    )
    held = HeldSerializer(
        get=_held_privileges, example=[], many=True, help_text="What the subject holds on the entity."
    )
    held_nearby = output.Integer(
        source="nearby_count",
        help_text="On how many other entities of the namespace the subject holds something.",
    )
    colleagues = output.Integer(
        source="colleagues.total",
        example=12,
        allow_null=True,
        help_text="Active users who share a group with the subject, up to "
        "200; null if the caller may not see how many hold it.",
    )
    colleagues_holding = output.Integer(
        source="colleagues.holders",
        example=3,
        allow_null=True,
        help_text="How many of them hold the first proposal.",
    )


class CountsSerializer(output.Output):
    gained = output.Integer(example=1)
    lost = output.Integer()


class EffectSerializer(output.Output):
    digest = output.Text(example="9f86d081884c7d659a2feaa0c55ad015")
    purpose = CountsSerializer(
        get=lambda effect: effect.summary["for"], help_text="Changed permissions that were requested."
    )
    beyond = CountsSerializer(
        get=lambda effect: effect.summary["beyond"],
        example={"gained": 3, "lost": 0},
        help_text="All other changed permissions.",
    )


class ProposalsSerializer(output.Output):
    parts = PartProposalsSerializer(many=True)
    effect = EffectSerializer(
        allow_null=True,
        help_text="Of the chosen proposals together; null if it is too large, or if the "
        "caller may not see it.",
    )


class ProposalsQuery(QuerySerializer):
    choose = Text(
        max_length=4_000,
        help_text="The chosen proposals, such as `1:0a1b2c3d4e5f,2:`. By default the "
        "narrowest one of every part.",
    )


class ApproversChangeSerializer(output.Output):
    """The group that decides about requests for a namespace, or that is proposed to do so."""

    namespace = output.Text(example="namespace:finance")
    group = output.Text(allow_null=True, example="finance-stewards")
    is_proposed = output.Boolean(help_text="Whether another administrator must confirm the group.")
    sentence = output.Text()


class PublicationSerializer(StrictSerializer):
    """An entry of the catalogue."""

    entity = AddressText(help_text="The address of a live entity that you see.")
    operations = List(
        child=Text(max_length=40),
        min_length=1,
        max_length=MAX_PARTS,
        help_text="Operations of its kind, or privileges.",
    )
    description = Text(
        max_length=MAX_DESCRIPTION_CHARACTERS, help_text="What it is, for people who do not know it."
    )


class WithdrawalQuery(QuerySerializer):
    entity = AddressText(required=True, help_text="The address of the entity.")


class SetApproversSerializer(StrictSerializer):
    """A namespace, and the group that decides about requests for it."""

    namespace = AddressText(help_text="The address of a namespace.")
    group = NameText(
        allow_null=True, help_text="The name of a group; null to leave the decisions to administrators."
    )


def _visible_request(request: Request, number: int) -> RequestView | None:
    """Return the request as the caller sees it; None if the caller may not see it."""
    is_about_owner = request.auth is not None and request.auth.scopes <= {TokenScope.SELF, TokenScope.DECIDE}
    rows = (own_requests if is_about_owner else visible_requests)(request.user).select_related("subject")
    row = rows.filter(pk=number).first() if number <= MAX_INTEGER else None
    return None if row is None else view_of(row, request.user)


REQUEST = Resource("number", "The number of the request.", _visible_request, int)


class AccessRequestList(ListEndpoint):
    """List access requests.

    Newest first. Requesters see their own requests, approvers also those about which they decide,
    administrators and auditors all.
    """

    route = "access-requests"
    self_methods = ("POST",)
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
        token = self.request.auth
        subject = request_subject(
            self.request.user,
            f"user:{data.get('subject', self.request.user.username).removeprefix('user:')}",
            is_allowed_for_others=self.request.user.can_administer
            and (token is None or TokenScope.ADMINISTER in token.scopes),
        )
        created = create_request(
            author=author_of(self.request),
            draft=RequestDraft(data["reason"], wanted, data.get("colleague", ""), end_of(data), subject),
        )
        return self.creation_response(view_of(created, self.request.user), "access-requests", created.pk)


class AccessRequestDetail(Endpoint):
    route = "access-requests/<int:number>"
    self_methods = ("GET", "HEAD")
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
    route = "access-requests/<int:number>/proposals"
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
    route = "access-requests/<int:number>/approve"

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
    route = "access-requests/<int:number>/reject"

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
    route = "access-requests/<int:number>/ask"

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
    route = "access-requests/<int:number>/answer"
    self_methods = ("POST",)

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
    route = "access-requests/<int:number>/withdraw"
    self_methods = ("POST",)

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

    route = "approvers"
    operation_id = "approvers_list"
    rows = Approvers

    @operation(
        "approvers_set",
        check_administrator,
        ApproversChangeSerializer,
        body=SetApproversSerializer,
    )
    def put(self) -> Response:
        """Set the approvers of a namespace.

        Names the group, or none. The namespace need not be registered yet. For administrators. With four eyes,
        the first administrator proposes the group, and another one confirms it with the same request.
        """
        namespace, group = self.data["namespace"], self.data["group"]
        outcome = set_namespace_approvers(
            author=author_of(self.request), namespace=namespace, group=group or ""
        )
        is_set = NamespaceApprovers.objects.filter(namespace=namespace.key, group__name=group).exists()
        return Response(
            {
                "namespace": str(namespace),
                "group": group,
                "is_proposed": group is not None and not is_set,
                "sentence": outcome.sentence,
            }
        )


class CatalogueList(ListEndpoint):
    """List the catalogue.

    The entities that were published so that every account can request them, by name. For every account.
    """

    route = "catalogue"
    operation_id = "catalogue_list"
    rows = Catalogue
    self_methods = ("GET",)

    @operation("catalogue_publish", any_account, OutcomeSerializer, body=PublicationSerializer)
    def put(self) -> Outcome:
        """Publish an entity.

        Adds it to the catalogue, or changes its entry. From then on, every account sees its address and the description.
        For accounts that decide about requests for it. Returns 404 if the caller does not see the entity.
        """
        data = dict(self.data)
        return publish(author=self.author, entity=visible_entity(self.request, data.pop("entity")), **data)

    @operation("catalogue_withdraw", any_account, OutcomeSerializer, query=WithdrawalQuery)
    def delete(self) -> Outcome:
        """Withdraw an entity.

        Takes it out of the catalogue. For accounts that decide about requests for it.
        """
        return withdraw(author=self.author, entity=visible_entity(self.request, self.data["entity"]))
