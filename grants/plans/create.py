"""Store a plan: its items, and its effect on the data of one revision."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice

from django.db import transaction
from django.utils import timezone

from grants.authority.persons import accounts_of
from grants.authority.transactions import check_administrator
from grants.change_set import (
    Change,
    Grant,
    Join,
    principals_of,
)
from grants.errors import PlanError
from grants.journal import Author
from grants.models import Plan, PlanBreadth
from grants.plans.effect import effect_counts, mark_noop_items, revision_before
from grants.plans.items import insert_items
from grants.plans.stranding import delete_restored_strandings, store_strandings
from grants.principal_rows import principals_by_name
from grants.validity import time_in_words

MAX_PLAN_ITEMS = 100_000
ITEMS_PER_BATCH = 900
MAX_TITLE_LENGTH = 300


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
    changes: Iterable[Change]
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


def _insert_items(plan: Plan, changes: Iterable[Change]) -> int:
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
        principals = {name for change in batch for name in principals_of(change)} - known_principals
        _check_principals(principals)
        known_principals |= principals
        _check_periods(plan, batch)
        insert_items(plan, batch, first_position=count + 1)
        count += len(batch)
    return count


def _check_principals(principals: set[str]) -> None:
    """Raise PlanError if one of these principals does not exist."""
    if unknown := sorted(principals - principals_by_name(principals).keys()):
        raise PlanError(f"{unknown[0]} does not exist: add it first, or correct the name")


def _check_periods(plan: Plan, batch: list[Change]) -> None:
    """Raise PlanError if a period has ended. Only a plan that undoes another one may restore it."""
    now = timezone.now()
    for change in batch:
        over = change.validity if isinstance(change, Grant | Join) and change.validity.is_over(now) else None
        if over is not None and plan.origin != PlanOrigin.INVERSE:
            raise PlanError(
                f"the period of {change} ended {time_in_words(over.valid_until)}: choose a later end, or leave "
                "it out"
            )
