"""The items of a plan: the stored form of its changes, so that pages can filter and page them in SQL."""

from collections.abc import Iterable, Iterator

from entities.services import instance_fault
from grants.bulk_rows import database_time, insert_rows
from grants.change_set import Activate, Change, Deactivate, Grant, Join, Leave, Revoke
from grants.errors import PlanError
from grants.models import Plan, PlanItem, PlanVerb, permission_ids
from grants.principal_names import parse_principal
from grants.validity import VALIDITY_COLUMNS, Validity

PlannedChange = Grant | Revoke | Join | Leave | Activate | Deactivate
ITEMS_PER_READ = 2_000
# database columns of PlanItem; `is_so` is the column of `is_noop`
COLUMNS = (
    "plan_id",
    "position",
    "verb",
    "principal_type",
    "principal_name",
    "kind",
    "key",
    "namespace",
    "permission_id",
    "group_name",
    *VALIDITY_COLUMNS,
    "is_so",
)


def insert_items(plan: Plan, changes: Iterable[Change], first_position: int) -> None:
    """Store changes as items. Raise PlanError for a change that a plan cannot contain. Runs one statement."""
    permissions = permission_ids()
    rows = []
    for position, change in enumerate(changes, first_position):
        row: tuple
        match change:
            case Grant(principal, address, privilege) | Revoke(principal, address, privilege):
                if fault := instance_fault(address):
                    raise PlanError(fault)
                namespace = address.namespace.key if address.namespace else ""
                entity = address.kind, address.key, namespace, permissions[privilege]
                row = (*parse_principal(principal), *entity, "")
            case Join(user, group) | Leave(user, group):
                row = "user", user, "", "", "", None, group
            case Activate(user) | Deactivate(user):
                row = "user", user, "", "", "", None, ""
            case _:
                raise PlanError(f"a plan cannot contain the change `{change.verb}`")
        period = change.validity if isinstance(change, Grant | Join) else Validity()
        rows.append((plan.pk, position, change.verb, *row, *map(database_time, period), False))
    insert_rows(PlanItem, COLUMNS, rows)


def changes_of_plan(plan: Plan) -> Iterator[PlannedChange]:
    """Yield the change of each item of a plan, in order. Runs one query."""
    for item in plan.items.order_by("position").iterator(chunk_size=ITEMS_PER_READ):
        yield change_of_item(item)


def change_of_item(item: PlanItem) -> PlannedChange:
    """Return the change of a plan item."""
    name, group = item.principal_name, item.group_name
    match item.verb:
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
    return Deactivate(name)
