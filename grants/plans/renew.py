"""Making a plan anew: from what it was made from, against the present data."""

from collections.abc import Callable
from dataclasses import replace

from django.db import transaction

from entities.address import parse_address
from grants.errors import PlanError
from grants.journal import Author
from grants.models import Plan
from grants.plans.apply import discard_plan, plan_by_id
from grants.plans.sources.bulk import SELECTION, SUBTREE, plan_of_selection_again, plan_of_subtree_again
from grants.plans.sources.file import FILE
from grants.plans.sources.ghosts import GHOSTS, plan_of_ghosts_again
from grants.plans.sources.origins import (
    CHANGE_SET,
    COPY,
    INVERSE,
    READINESS,
    create_plan_from_copy,
    create_readiness_plan,
    plan_again,
)


def _copied(author: Author, plan: Plan) -> Plan:
    recipe = plan.recipe
    within = parse_address(recipe["within"]) if recipe["within"] else None
    return create_plan_from_copy(author=author, source=recipe["source"], target=recipe["target"], within=within, renewal_of=plan)


def _ready(author: Author, plan: Plan) -> Plan:
    recipe = plan.recipe
    return create_readiness_plan(author=author, namespace=parse_address(recipe["namespace"]), user=recipe["user"],
                                 renewal_of=plan, generation=recipe["generation"], principal=recipe["principal"])


def _again(author: Author, plan: Plan) -> Plan:
    return plan_again(author=author, plan=plan)


def _subtree(author: Author, plan: Plan) -> Plan:
    return plan_of_subtree_again(author=author, plan=plan)


def _selection(author: Author, plan: Plan) -> Plan:
    return plan_of_selection_again(author=author, plan=plan)


def _ghosts(author: Author, plan: Plan) -> Plan:
    return plan_of_ghosts_again(author=author, plan=plan)


RENEWALS: dict[str, Callable[[Author, Plan], Plan]] = {
    CHANGE_SET: _again, INVERSE: _again, FILE: _again, COPY: _copied, READINESS: _ready, SUBTREE: _subtree,
    SELECTION: _selection, GHOSTS: _ghosts,
}


def renew_plan(*, author: Author, plan_id: int) -> Plan:
    """The new plan; the old one is discarded where it was still a proposal. Raises PlanError."""
    plan = plan_by_id(plan_id)
    if plan.origin not in RENEWALS:
        raise PlanError(f"{plan} was made from the report of an analysis: run that again, and make a plan from its new report")
    with transaction.atomic():
        renewed = RENEWALS[plan.origin](author, plan)
        if plan.is_proposed:
            discard_plan(author=replace(author, reason=f"made anew as {renewed}"), plan_id=plan.pk)
    return renewed
