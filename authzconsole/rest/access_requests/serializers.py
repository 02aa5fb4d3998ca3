"""The members of access requests, and the JSON of stored ones."""

from rest_framework import serializers

from authzconsole.common.fields import (
    AddressText,
    Boolean,
    Choice,
    Integer,
    List,
    NameText,
    StrictSerializer,
    Text,
)
from authzconsole.rest.entities import as_json_time
from authzconsole.rest.framework.cursors import PageQuery
from grants.models import AccessRequest, AccessRequestPart, RequestEventKind, RequestState
from grants.principal_names import MAX_REASON_CHARACTERS
from grants.requests.background import PartBackground
from grants.requests.create import MAX_PARTS
from grants.requests.disclosure import RequestView
from grants.requests.proposals import Proposal

SHOWN = ("mine", "to-decide", "all")
UNTIL_HELP = "An RFC 3339 time with a time zone; without it, the access has no end."


class ListFilters(StrictSerializer):
    show = Choice(
        choices=SHOWN,
        required=False,
        default="all",
        help_text="`mine`, `to-decide` (pending requests that wait for you), or `all` that you may see.",
    )
    state = Choice(choices=RequestState.values, required=False, help_text="Only requests in this state.")


class ListQuery(PageQuery, ListFilters):
    pass


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


class PartSerializer(serializers.Serializer):
    position = serializers.IntegerField()
    entity = serializers.CharField(allow_null=True)
    operation = serializers.CharField(allow_null=True)
    group = serializers.CharField(
        allow_null=True, help_text="Of a requested membership: the name of the group."
    )
    state = serializers.ChoiceField(RequestState.values)
    decided_by = serializers.CharField(allow_null=True)
    valid_until = serializers.DateTimeField(allow_null=True, help_text="The end of the approved access.")
    plan = serializers.IntegerField(
        allow_null=True, help_text="The applied plan; for administrators and auditors."
    )


class EventSerializer(serializers.Serializer):
    at = serializers.DateTimeField()
    kind = serializers.ChoiceField(RequestEventKind.values)
    actor = serializers.CharField(allow_null=True)
    text = serializers.CharField()


class RequestSummarySerializer(serializers.Serializer):
    number = serializers.IntegerField()
    subject = serializers.CharField(help_text="The user who gets the access, written `user:NAME`.")
    created_by = serializers.CharField()
    colleague = serializers.CharField(allow_null=True)
    reason = serializers.CharField()
    valid_until = serializers.DateTimeField(allow_null=True, help_text="The requested end.")
    state = serializers.ChoiceField(RequestState.values)
    waits_for_answer = serializers.BooleanField(
        help_text="An approver asked a question that is not answered yet."
    )
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField(help_text="When the request expires if it is still pending.")
    decided_at = serializers.DateTimeField(allow_null=True)


class RequestSerializer(RequestSummarySerializer):
    parts = PartSerializer(many=True, help_text="The parts that the caller may see.")
    hidden_parts = serializers.IntegerField(help_text="The number of parts of other approvers.")
    events = EventSerializer(many=True)
    can = serializers.ListField(
        child=serializers.ChoiceField(["approve", "reject", "ask", "answer", "withdraw"]),
        help_text="The steps that the caller can take.",
    )


class ProposedGrantSerializer(serializers.Serializer):
    entity = serializers.CharField()
    privilege = serializers.CharField()


class HeldSerializer(serializers.Serializer):
    privilege = serializers.CharField()
    through = serializers.CharField(help_text="The principal of the grant.")


class ProposalSerializer(serializers.Serializer):
    id = serializers.CharField()
    grants = ProposedGrantSerializer(many=True)
    group = serializers.CharField(allow_null=True)
    beyond = serializers.IntegerField(
        allow_null=True,
        help_text="How many other permissions it gives; null if not computed, or "
        "if the caller may not see it.",
    )


class PartProposalsSerializer(serializers.Serializer):
    position = serializers.IntegerField()
    proposals = ProposalSerializer(
        many=True,
        help_text="The narrowest first. Proposals with an effect that the caller may not "
        "see are last. Empty if no grants would permit the part.",
    )
    fault = serializers.CharField(help_text="Why there is no proposal; otherwise empty.")
    entity_state = serializers.CharField(
        allow_null=True, help_text="`live`, `planned`, `deleted` or `not registered`."
    )
    held = HeldSerializer(many=True, help_text="What the subject holds on the entity.")
    held_nearby = serializers.IntegerField(
        help_text="On how many other entities of the namespace the subject holds something."
    )
    colleagues = serializers.IntegerField(
        allow_null=True,
        help_text="Active users who share a group with the subject, up to "
        "200; null if the caller may not see how many hold it.",
    )
    colleagues_holding = serializers.IntegerField(
        allow_null=True, help_text="How many of them hold the first proposal."
    )


class CountsSerializer(serializers.Serializer):
    gained = serializers.IntegerField()
    lost = serializers.IntegerField()


class EffectSerializer(serializers.Serializer):
    digest = serializers.CharField()
    purpose = CountsSerializer(help_text="Changed permissions that were requested.")
    beyond = CountsSerializer(help_text="All other changed permissions.")


