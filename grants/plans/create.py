"""Writing a plan down: from items that were computed or chosen, against the data of one revision."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from django.db import transaction

from entities.address import Address
from entities.services import instance_fault
from entities.vocabulary import Privilege
from grants.bulk_rows import insert_rows
from grants.changes.authority import check_administrator
from grants.errors import PlanError
from grants.journal import Author
from grants.models import Plan, PlanBreadth, PlanItem, PlanVerb, permission_ids
from grants.plans.effect import effect_counts, mark_noop_items, mark_stranding_items
from grants.principal_names import parse_principal
from grants.principal_rows import principals_by_name

MAX_PLAN_ITEMS = 100_000
ITEMS_AT_ONCE = 900
LONGEST_TITLE_CHARACTERS = 300
_COLUMNS = ("plan_id", "position", "verb", "principal_type", "principal_name", "kind", "key", "namespace", "permission_id",
            "is_so", "admins_left")

# verb, principal as it is written, address, privilege
PlanChange = tuple[str, str, Address, Privilege]


@dataclass(frozen=True, slots=True)
class PlanDraft:
    """A plan before it is written. changes: each item once; read once, and never held as a whole.

    base_revision: read before anything that the changes follow from. The rest as in `grants.models.Plan`.
    """

    title: str
    origin: str
    changes: Iterable[PlanChange]
    base_revision: int
    recipe: dict = field(default_factory=dict)
    breadth: PlanBreadth = PlanBreadth.ENTITIES
    watches: Sequence[str] = ()
    nothing: str = "nothing is to be changed: the plan would be empty"
    inverse_of: Plan | None = None
    renewal_of: Plan | None = None


def create_plan(*, author: Author, draft: PlanDraft) -> Plan:
    """Write it down as a proposal; nothing else changes. Raises NotAdministrator, PlanError (`draft.nothing` where it is empty).

    Statements grow with the items by a few for every `ITEMS_AT_ONCE`.
    """
    check_administrator(author)
    with transaction.atomic():
        plan = Plan.objects.create(
            title=draft.title[:LONGEST_TITLE_CHARACTERS], origin=draft.origin, recipe=draft.recipe, breadth=draft.breadth,
            watches=list(draft.watches), base_revision=draft.base_revision, made_by=author.name, inverse_of=draft.inverse_of,
            renewal_of=draft.renewal_of)
        if not _items_write(plan, draft.changes):
            raise PlanError(draft.nothing)
        mark_noop_items(plan)
        mark_stranding_items(plan)
        plan.effect = effect_counts(plan)
        plan.save(update_fields=["effect"])
    return plan


def _items_write(plan: Plan, changes: Iterable[PlanChange]) -> int:
    """Returns how many there are."""
    waiting, count, known = iter(changes), 0, set()
    while batch := list(islice(waiting, ITEMS_AT_ONCE)):
        if count + len(batch) > MAX_PLAN_ITEMS:
            raise PlanError(f"the plan would hold more than {MAX_PLAN_ITEMS:,} items, which is the limit: make it for one "
                            f"namespace, or for one user, at a time")
        _check_principals({principal for _, principal, _, _ in batch} - known, known)
        insert_rows(PlanItem, _COLUMNS, list(_rows(plan, batch, count)))
        count += len(batch)
    return count


def _check_principals(new: set[str], known: set[str]) -> None:
    """Adds to `known`. Raises PlanError naming the first that there is not."""
    if unknown := sorted(new - principals_by_name(new).keys()):
        raise PlanError(f"{unknown[0]} is not known here: add it first, or correct the name")
    known |= new


def _rows(plan: Plan, batch: list[PlanChange], before: int) -> Iterator[tuple]:
    permissions = permission_ids()
    for position, (verb, principal, address, privilege) in enumerate(batch, before + 1):
        if fault := instance_fault(address):
            raise PlanError(fault)
        namespace = address.namespace
        yield (plan.pk, position, str(verb), *parse_principal(principal), address.kind, address.key,
               namespace.key if namespace else "", permissions[privilege], False, None)


def grant_changes(principal: str, gaps: Iterable[tuple[Address, Privilege]]) -> Iterator[PlanChange]:
    for address, privilege in gaps:
        yield PlanVerb.GRANT.value, principal, address, privilege
