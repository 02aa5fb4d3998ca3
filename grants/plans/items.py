"""Read the changes of a plan from its items, which `grants.plans.create` stores."""

from collections.abc import Iterator

from grants.change_set import Activate, AddGroup, Deactivate, Grant, Join, Leave, RemovePrincipal, Revoke
from grants.models import Plan, PlanItem, PlanVerb

PlannedChange = AddGroup | Grant | Revoke | Join | Leave | Activate | Deactivate | RemovePrincipal
ITEMS_PER_READ = 2_000


def changes_of_plan(plan: Plan) -> Iterator[PlannedChange]:
    """Yield the change of each item of a plan, in order. Runs one query."""
    for item in plan.items.order_by("position").iterator(chunk_size=ITEMS_PER_READ):
        yield change_of_item(item)


def change_of_item(item: PlanItem) -> PlannedChange:
    """Return the change of a plan item."""
    name, group = item.principal_name, item.group_name
    match item.verb:
        case PlanVerb.ADD:
            return AddGroup(name)
        case PlanVerb.GRANT:
            return Grant(item.principal, item.address, item.privilege, item.validity)
        case PlanVerb.REVOKE:
            return Revoke(item.principal, item.address, item.privilege)
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
    raise ValueError(f"the plan item {item.pk} has the unknown verb {item.verb!r}")
