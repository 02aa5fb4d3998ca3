"""The limits of delegation."""

from django.conf import settings
from rest_framework import serializers
from rest_framework.response import Response

from authzconsole.common.fields import Choice, Integer, KindText, List, StrictSerializer, reason_field
from authzconsole.rest.framework.callers import changeable_with, check_can_see_all
from authzconsole.rest.framework.endpoint import Endpoint
from authzconsole.rest.framework.operations import operation
from entities.vocabulary import KINDS, Privilege
from grants.authority.limits import MAX_DAYS, DelegationLimits, set_delegation_limits
from grants.roles.capabilities import Capability


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


class Delegation(Endpoint):
    route, url_name = "delegation-limits", "rest-delegation-limits"

    @operation(
        "delegation_limits_retrieve",
        check_can_see_all,
        DelegationSerializer,
    )
    def get(self) -> Response:
        """Read the limits of delegation.

        For accounts that see everything.
        """
        return Response(_as_json())

    @operation(
        "delegation_limits_set",
        changeable_with(Capability.MANAGE_SETTINGS),
        DelegationSerializer,
        body=SetLimitsSerializer,
    )
    def put(self) -> Response:
        """Set the limits of delegation.

        Applies to later changes; grants that exist stay as they are. For administrators.
        """
        data = self.data
        set_delegation_limits(
            author=self.author,
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
