"""The REST resource `plans`: create, read, apply, discard, undo and renew plans."""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from django.db import transaction
from rest_framework.response import Response

from authzconsole.common.fields import (
    Boolean,
    Integer,
    List,
    NameText,
    StrictSerializer,
    Text,
    optional_text,
    reason_field,
)
from authzconsole.common.periods import PeriodSerializer
from authzconsole.lists.plans import (
    PlanDetailSerializer,
    PlanItems,
    PlanPrincipals,
    Plans,
    PlanSerializer,
)
from authzconsole.rest.framework.callers import check_administrator, check_can_see_all
from authzconsole.rest.framework.endpoint import Endpoint, Resource
from authzconsole.rest.framework.lists import ListEndpoint
from authzconsole.rest.framework.operations import operation
from authzconsole.rest.grants import (
    MAX_ITEMS,
    ChangeItemSerializer,
    GrantItemSerializer,
    GrantLists,
    items_of,
)
from grants.change_set import Activate, AddGroup, ChangeSet, Deactivate, Exclude, Include, Join, Leave
from grants.changes import Shown
from grants.models import Plan
from grants.plans.apply import apply_plan, discard_plan, inverse_plan
from grants.plans.create import MAX_TITLE_LENGTH, PlanOrigin
from grants.plans.renew import renew_plan
from grants.plans.sources.changes import change_set_plan
from grants.policies.principals import ROLE_PREFIX
from grants.principal_names import MAX_REASON_CHARACTERS
from grants.validity import Validity

ORIGINS = tuple(origin.value for origin in PlanOrigin)


def memberships_of(data: Mapping) -> ChangeSet:
    """Return the changes in the lists `join` and `leave` of a request."""
    return ChangeSet.of(
        *(Join(item["user"], item["group"], item.get("validity", Validity())) for item in data["join"]),
        *(Leave(item["user"], item["group"]) for item in data["leave"]),
    )


def role_groups_of(data: Mapping) -> ChangeSet:
    """Return the changes in the lists `include` and `exclude` of a request."""
    return ChangeSet.of(
        *(
            Include(item["group"], ROLE_PREFIX + item["role"], item.get("validity", Validity()))
            for item in data["include"]
        ),
        *(Exclude(item["group"], ROLE_PREFIX + item["role"]) for item in data["exclude"]),
    )


class RoleGroupItemSerializer(StrictSerializer):
    """A group in a role, both by name."""

    group = NameText(help_text="The name of the group.")
    role = NameText(help_text="The name of the role.")


class NewRoleGroupItemSerializer(RoleGroupItemSerializer, PeriodSerializer):
    """A group in a role, both by name, in a period. An existing membership gets this period."""


class MembershipItemSerializer(StrictSerializer):
    """A user in a group, both by name."""

    user = NameText(help_text="The name of the user.")
    group = NameText(help_text="The name of the group.")


class NewMembershipSerializer(MembershipItemSerializer, PeriodSerializer):
    """A user in a group, both by name, in a period. An existing membership gets this period."""


class MakePlanSerializer(StrictSerializer):
    """The changes of a new plan, at least one. `grant` and `revoke` together, and each other list, have at
    most 1,000 items."""

    add = List(
        child=NameText(),
        default=list,
        max_length=MAX_ITEMS,
        help_text="Names of new groups, which the other lists can name too; `role:NAME` adds a role.",
    )
    grant = items_of(GrantItemSerializer)
    revoke = items_of(ChangeItemSerializer)
    join = items_of(NewMembershipSerializer, default=list)
    leave = items_of(MembershipItemSerializer, default=list)
    include = items_of(NewRoleGroupItemSerializer, default=list)
    exclude = items_of(RoleGroupItemSerializer, default=list)
    activate = List(child=NameText(), default=list, max_length=MAX_ITEMS, help_text="Names of users.")
    deactivate = List(child=NameText(), default=list, max_length=MAX_ITEMS, help_text="Names of users.")
    title = optional_text(
        "The title of the plan; by default it says what the plan changes.", MAX_TITLE_LENGTH
    )
    base_revision = Integer(
        required=False, help_text="The revision that the items are based on; by default the newest."
    )


class PlanEnvelope(MakePlanSerializer):
    """A `MakePlanSerializer` with unvalidated items.

    `GrantLists` validates each item, so that every error is reported.
    """

    grant = List(default=list)
    revoke = List(default=list)


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
        default=False, help_text="Whether the plan may give permissions as side effects."
    )


class DiscardSerializer(StrictSerializer):
    """The reason for discarding the plan."""

    reason = reason_field()


PLAN = Resource.numbered("The number of the plan.", lambda request: Plan.objects.all())


