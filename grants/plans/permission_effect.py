"""Compute the effect of a plan on permissions, divided into its purpose and changes beyond it.

The purpose follows from the source of the plan. `Plan.effect["permissions"]` stores the effect with which a plan was applied.
"""

from entities.address import parse_address
from grants.active_generation import active_generation
from grants.effects.changes import changes_of_plan
from grants.effects.effect import Effect, effect_of
from grants.effects.purposes import AnswerQuestion, DeleteNamespace, KeepPermissions, Purpose
from grants.errors import EffectChanged, EffectTooLarge, EffectUnconfirmed, PlanError
from grants.models import Plan
from grants.plans.create import PlanOrigin
from grants.policies.catalogue import GENERATIONS, generation_by_name
from grants.policies.policy import Generation

# the digest of an effect that is too large to be computed
TOO_LARGE = "too-large"


def plan_effect(plan: Plan, generation: Generation | str | None = None) -> Effect:
    """Return the effect of a proposed plan on the current data. generation: by default, the one for which the plan was created.

    Raise EffectTooLarge above the limits of the settings, PlanError if the plan is not proposed, UnknownGeneration.
    """
    if not plan.is_proposed:
        raise PlanError(f"{plan} was {plan.state}: the effect is computed for plans that can be applied")
    rules = generation_by_name(generation) if isinstance(generation, str) else generation or generation_of_plan(plan)
    return effect_of(changes_of_plan(plan), rules, purpose_of_plan(plan))


def generation_of_plan(plan: Plan) -> Generation:
    """Return the generation in which a plan is evaluated: the one for which it was created, or the active one."""
    name = plan.recipe.get("to_generation") or plan.recipe.get("generation")
    return GENERATIONS[name] if name in GENERATIONS else active_generation()


def purpose_of_plan(plan: Plan) -> Purpose | None:
    """Return the purpose of a plan; None if the changed grants themselves are the purpose."""
    recipe = plan.recipe
    match plan.origin:
        case PlanOrigin.READINESS:
            return DeleteNamespace(recipe["user"], parse_address(recipe["namespace"]))
        case PlanOrigin.POLICY_IMPACT:
            return KeepPermissions(generation_by_name(recipe["generation"]))
        case PlanOrigin.CHANGE_SET if "operation" in recipe:
            subject_type, _, subject = recipe["subject"].partition(":")
            return AnswerQuestion(subject if subject_type == "user" else "", recipe["operation"], parse_address(recipe["entity"]))
    return None


def check_effect(plan: Plan, digest: str | None, *, confirms_beyond: bool) -> dict:
    """Check the effect of a plan before it is applied. Return its summary, to be stored with the plan.

    digest: of the effect that was shown; None if none was shown.
    Raise EffectChanged if the effect is not the one that was shown. Raise EffectUnconfirmed if it gives permissions beyond the
    purpose of the plan, or cannot be computed, and `confirms_beyond` is false.
    """
    try:
        effect = plan_effect(plan)
    except EffectTooLarge as error:
        if digest not in (None, TOO_LARGE):
            raise EffectChanged(str(plan)) from None
        if not confirms_beyond:
            raise EffectUnconfirmed(f"{error}; or confirm that {plan} is applied without knowing its effect") from None
        return {}
    if digest not in (None, effect.digest):
        raise EffectChanged(str(plan))
    if effect.tally.gained_beyond and not confirms_beyond:
        raise EffectUnconfirmed(f"{plan} also gives {effect.tally.gained_beyond:,} permissions beyond its purpose: look at its "
                                f"effect, and confirm it or discard the plan")
    return effect.summary | {"generation": effect.generation}
