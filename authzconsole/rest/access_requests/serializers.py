"""The members of access requests, and the JSON of stored ones."""

from typing import NamedTuple

from authzconsole.common import output
from authzconsole.common.fields import (
    AddressText,
    Boolean,
    Integer,
    List,
    NameText,
    StrictSerializer,
    Text,
)
from authzconsole.lists.requests import RequestSummarySerializer
from grants.models import AccessRequestPart, RequestEventKind, RequestState
from grants.principal_names import MAX_REASON_CHARACTERS
from grants.requests.background import PartBackground
from grants.requests.create import MAX_PARTS
from grants.requests.disclosure import RequestView
from grants.requests.proposals import Proposal

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
        help_text="The name of the user who gets the access, by default the caller. Only "
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
    comment = Text(
        required=False,
        allow_blank=True,
        default="",
        max_length=MAX_REASON_CHARACTERS,
        help_text="The requester reads it.",
    )
    valid_until = Text(required=False, max_length=40, help_text="An earlier end than the requested one.")
    effect = Text(
        required=False,
        max_length=40,
        help_text="The `digest` that was read: refuse (409) if the effect is another one now.",
    )
    confirm_beyond = Boolean(
        required=False,
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

    comment = Text(
        required=False,
        allow_blank=True,
        default="",
        max_length=MAX_REASON_CHARACTERS,
        help_text="Approvers read it.",
    )


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


def _held(background: PartBackground) -> list[dict]:
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
    held = HeldSerializer(get=_held, example=[], many=True, help_text="What the subject holds on the entity.")
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


class ProposalsQuery(StrictSerializer):
    choose = Text(
        required=False,
        max_length=4_000,
        help_text="The chosen proposals, such as `1:0a1b2c3d4e5f,2:`. By default the "
        "narrowest one of every part.",
    )


class SetApproversSerializer(StrictSerializer):
    """A namespace, and the group whose members decide about requests for it."""

    namespace = AddressText(help_text="The address of a namespace.")
    group = NameText(
        allow_null=True, help_text="The name of a group; null to leave the decisions to administrators."
    )
