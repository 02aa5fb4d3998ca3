"""Store a plan: its items, and its effect on the data of one revision."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice

from django.db import transaction
from django.utils import timezone

from entities.address import Address
from entities.services import instance_fault
from entities.vocabulary import Privilege
from grants.bulk_rows import database_time, insert_rows
from grants.changes.authority import check_administrator
from grants.changes.persons import accounts_of
from grants.errors import PlanError
from grants.journal import Author
from grants.models import GRANT_VERBS, Plan, PlanBreadth, PlanItem, PlanVerb, permission_ids
from grants.plans.effect import effect_counts, mark_noop_items, revision_before
from grants.plans.stranding import delete_restored_strandings, store_strandings
from grants.principal_names import parse_principal
from grants.principal_rows import principals_by_name
from grants.validity import VALIDITY_COLUMNS, Validity, time_in_words

MAX_PLAN_ITEMS = 100_000
ITEMS_PER_BATCH = 900
MAX_TITLE_LENGTH = 300
# database columns of PlanItem; `is_so` is the column of `is_noop`
_COLUMNS = (
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

# verb, principal (such as `user:alice`), target, privilege, and the period of a grant or membership to add.
# The target of `grant` and `revoke` is an address, of `join` and `leave` a group (such as `group:analysts`),
# of `activate` and `deactivate` None. Only grants and revocations have a privilege.
PlanChange = (
    tuple[str, str, Address | str | None, Privilege | None]
    | tuple[str, str, Address | str | None, Privilege | None, Validity]
)


class PlanOrigin(StrEnum):
    """The source from which a plan was created, as stored in `Plan.origin`."""

    CHANGE_SET = "change-set"
    COPY = "copy"
    READINESS = "readiness"
    POLICY_IMPACT = "policy-impact"
    INVERSE = "inverse"
    SUBTREE = "subtree"
    SELECTION = "selection"
    GHOSTS = "ghosts"
    FILE = "file"
    OFF_BOARDING = "off-boarding"
    EXPIRED = "expired"
    LIKE = "like"
    REQUEST = "request"
    REVIEW = "review"
    MEMBERS = "members"


@dataclass(frozen=True, slots=True)
class PlanDraft:
    """The content of a plan that is not stored yet.

    changes: the items, without repetitions. They are iterated once and never all in memory.
    base_revision: the revision that was read before the data from which the changes are computed.
    empty_message: the error message if there are no changes. maker_ids: the accounts of other persons who
    decided about the changes than the author. The other fields are those of `grants.models.Plan`.
    """

    title: str
    origin: PlanOrigin | str
    changes: Iterable[PlanChange]
    base_revision: int
    recipe: dict = field(default_factory=dict)
    breadth: PlanBreadth = PlanBreadth.ENTITIES
    watches: Sequence[str] = ()
    empty_message: str = "the plan would be empty: nothing changes"
    inverse_of: Plan | None = None
    renewal_of: Plan | None = None
    maker_ids: Collection[int] = ()


def create_plan(*, author: Author, draft: PlanDraft) -> Plan:
    """Store a draft as a proposed plan. Nothing else changes.

    Runs a few statements for every `ITEMS_PER_BATCH` items.
    Raise NotAdministrator, or PlanError if the draft is empty, invalid or too large.
    """
    check_administrator(author)
    return store_plan(author=author, draft=draft)


def store_plan(*, author: Author, draft: PlanDraft) -> Plan:
    """Store a draft like `create_plan`, for a caller that has checked what the author may do."""
    with transaction.atomic():
        plan = Plan.objects.create(
            title=draft.title[:MAX_TITLE_LENGTH],
            origin=draft.origin,
            recipe=draft.recipe,
            breadth=draft.breadth,
            watches=list(draft.watches),
            base_revision=draft.base_revision,
            made_by=author.name,
            maker_ids=sorted(accounts_of(author).union(draft.maker_ids)),
            inverse_of=draft.inverse_of,
            renewal_of=draft.renewal_of,
        )
        if not _insert_items(plan, draft.changes):
            raise PlanError(draft.empty_message)
        verbs = set(plan.items.order_by().values_list("verb", flat=True).distinct())
        mark_noop_items(plan, verbs)
        store_strandings(plan)
        if plan.inverse_of is not None:
            delete_restored_strandings(plan, revision_before(plan.inverse_of))
        plan.effect = effect_counts(plan)
        plan.save(update_fields=["effect"])
    return plan


def changes_from_grants(principal: str, grants: Iterable[tuple[Address, Privilege]]) -> Iterator[PlanChange]:
    """Yield a change for each of these grants to the principal."""
    for address, privilege in grants:
        yield PlanVerb.GRANT.value, principal, address, privilege


def _insert_items(plan: Plan, changes: Iterable[PlanChange]) -> int:
    """Insert an item for each change, in batches.

    Return the number of items. Raise PlanError if a change is invalid.
    """
    remaining, count, known_principals = iter(changes), 0, set()
    while batch := list(islice(remaining, ITEMS_PER_BATCH)):
        if count + len(batch) > MAX_PLAN_ITEMS:
            raise PlanError(
                f"the plan would have more than {MAX_PLAN_ITEMS:,} items, which is the limit: create it for one "
                f"namespace or one user at a time"
            )
        principals = {
            name
            for _, principal, target, *_ in batch
            for name in (principal, target)
            if isinstance(name, str)
        }
        principals -= known_principals
        _check_principals(principals)
        known_principals |= principals
        insert_rows(PlanItem, _COLUMNS, list(_rows(plan, batch, first_position=count + 1)))
        count += len(batch)
    return count


def _check_principals(principals: set[str]) -> None:
    """Raise PlanError if one of these principals does not exist."""
    if unknown := sorted(principals - principals_by_name(principals).keys()):
        raise PlanError(f"{unknown[0]} does not exist: add it first, or correct the name")


def _rows(plan: Plan, batch: list[PlanChange], first_position: int) -> Iterator[tuple]:
    permissions, now = permission_ids(), timezone.now()
    for position, (verb, principal, target, privilege, *validity) in enumerate(batch, first_position):
        kind, name = parse_principal(principal)
        period = validity[0] if validity else Validity()
        if period.is_over(now) and plan.origin != PlanOrigin.INVERSE:
            raise PlanError(
                f"the period of {principal} on {target} ended {time_in_words(period.valid_until)}: "
                f"choose a later end, or leave it out"
            )
        times = tuple(map(database_time, period))
        if isinstance(target, Address):
            if fault := instance_fault(target):
                raise PlanError(fault)
            namespace = target.namespace
            yield (
                plan.pk,
                position,
                str(verb),
                kind,
                name,
                target.kind,
                target.key,
                namespace.key if namespace else "",
                permissions[privilege],
                "",
                *times,
                False,
            )
            continue
        group_kind, group = parse_principal(target) if target else ("group", "")
        if (kind, group_kind) != ("user", "group"):
            raise PlanError(
                f"only users can be activated, deactivated or members, and only of groups: not {principal}"
            )
        yield plan.pk, position, str(verb), kind, name, "", "", "", None, group, *times, False


def change_of_item(item: PlanItem) -> PlanChange:
    """Return the change that a stored item makes."""
    if item.verb in GRANT_VERBS:
        return item.verb, item.principal, item.address, item.privilege, item.validity
    return item.verb, item.principal, item.group or None, None, item.validity
