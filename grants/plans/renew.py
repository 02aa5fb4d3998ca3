"""Renew a plan: create it again from its source and the current data."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest

from django.db import transaction
from django.utils import timezone

from grants.authority.persons import makers_of_plan
from grants.authority.transactions import check_administrator
from grants.change_set import (
    Addition,
    Change,
    ending_of,
    with_current_names,
)
from grants.errors import PlanError
from grants.journal import Author, current_revision
from grants.models import Plan
from grants.models.reviews import ReviewPlan
from grants.plan_items import changes_of_plan, plan_by_id
from grants.plans.apply import discard_plan, inverse_plan
from grants.plans.create import PlanDraft, PlanOrigin, period_of_recipe, store_plan
from grants.plans.sources.bulk import selection_plan, subtree_plan
from grants.plans.sources.copy import copy_plan
from grants.plans.sources.expired import expired_plan
from grants.plans.sources.ghosts import ghost_plan
from grants.plans.sources.like import like_plan
from grants.plans.sources.off_boarding import off_boarding_plan
from grants.plans.sources.readiness import readiness_plan
from grants.plans.sources.redundant import redundant_plan
from grants.plans.sources.unused import unused_plan
from grants.principals.renaming import names_since
from grants.validity import Validity

# the other plans are created again from their items
SOURCES = {
    source.origin: source
    for source in (
        subtree_plan,
        selection_plan,
        copy_plan,
        expired_plan,
        ghost_plan,
        inverse_plan,
        like_plan,
        off_boarding_plan,
        readiness_plan,
        redundant_plan,
        unused_plan,
    )
}


def can_renew(plan: Plan) -> bool:
    """Return whether the plan can be created again from its source."""
    # the source of the others is a report, which may be out of date, or a platform
    of_reports = (PlanOrigin.POLICY_IMPACT, PlanOrigin.ROLE_MINING, PlanOrigin.PATTERNS)
    return plan.origin not in (*of_reports, PlanOrigin.SYNC)


def renew_plan(*, author: Author, plan_id: int, period: Validity | None = None) -> Plan:
    """Create the plan again and return the new plan. Discard the old plan if it is still proposed.

    period: limit what the plan gives to it; by default, as the old plan does. Raise PlanError if the plan cannot be renewed or would be empty.
    """
    plan, revision = plan_by_id(plan_id), current_revision()
    if plan.origin == PlanOrigin.SYNC:
        raise PlanError(f"{plan} was created from a platform: sync again")
    if not can_renew(plan):
        raise PlanError(
            f"{plan} was created from the report of an analysis: run the analysis again, and create a plan from the "
            f"new report"
        )
    check_administrator(author)
    with transaction.atomic():
        source = SOURCES.get(PlanOrigin(plan.origin))
        draft = source.draft_again(plan) if source else _draft_of_items(plan)
        draft = replace(
            draft, base_revision=revision, period=period_of_recipe(plan) if period is None else period
        )

        def makers(renewed: Plan) -> set[int]:
            # Otherwise the person who made the plan could renew it to become a second person, or make another
            # plan of it. A plan that was applied or discarded proposes nothing any more, so the person who
            # renews it proposes its changes again.
            is_same = plan.is_proposed and _has_same_items(renewed, plan)
            before = makers_of_plan(plan.maker_ids, plan.made_by)
            return before if is_same else before.union(renewed.maker_ids)

        renewed = store_plan(author, plan.origin, draft, renewal_of=plan, makers=makers)
        for link in ReviewPlan.objects.filter(plan=plan):
            ReviewPlan.objects.create(campaign_id=link.campaign_id, plan=renewed)
        if plan.is_proposed:
            discard_plan(author=replace(author, reason=f"renewed as {renewed}"), plan_id=plan.pk)
    return renewed


def _draft_of_items(plan: Plan) -> PlanDraft:
    """Return a plan with the same items for the current data."""
    return PlanDraft(
        title=plan.title,
        recipe=plan.recipe,
        inverse_of=plan.inverse_of,
        changes=_current_changes(plan),
    )


def _current_changes(plan: Plan) -> Iterator[Change]:
    """Yield the changes with the current names of principals. Access that a review shortens to an end that has
    passed is revoked.
    """
    now, current_name = timezone.now(), names_since(plan.base_revision)
    for change in changes_of_plan(plan):
        current = with_current_names(change, current_name)
        is_over = isinstance(current, Addition) and current.validity.is_over(now)
        yield ending_of(current) if is_over and plan.origin == PlanOrigin.REVIEW else current


def _has_same_items(plan: Plan, other: Plan) -> bool:
    """Return whether two plans have the same changes in the same order."""
    return all(one == two for one, two in zip_longest(changes_of_plan(plan), changes_of_plan(other)))