class ProposalsSerializer(serializers.Serializer):
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


class ApproversSerializer(serializers.Serializer):
    namespace = serializers.CharField()
    group = serializers.CharField(allow_null=True)


class SetApproversSerializer(StrictSerializer):
    """A namespace, and the group whose members decide about requests for it."""

    namespace = AddressText(help_text="The address of a namespace.")
    group = NameText(
        allow_null=True, help_text="The name of a group; null to leave the decisions to administrators."
    )


SUMMARY_EXAMPLE = {
    "number": 12,
    "subject": "user:julia.novak",
    "created_by": "julia.novak",
    "colleague": None,
    "reason": "quarterly close",
    "valid_until": "2026-12-05T17:00:00Z",
    "state": "pending",
    "waits_for_answer": False,
    "created_at": "2026-12-01T08:00:00Z",
    "expires_at": "2026-12-05T17:00:00Z",
    "decided_at": None,
}
REQUEST_EXAMPLE = SUMMARY_EXAMPLE | {
    "parts": [
        {
            "position": 1,
            "entity": "dataset:sales.orders",
            "operation": "read",
            "group": None,
            "state": "pending",
            "decided_by": None,
            "valid_until": None,
            "plan": None,
        }
    ],
    "hidden_parts": 0,
    "can": ["withdraw"],
    "events": [
        {"at": "2026-12-01T08:00:00Z", "kind": "created", "actor": "julia.novak", "text": "quarterly close"}
    ],
}
APPROVED_EXAMPLE = REQUEST_EXAMPLE | {
    "state": "approved",
    "decided_at": "2026-12-01T09:00:00Z",
    "can": [],
    "parts": [
        REQUEST_EXAMPLE["parts"][0]
        | {"state": "approved", "decided_by": "ned", "valid_until": "2026-12-05T17:00:00Z"}
    ],
}
PROPOSALS_EXAMPLE = {
    "parts": [
        {
            "position": 1,
            "fault": "",
            "entity_state": "live",
            "held": [],
            "held_nearby": 0,
            "colleagues": 12,
            "colleagues_holding": 3,
            "proposals": [
                {
                    "id": "0a1b2c3d4e5f",
                    "group": None,
                    "beyond": 3,
                    "grants": [{"entity": "dataset:sales.orders", "privilege": "READ"}],
                }
            ],
        }
    ],
    "effect": {
        "digest": "9f86d081884c7d659a2feaa0c55ad015",
        "purpose": {"gained": 1, "lost": 0},
        "beyond": {"gained": 3, "lost": 0},
    },
}


def summary_as_json(request: AccessRequest) -> dict:
    return {
        "number": request.pk,
        "subject": request.principal,
        "created_by": request.created_by,
        "colleague": request.colleague or None,
        "reason": request.reason,
        "valid_until": as_json_time(request.requested_until),
        "state": str(request.current_state),
        "waits_for_answer": request.waits_for_answer,
        "created_at": as_json_time(request.created_at),
        "expires_at": as_json_time(request.expires_at),
        "decided_at": as_json_time(request.decided_at),
    }


def request_as_json(view: RequestView) -> dict:
    shows_plan = view.scope.account.can_see_all
    steps = {
        "approve": view.can_approve,
        "reject": view.can_decide,
        "ask": view.can_decide,
        "answer": view.can_answer,
        "withdraw": view.can_withdraw,
    }
    return summary_as_json(view.request) | {
        "parts": [_part_as_json(part, shows_plan) for part in view.parts],
        "hidden_parts": view.hidden_count,
        "can": [step for step, is_possible in steps.items() if is_possible],
        "events": [
            {
                "at": as_json_time(event.at),
                "kind": str(event.kind),
                "actor": event.actor or None,
                "text": event.text,
            }
            for event in view.request.events.all()
        ],
    }


def _part_as_json(part: AccessRequestPart, shows_plan: bool) -> dict:
    return {
        "position": part.position,
        "entity": str(part.address) if part.address else None,
        "operation": part.operation or None,
        "group": part.group_name or None,
        "state": str(part.state),
        "decided_by": part.decided_by or None,
        "valid_until": as_json_time(part.valid_until),
        "plan": part.plan_id if shows_plan else None,
    }


def background_as_json(background: PartBackground) -> dict:
    colleagues = background.colleagues
    return {
        "position": background.part.position,
        "proposals": list(map(_proposal_as_json, background.proposals)),
        "fault": background.fault,
        "entity_state": background.state or None,
        "held": [
            {"privilege": str(privilege), "through": through}
            for privilege, through in background.held.items()
        ],
        "held_nearby": background.nearby_count,
        "colleagues": colleagues.total if colleagues else None,
        "colleagues_holding": colleagues.holders if colleagues else None,
    }


def _proposal_as_json(proposal: Proposal) -> dict:
    return {
        "id": proposal.id,
        "group": proposal.group or None,
        "beyond": proposal.beyond,
        "grants": [
            {"entity": str(address), "privilege": str(privilege)} for address, privilege in proposal.grants
        ],
    }