def creating_plan(operation_id: str, **options) -> Callable:
    """Make a method that returns a new plan an operation of administrators. See `operation` for the options."""

    def decorate(method: Callable[[Any], Plan]) -> Callable:
        @wraps(method)
        def create(self) -> Response:
            return self.creation_response(method(self), "plans")

        return operation(operation_id, check_administrator, {201: PlanSerializer}, **options)(create)

    return decorate


class PlanList(ListEndpoint):
    """List plans.

    Newest first. For administrators and auditors.
    """

    route = "plans"
    operation_id = "plans_list"
    rows = Plans

    @creating_plan(
        "plans_create",
        body=PlanEnvelope,
        schema=MakePlanSerializer,
    )
    def post(self) -> Plan:
        """Create a plan from a change set.

        Accepts up to {MAX_ITEMS:,} grants and revocations together, and as many items in each of `add`, `join`,
        `leave`, `include`, `exclude`, `activate` and `deactivate`. Nothing changes until the plan is applied.
        """
        data = self.data
        others = [
            *map(AddGroup, data["add"]),
            *memberships_of(data),
            *role_groups_of(data),
            *map(Activate, data["activate"]),
            *map(Deactivate, data["deactivate"]),
        ]
        grants = GrantLists.parse(data, allows_empty=bool(others))
        with transaction.atomic(), grants.item_errors():
            return change_set_plan.create(
                self.author,
                ChangeSet.of(*grants.changes, *others),
                data["title"],
                data.get("base_revision"),
            )


class PlanDetail(Endpoint):
    route = "plans/<int:number>"
    resource = PLAN

    @operation(
        "plans_retrieve",
        check_can_see_all,
        PlanDetailSerializer,
    )
    def get(self) -> object:
        """Read a plan.

        With its effect, the entities that it strands, and whether it can still be applied. For
        administrators and auditors.
        """
        return self.object


class PlanItemList(ListEndpoint):
    """List the items of a plan.

    Sorted by position. For administrators and auditors.
    """

    route = "plans/<int:number>/items"
    operation_id = "plans_items"
    rows = PlanItems
    resource = PLAN


class PlanPrincipalList(ListEndpoint):
    """List the principals that a plan affects.

    Users come first, then groups, sorted by name. Each has the number of grants that it gains and loses,
    by kind. For administrators and auditors.
    """

    route = "plans/<int:number>/principals"
    operation_id = "plans_principals"
    rows = PlanPrincipals
    resource = PLAN


class PlanApplication(Endpoint):
    route = "plans/<int:number>/apply"
    resource = PLAN

    @operation(
        "plans_apply",
        check_administrator,
        PlanSerializer,
        body=ApplySerializer,
    )
    def post(self) -> object:
        """Apply a plan.

        Applies all items in one transaction, with the reason, and responds when this is done, also for a
        large plan. Returns 409 (stale-base) if data that the plan depends on has changed; the plan can be
        renewed. Returns 409 (effect-changed) if `effect` is sent and the effect is another one now, and 409
        (unconfirmed-effect) if the plan gives permissions as side effects, unless `confirm_beyond` is true.
        Returns 409 if the plan was already applied or discarded.
        """
        data = self.data
        shown = Shown(data.get("effect") or "", accepts_beyond=data["confirm_beyond"])
        return apply_plan(author=self.author, plan_id=self.object.pk, shown=shown)


class PlanDiscard(Endpoint):
    route = "plans/<int:number>/discard"
    resource = PLAN

    @operation(
        "plans_discard",
        check_administrator,
        PlanSerializer,
        body=DiscardSerializer,
    )
    def post(self) -> object:
        """Discard a plan.

        The plan stays in the list and can be renewed.
        """
        return discard_plan(author=self.author, plan_id=self.object.pk)


class PlanInverse(Endpoint):
    route = "plans/<int:number>/inverse"
    resource = PLAN

    @creating_plan(
        "plans_invert",
        errors=[413, 415],
    )
    def post(self) -> Plan:
        """Create a plan that undoes an applied plan.

        The new plan, when applied, reverses the changes of the old plan. Returns 409 if nothing is left
        to undo. The request has no body.
        """
        self.check_empty_body()
        return inverse_plan.create(self.author, self.object.pk)


class PlanRenewal(Endpoint):
    route = "plans/<int:number>/renewal"
    resource = PLAN

    @creating_plan(
        "plans_renew",
        errors=[413, 415],
    )
    def post(self) -> Plan:
        """Renew a plan.

        Creates a plan from the same recipe and the current data. The old plan is discarded unless it was
        applied. The request has no body.
        """
        self.check_empty_body()
        return renew_plan(author=self.author, plan_id=self.object.pk)
