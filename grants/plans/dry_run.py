"""Compute the effect of changes that are not applied and not stored as a plan."""

from dataclasses import dataclass

from django.db import transaction

from grants.administrators import Stranded
from grants.change_set import ChangeSet
from grants.journal import Author
from grants.plans.sources.changes import create_plan_from_changes
from grants.plans.stranding import stranded_entities

MAX_STRANDED = 50


@dataclass(frozen=True, slots=True)
class DryRun:
    """The effect of changes. counts: as in `Plan.effect`. stranded: the first MAX_STRANDED entities that
    would be stranded.
    """

    counts: dict[str, int]
    stranded: list[Stranded]


def dry_run(*, author: Author, change_set: ChangeSet) -> DryRun:
    """Return the effect that a plan of these changes would have.

    Creates a plan and rolls it back. Raise the errors of `create_plan_from_changes`.
    """
    with transaction.atomic():
        plan = create_plan_from_changes(author=author, change_set=change_set)
        result = DryRun(plan.effect, stranded_entities(plan, max_rows=MAX_STRANDED))
        transaction.set_rollback(True)
    return result
