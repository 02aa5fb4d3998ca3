"""Create the plan that keeps the permissions of one generation after another one becomes active."""

from grants.authority.transactions import check_administrator
from grants.journal import Author, current_revision
from grants.models import Plan, PlanBreadth
from grants.plans.create import MAX_PLAN_ITEMS, PlanDraft, PlanOrigin, store_plan
from grants.plans.regrants.compute import Prefer, Regrants, RegrantScope, compute_regrants
from grants.policies.policy import Generation

# a recipe lists at most this many namespaces
MAX_NAMESPACES = 100


def kept_not_recipe(regrants: Regrants) -> dict:
    """Return the member of a recipe that names the namespaces with permissions that are not kept; none if
    these are too many.
    """
    return (
        {"kept_not_in": sorted(regrants.kept_not_in)} if len(regrants.kept_not_in) <= MAX_NAMESPACES else {}
    )


def create_plan_of_regrants(
    *,
    author: Author,
    before: Generation,
    after: Generation,
    prefer: Prefer = Prefer.NARROWEST,
    scope: RegrantScope | None = None,
) -> tuple[Plan | None, Regrants]:
    """Create the plan, computed from the current data.

    Return it with its effect; None if no grant is needed or possible.
    """
    check_administrator(author)
    revision = current_revision()
    regrants = compute_regrants(before, after, prefer=prefer, scope=scope, max_grants=MAX_PLAN_ITEMS)
    if not regrants.grants:
        return None, regrants
    draft = PlanDraft(
        title=f"Keep current permissions, from {before.name} to {after.name}",
        changes=regrants.changes,
        base_revision=revision,
        breadth=PlanBreadth.NAMESPACES,
        recipe={
            "generation": before.name,
            "to_generation": after.name,
            "prefer": str(prefer),
            **regrants.counts,
            **kept_not_recipe(regrants),
            "activation": regrants.activation,
            "only_way": regrants.only_way,
            "is_smallest": regrants.is_smallest,
        },
    )
    return store_plan(author, PlanOrigin.POLICY_IMPACT, draft), regrants
