"""Renew a plan: create it again from its source and the current data."""

from dataclasses import replace

from django.db import transaction

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
        raise PlanError(f"{plan} was created from the report of an analysis: run the analysis again, and create a plan from the "
                        f"new report")
    with transaction.atomic():
        renewed = RENEWALS[plan.origin](author, plan)
        if plan.is_proposed:
            discard_plan(author=replace(author, reason=f"renewed as {renewed}"), plan_id=plan.pk)
    return renewed
