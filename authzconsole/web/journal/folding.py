"""Fold the lines of an applied plan under the line about its application.

Such a line is the last one of its plan, directly after the lines of its changes. Only the page without
filters folds lines.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import or_

from django.db.models import Q, QuerySet
from django.urls import reverse

from authzconsole.web.journal.rows import journal_row, plan_number
from grants.models import JournalLine, Plan
from grants.plans.effect import change_count, plan_counts

MAX_LINES_SHOWN = 20
# their detail starts with the plan; memberships that a plan changes have the group there, and are not folded
FOLDED = Q(action__in=("grant", "revoke", "user-activate", "user-deactivate"), detail__startswith="plan ")


@dataclass(frozen=True, slots=True)
class FoldedPlan:
    """The changes of an applied plan. rows: the newest MAX_LINES_SHOWN of its lines. url: the page with all
    changes.
    """

    total: int
    rows: list[dict]
    url: str

    @property
    def more(self) -> int:
        return max(0, self.total - len(self.rows))


def lines_outside_plans(lines: QuerySet[JournalLine]) -> QuerySet[JournalLine]:
    """Return the lines without those that `folded_plans` shows."""
    return lines.exclude(FOLDED)


def folded_plans(lines: Iterable[JournalLine]) -> dict[int, FoldedPlan]:
    """Return the folded plan of each line about an applied plan, by revision. Runs two queries, or none."""
    applied = {
        line.revision: number
        for line in lines
        if line.action == "plan-apply" and (number := plan_number(line)) is not None
    }
    if not applied:
        return {}
    before = reduce(
        or_, (Q(revision__lt=revision, revision__gte=revision - MAX_LINES_SHOWN) for revision in applied)
    )
    stored = {line.revision: line for line in JournalLine.objects.filter(before)}
    plans = Plan.objects.in_bulk(set(applied.values()))
    return {
        revision: FoldedPlan(
            change_count(plan_counts(plans[number])),
            list(_rows(stored, revision, number)),
            reverse("plan", args=[number]),
        )
        for revision, number in applied.items()
        if number in plans
    }


def _rows(stored: dict[int, JournalLine], revision: int, number: int) -> Iterator[dict]:
    for before in range(revision - 1, revision - MAX_LINES_SHOWN - 1, -1):
        line = stored.get(before)
        if line is not None and plan_number(line) == number:
            yield journal_row(line)
