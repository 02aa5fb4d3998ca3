"""The limits of delegation."""

from django.conf import settings
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from authzconsole.common.fields import Choice, Integer, KindText, List, StrictSerializer, reason_field
from authzconsole.rest.framework.callers import author_of, changeable_with, check_can_see_all
from authzconsole.rest.framework.endpoint import Endpoint
from authzconsole.rest.framework.operations import api_operation
from entities.vocabulary import KINDS, Privilege
from grants.authority.limits import MAX_DAYS, DelegationLimits, set_delegation_limits
from grants.roles.capabilities import Capability

TAG = "Delegation"


class LimitsSerializer(serializers.Serializer):
    """What holders of ADMIN on an entity may grant and revoke on it and inside it."""

    privileges = serializers.ListField(child=serializers.ChoiceField(list(Privilege)))
    kinds = serializers.ListField(
        child=serializers.CharField(), allow_null=True, help_text="Null for all kinds."
    )
    max_days = serializers.IntegerField(help_text="The longest period of a grant in days; 0 for no limit.")


class DelegationSerializer(LimitsSerializer):
    """The limits in force."""

    delegation = serializers.BooleanField(
        help_text="Whether DELEGATION is on. Without it, only administrators change grants."
    )
    upper = LimitsSerializer(help_text="The limits from the settings. The other limits cannot exceed them.")


class SetLimitsSerializer(StrictSerializer):
    """New limits. They cannot exceed those of the settings."""

    privileges = List(
        child=Choice(choices=list(Privilege)),
        max_length=len(Privilege),
        help_text="Empty: delegates grant and revoke nothing.",
    )
    kinds = List(
        child=KindText(),
        required=False,
        min_length=1,
        max_length=1_000,
        help_text="Without it, all kinds that the settings allow.",
    )
    max_days = Integer(
        min_value=0, max_value=MAX_DAYS, help_text="0 for no other limit than that of the settings."
    )
    reason = reason_field()


LIMITS_EXAMPLE = {"privileges": ["READ", "WRITE"], "kinds": None, "max_days": 90}
EXAMPLE = LIMITS_EXAMPLE | {
    "delegation": True,
    "upper": LIMITS_EXAMPLE | {"privileges": ["READ", "WRITE", "EXECUTE"]},
}


class Delegation(Endpoint):
    rules = {"GET": check_can_see_all, "PUT": changeable_with(Capability.MANAGE_SETTINGS)}

    @api_operation(
        "delegation_limits_retrieve",
        TAG,
        "Read the limits of delegation",
        "For accounts that see everything.",
        responses={200: DelegationSerializer},
        response_example=EXAMPLE,
    )
    def get(self, request: Request) -> Response:
        return Response(_as_json())

    @api_operation(
        "delegation_limits_set",
        TAG,
        "Set the limits of delegation",
        "Applies to later changes; grants that exist stay as they are. For administrators.",
        request=SetLimitsSerializer,
        request_example={"privileges": ["READ"], "kinds": ["dataset"], "max_days": 90},
        responses={200: DelegationSerializer},
        response_example=EXAMPLE,
    )
    def put(self, request: Request) -> Response:
        data = self.body(SetLimitsSerializer)
        set_delegation_limits(
            author=author_of(request, data["reason"]),
            privileges=data["privileges"],
            kinds=data.get("kinds"),
            max_days=data["max_days"],
        )
        return Response(_as_json())


def _as_json() -> dict:
    return _limits_as_json(DelegationLimits.stored_or_settings()) | {
        "delegation": settings.DELEGATION,
        "upper": _limits_as_json(DelegationLimits.from_settings()),
    }


def _limits_as_json(limits: DelegationLimits) -> dict:
    kinds = None if limits.kinds is None else [kind for kind in KINDS if kind in limits.kinds]
    return {
        "privileges": [name for name in Privilege if name in limits.privileges],
        "kinds": kinds,
        "max_days": limits.max_days,
    }
