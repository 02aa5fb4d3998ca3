"""What the pages about plans of regrants say about the activation for which they are made."""

from collections.abc import Mapping
from urllib.parse import urlencode

from authzconsole.web.effects.runs import effect_url
from entities.vocabulary import quantity
from grants.change_set import ActivateGeneration, as_text
from grants.models import Plan
from grants.plans.create import PlanOrigin
from grants.policies.catalogue import GENERATIONS


def activation_of_plan(plan: Plan) -> dict | None:
    """Return the context of `plans/_activation.html` for a plan; None if it is no plan of regrants."""
    recipe = plan.recipe
    if (
        plan.origin != PlanOrigin.POLICY_IMPACT
        or not {recipe["generation"], recipe["to_generation"]} <= GENERATIONS.keys()
    ):
        return None
    return activation_context(
        recipe["generation"], recipe["to_generation"], recipe.get("activation"), has_plan=True
    )


def activation_context(
    before: str, after: str, counts: Mapping[str, int] | None, *, has_plan: bool = False
) -> dict:
    """Return the context of `plans/_activation.html`.

    before, after: names of generations. counts: `Regrants.activation`; None if it is not known, as for plans
    of older versions.
    has_plan: whether the counts with the plan are those of one plan.
    """
    query = urlencode({"generation": before, "effect_change": "gained"})
    context = {
        "after": after,
        "list_url": f"{effect_url([as_text(ActivateGeneration(GENERATIONS[after]))])}&{query}",
    }
    if counts is None:
        return context | {
            "sentence": f"Activating `{after}` may itself give permissions that `{before}` denies."
        }
    sentence = (
        f"Activating `{after}` itself gives {quantity(counts['given'], 'permission', 'permissions')} that `{before}` "
        f"denies, and takes {counts['taken']:,}."
    )
    if has_plan:
        sentence += f" With this plan, it gives {counts['given_with_plan']:,} and takes {counts['taken_with_plan']:,}."
    return context | {"sentence": sentence, "given": counts["given"]}
