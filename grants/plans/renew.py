"""Renew a plan: create it again from its source and the current data."""

from dataclasses import replace
from itertools import zip_longest

from django.db import transaction

from grants.authority.persons import makers_of_plan
from grants.errors import PlanError
from grants.journal import Author
from grants.models import Plan
from grants.plans.apply import discard_plan, plan_by_id
from grants.plans.sources.registry import RENEWALS


def can_renew(plan: Plan) -> bool:
    """Return whether the plan can be created again from its source."""
    return plan.origin in RENEWALS


def renew_plan(*, author: Author, plan_id: int) -> Plan:
    """Create the plan again and return the new plan. Discard the old plan if it is still proposed.

    Raise PlanError if the plan cannot be renewed or would be empty.
    """
    plan = plan_by_id(plan_id)
    if not can_renew(plan):
        raise PlanError(
            f"{plan} was created from the report of an analysis: run the analysis again, and create a plan from the "
            f"new report"
        )
    with transaction.atomic():
        renewed = RENEWALS[plan.origin](author, plan)
        # Otherwise the person who made the plan could renew it to become a second person, or make another
        # plan of it. A plan that was applied or discarded proposes nothing any more, so the person who renews
        # it proposes its changes again.
        is_same = plan.is_proposed and _has_same_items(renewed, plan)
        makers = makers_of_plan(plan.maker_ids, plan.made_by)
        renewed.maker_ids = sorted(makers if is_same else makers.union(renewed.maker_ids))
        renewed.save(update_fields=["maker_ids"])
        if plan.is_proposed:
            discard_plan(author=replace(author, reason=f"renewed as {renewed}"), plan_id=plan.pk)
    return renewed


def _has_same_items(plan: Plan, other: Plan) -> bool:
    columns = (
        "verb",
        "principal_type",
        "principal_name",
        "kind",
        "key",
        "permission_id",
        "group_name",
        "valid_from",
        "valid_until",
    )
    rows = [
        part.items.order_by("position").values_list(*columns).iterator(chunk_size=2_000)
        for part in (plan, other)
    ]
    return all(one == two for one, two in zip_longest(*rows))
