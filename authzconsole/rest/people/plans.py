"""REST endpoints that create plans about one person: off-boarding, and the access of a colleague."""

from rest_framework import serializers
from rest_framework.response import Response

from authzconsole.common.fields import (
    AddressText,
    Boolean,
    List,
    NameText,
    PrincipalText,
    StrictSerializer,
)
from authzconsole.lists.plans import PlanSerializer
from authzconsole.rest.framework.callers import check_administrator
from authzconsole.rest.framework.endpoint import Endpoint
from authzconsole.rest.framework.operations import operation
from authzconsole.rest.plans import created_plan_response
from grants.plans.sources.like import like_plan
from grants.plans.sources.off_boarding import OffBoarding, off_boarding_plan

MAX_HEIRS = 20
MAX_HAND_OVERS = 1_000


class HandOverSerializer(StrictSerializer):
    """Who receives an entity, or everything on and inside a namespace."""

    entity = AddressText(help_text="The address of the entity or of the namespace.")
    inside = Boolean(
        required=False,
        default=False,
        help_text="Everything on and inside this namespace that no other item names.",
    )
    to = List(
        child=PrincipalText(),
        min_length=1,
        max_length=MAX_HEIRS,
        help_text="The users and groups that receive it.",
    )

    def validate(self, data: dict) -> dict:
        if data["inside"] and data["entity"].kind != "namespace":
            raise serializers.ValidationError({"inside": ["this requires the address of a namespace"]})
        return data


class OffBoardingSerializer(StrictSerializer):
    """What ends for a user, and who receives the entities."""

    user = NameText(help_text="The user who leaves.")
    deactivate = Boolean(
        required=False, default=True, help_text="Deactivate the user, which ends tokens and sessions."
    )
    leave_groups = Boolean(required=False, default=True, help_text="Remove all memberships.")
    revoke_grants = Boolean(
        required=False,
        default=True,
        help_text="Revoke all direct grants, also on planned and deleted addresses.",
    )
    hand_over = HandOverSerializer(many=True, required=False, default=list, max_length=MAX_HAND_OVERS)  # type: ignore[call-arg]
    stranded_to = List(
        child=PrincipalText(),
        required=False,
        default=list,
        max_length=MAX_HEIRS,
        help_text="The users and groups that receive all other entities that would be stranded.",
    )
    accept_no_administrator = Boolean(
        required=False,
        default=False,
        help_text="Create the plan even if it leaves live entities without an active administrator.",
    )


class LikeSerializer(StrictSerializer):
    """Give one user the groups and direct grants of another."""

    source = NameText(help_text="The user who has the access.")
    target = NameText(help_text="The user who gets it.")
    remove = Boolean(
        required=False,
        default=False,
        help_text="Also remove the groups and direct grants that only the target "
        "has, so that the users do not differ.",
    )


class OffBoardingPlans(Endpoint):
    route, url_name = "plans/off-boarding", "rest-plans-off-boarding"

    @operation(
        "plans_off_board",
        check_administrator,
        {201: PlanSerializer},
        body=OffBoardingSerializer,
    )
    def post(self) -> Response:
        """Create a plan that off-boards a user.

        Hands over entities, revokes all direct grants, removes all memberships, and deactivates the user.
        An entity is handed over with the privileges that the user holds on it, and with ADMIN if it would
        be stranded. Returns 409 if an entity would have no active administrator and
        `accept_no_administrator` is false, or if nothing would change.
        """
        data = self.data
        hand_over = data.pop("hand_over")
        heirs = {
            name: {str(item["entity"]): item["to"] for item in hand_over if item["inside"] is is_inside}
            for name, is_inside in (("entity_heirs", False), ("namespace_heirs", True))
        }
        choices = OffBoarding(stranded_heirs=data.pop("stranded_to"), **heirs, **data)
        return created_plan_response(off_boarding_plan.create(self.author, choices))


class LikePlans(Endpoint):
    route, url_name = "plans/like", "rest-plans-like"

    @operation(
        "plans_like",
        check_administrator,
        {201: PlanSerializer},
        body=LikeSerializer,
    )
    def post(self) -> Response:
        """Create a plan that gives a user the access of another user.

        Adds the memberships and direct grants that only the source has. Returns 409 if there are none.
        """
        return created_plan_response(like_plan.create(self.author, **self.data))
