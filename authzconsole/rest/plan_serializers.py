"""The serializers of the REST resource `plans`, and the examples of their OpenAPI operations."""

from collections.abc import Mapping

from rest_framework import serializers

from authzconsole.common.fields import (
    AddressText,
    Boolean,
    Choice,
    Integer,
    List,
    NameText,
    PrincipalText,
    StrictSerializer,
    Text,
    reason_field,
)
from authzconsole.common.periods import PeriodSerializer
from authzconsole.rest.grants import MAX_ITEMS, ChangeItemSerializer, GrantItemSerializer
from grants.change_set import ChangeSet, Join, Leave
from grants.plans.create import MAX_TITLE_LENGTH, PlanOrigin
from grants.plans.regrants.compute import Prefer
from grants.policies.catalogue import GENERATIONS
from grants.principal_names import MAX_REASON_CHARACTERS
from grants.validity import Validity

ORIGINS = tuple(origin.value for origin in PlanOrigin)


def memberships_of(data: Mapping) -> ChangeSet:
    """Return the changes in the lists `join` and `leave` of a request."""
    return ChangeSet.of(
        *(Join(item["user"], item["group"], item.get("validity", Validity())) for item in data["join"]),
        *(Leave(item["user"], item["group"]) for item in data["leave"]),
    )


class MembershipItemSerializer(StrictSerializer):
    """A user in a group, both by name."""

    user = NameText(help_text="The name of the user.")
    group = NameText(help_text="The name of the group.")


class NewMembershipSerializer(MembershipItemSerializer, PeriodSerializer):
    """A user in a group, both by name, in a period. An existing membership gets this period."""


class MakePlanSerializer(StrictSerializer):
    """The changes of a new plan, at least one. `grant` and `revoke` together, and each other list, have at
    most 1,000 items."""

    grant = GrantItemSerializer(many=True, required=False, max_length=MAX_ITEMS)  # type: ignore[call-arg]
    revoke = ChangeItemSerializer(many=True, required=False, max_length=MAX_ITEMS)  # type: ignore[call-arg]
    join = NewMembershipSerializer(many=True, required=False, default=list, max_length=MAX_ITEMS)  # type: ignore[call-arg]
    leave = MembershipItemSerializer(many=True, required=False, default=list, max_length=MAX_ITEMS)  # type: ignore[call-arg]
    activate = List(
        child=NameText(), required=False, default=list, max_length=MAX_ITEMS, help_text="Names of users."
    )
    deactivate = List(
        child=NameText(), required=False, default=list, max_length=MAX_ITEMS, help_text="Names of users."
    )
    title = Text(
        required=False,
        allow_blank=True,
        default="",
        max_length=MAX_TITLE_LENGTH,
        help_text="The title of the plan; by default it says what the plan changes.",
    )
    base_revision = Integer(
        required=False, help_text="The revision that the items are based on; by default the newest."
    )


class PlanEnvelope(MakePlanSerializer):
    """A `MakePlanSerializer` with unvalidated items.

    `GrantLists` validates each item, so that every error is reported.
    """

    grant = List(required=False, default=list)
    revoke = List(required=False, default=list)


class CopySerializer(StrictSerializer):
    """A principal that gets the grants of another one."""

    source = PrincipalText(help_text="The principal that has the grants.")
    target = PrincipalText(help_text="The principal that gets them.")
    within = AddressText(
        required=False, help_text="Only grants on this namespace or application, or inside it."
    )


class CloseGapSerializer(StrictSerializer):
    """A namespace, and a user who lacks grants to delete it."""

    namespace = AddressText(help_text="The address of the namespace.")
    user = NameText(help_text="The user who should be able to delete it.")
    principal = PrincipalText(
        required=False,
        help_text="The principal that gets the grants: the user (default), or a group of the user.",
    )
    generation = Choice(
        choices=list(GENERATIONS), required=False, help_text="By default the active generation."
    )


class NamespaceText(AddressText):
    """The address of a namespace; the validated value is its name."""

    def run_validation(self, data=serializers.empty):
        address = super().run_validation(data)
        if address.kind != "namespace":
            raise serializers.ValidationError(
                "this must be the address of a namespace, such as namespace:sales"
            )
        return address.key


class KeepSerializer(StrictSerializer):
    """A report about a change of the generation, and a part of the permissions that users would lose."""

    run = Integer(help_text="The number of a finished run of policy-impact.")
    user = NameText(required=False, help_text="Only permissions that this user would lose.")
    group = NameText(required=False, help_text="Only permissions that members of this group would lose.")
    namespace = NamespaceText(
        required=False, help_text="Only permissions inside this namespace; its address."
    )
    prefer = Choice(
        choices=list(Prefer),
        required=False,
        default=Prefer.NARROWEST.value,
        help_text="`narrowest` (default): the grants give nothing else, and permissions that cannot be kept in this "
        "way are left out. `fewest`: keep everything, with the fewest grants.",
    )


class ApplySerializer(StrictSerializer):
    """The reason for applying the plan, and what is known about its effect."""

    reason = Text(
        max_length=MAX_REASON_CHARACTERS,
        help_text="The reason; it is written to the journal with every change.",
    )
    effect = Text(
        required=False,
        max_length=64,
        help_text="The digest of the effect that was read before (`plans_effect`).",
    )
    confirm_beyond = Boolean(
        required=False, default=False, help_text="Whether the plan may give permissions beyond its purpose."
    )


class DiscardSerializer(StrictSerializer):
    """The reason for discarding the plan."""

    reason = reason_field()
