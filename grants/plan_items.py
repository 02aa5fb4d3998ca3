"""Read the changes of a plan from its items, which `grants.plans.create` stores.

`grants.plans` is above the changes and their effects, which read the items of an `ApplyPlan` here.
"""

from collections.abc import Iterable, Iterator

from django.db.models import Q

from grants.change_set import (
    Activate,
    AddGroup,
    AddUser,
    ApplyPlan,
    Change,
    Deactivate,
    Delete,
    Exclude,
    Grant,
    Include,
    Join,
    Leave,
    MembershipChange,
    Recreate,
    Register,
    RemovePrincipal,
    Revoke,
)
from grants.errors import PlanError
from grants.models import GROUP, Plan, PlanItem, PlanVerb

StateOfEntity = Register | Recreate | Delete
PlannedChange = (
    AddUser
    | AddGroup
    | Grant
    | Revoke
    | MembershipChange
    | Activate
    | Deactivate
    | RemovePrincipal
    | StateOfEntity
)
ITEMS_PER_BATCH = 2_000
# the items on patterns; no other address contains these characters
ON_PATTERN = Q(key__contains="*") | Q(key__contains="?")


def plan_by_id(plan_id: int) -> Plan:
    """Return the plan with this number. Raise PlanError if there is none."""
    plan = Plan.objects.filter(pk=plan_id).first()
    if plan is None:
        raise PlanError(f"there is no plan {plan_id}")
    return plan


def proposed_plan(plan_id: int) -> Plan:
    """Return the plan. Raise PlanError if it is not proposed.

    A caller that applies or discards it must hold the lock of the journal; otherwise two callers could apply or discard
    the same plan.
    """
    plan = plan_by_id(plan_id)
    if not plan.is_proposed:
        raise PlanError(f"{plan} was already {plan.state} by {plan.decided_by}")
    return plan


def with_plan_changes(changes: Iterable[Change]) -> Iterator[Change]:
    """Yield the changes, with the items of a plan in place of its application. Raise PlanError unless it is proposed."""
    for change in changes:
        if isinstance(change, ApplyPlan):
            yield from changes_of_plan(proposed_plan(change.plan))
        else:
            yield change


def changes_of_plan(plan: Plan) -> Iterator[PlannedChange]:
    """Yield the change of each item of a plan, in order. Runs the queries of `item_batches`."""
    return (change_of_item(item) for batch in item_batches(plan) for item in batch)


def item_batches(plan: Plan) -> Iterator[list[PlanItem]]:
    """Yield the items of a plan in order, in batches of ITEMS_PER_BATCH.

    Each batch is one query, because SQLite cannot continue to read a table after a write to it.
    """
    last_position, is_full = 0, True
    while is_full:
        batch = list(plan.items.filter(position__gt=last_position).order_by("position")[:ITEMS_PER_BATCH])
        if batch:
            yield batch
            last_position = batch[-1].position
        is_full = len(batch) == ITEMS_PER_BATCH


def pattern_changes(plan: Plan) -> list[Grant | Revoke]:
    """Return the grants on patterns and their revocations in a plan. Runs one query."""
    changes = map(change_of_item, plan.items.filter(ON_PATTERN).order_by("position"))
    return [change for change in changes if isinstance(change, Grant | Revoke)]


def verb_of_item(change: Change) -> str:
    """Return the verb of the item for a change: also a group joins and leaves a role."""
    match change:
        case Include():
            return PlanVerb.JOIN
        case Exclude():
            return PlanVerb.LEAVE
    return change.verb


def change_of_item(item: PlanItem) -> PlannedChange:
    """Return the change of a plan item."""
    name, group = item.principal_name, item.group_name
    match item.verb:
        case PlanVerb.ADD:
            return AddGroup(name)
        case PlanVerb.ADD_USER:
            return AddUser(name)
        case PlanVerb.GRANT:
            return Grant(item.principal, item.address, item.privilege, item.validity)
        case PlanVerb.REVOKE:
            return Revoke(item.principal, item.address, item.privilege)
        case PlanVerb.JOIN if item.principal_type == GROUP.name:
            return Include(name, group, item.validity)
        case PlanVerb.LEAVE if item.principal_type == GROUP.name:
            return Exclude(name, group)
        case PlanVerb.JOIN:
            return Join(name, group, item.validity)
        case PlanVerb.LEAVE:
            return Leave(name, group)
        case PlanVerb.ACTIVATE:
            return Activate(name)
        case PlanVerb.DEACTIVATE:
            return Deactivate(name)
        case PlanVerb.REMOVE:
            return RemovePrincipal(item.principal)
        case PlanVerb.REGISTER:
            return Register(item.address)
        case PlanVerb.RECREATE:
            return Recreate(item.address)
        case PlanVerb.DELETE:
            return Delete(item.address)
    raise ValueError(f"the plan item {item.pk} has the unknown verb {item.verb!r}")
