"""Compute the effect of a plan on permissions, divided into its purpose and changes beyond it.

The purpose follows from the source of the plan. `Plan.effect["permissions"]` stores the effect with which a
plan was applied.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db.models import Count, Exists, OuterRef

from entities.address import parse_address
from entities.models import Entity, State
from entities.vocabulary import quantity
from grants.active_generation import active_generation
from grants.changes import Shown
from grants.effects.changes import evaluable_changes
from grants.effects.consequences import Consequences
from grants.effects.effect import TOO_LARGE, Effect, effect_of
from grants.effects.large import (
    PLAN_EFFECT,
    Computed,
    compute_effect,
    computed_effect,
    newest_effect_job,
    request_effect,
)
from grants.effects.purposes import (
    AnswerQuestion,
    AnswerQuestions,
    DeleteNamespace,
    KeepPermissions,
    NamedChanges,
    Purpose,
    RestorePermissions,
)
from grants.errors import EffectChanged, EffectTooLarge, EffectUnconfirmed, PlanError
from grants.history import AsOfError, HistoryNotReady, as_of
from grants.jobs import JobContext, JobFailed, JobResult
from grants.journal import Author, current_revision
from grants.models import GRANT_VERBS, Job, Plan, PlanState, PlanVerb
from grants.plan_items import ON_PATTERN, PlannedChange, changes_of_plan
from grants.plans.counts import changing_items, plan_counts, revision_before
from grants.plans.create import PlanOrigin
from grants.policies.catalogue import GENERATIONS, generation_by_name
from grants.policies.policy import Generation
from grants.policies.principals import type_and_name
from grants.principals.hooks import count_access
from grants.principals.renaming import names_since
from grants.roles.capabilities import Capability
from grants.validity import question_time


def plan_effect(plan: Plan, generation: Generation | str | None = None, at: datetime | None = None) -> Effect:
    """Return the effect of a plan: of a proposed plan on the current data, of an applied plan on the data
    before it was applied.

    generation: by default, the one for which the plan was created, or with which it was applied. at: see
    `effect_of`. Raise EffectTooLarge above the limits of the settings, PlanError if the plan was discarded,
    or if the data before it was applied is not known, UnknownGeneration.
    """
    rules = generation_by_name(generation) if isinstance(generation, str) else generation
    if plan.state == PlanState.APPLIED:
        return _applied_effect(plan, rules, at)
    if not plan.is_proposed:
        raise PlanError(f"{plan} was {plan.state}: the effect is computed for plans that can be applied")
    rules, changes = rules or generation_of_plan(plan), list(changes_of_plan(plan))
    return effect_of(evaluable_changes(changes), rules, _purpose_in(plan, rules, changes), at)


def _applied_effect(plan: Plan, generation: Generation | None, at: datetime | None) -> Effect:
    """Return the effect of an applied plan, computed as of the revision before it.

    See `grants.history.past.as_of`.
    """
    rules, stored = generation or generation_of_plan(plan), plan.effect.get("permissions") or {}
    changes = list(changes_of_plan(plan))
    purpose, revision = _purpose_in(plan, rules, changes), revision_before(plan)
    try:
        with as_of(revision):
            effect = effect_of(evaluable_changes(changes), rules, purpose, at)
    except (AsOfError, HistoryNotReady) as error:
        raise PlanError(f"the effect of {plan} cannot be computed again: {error}") from None
    is_stored = at is None and stored.get("generation") == rules.name
    if is_stored and _totals(stored) != _totals(effect.summary):
        raise PlanError(
            f"the effect of {plan} cannot be computed again: some data from that time is not known"
        )
    return effect


def _totals(summary: dict) -> list[int]:
    """Return the numbers of permissions gained and lost.

    Which of them were the purpose of an undo can be unknown at first.
    """
    return [sum(summary[part][change] for part in ("for", "beyond")) for change in ("gained", "lost")]


def plan_consequences(plan: Plan) -> Consequences:
    """Return the leftover grants, sessions and tokens of a proposed plan; of an applied plan, those that were
    stored with it.

    Runs up to four queries.
    """
    if not plan.is_proposed:
        stored = plan.effect.get("permissions") or {}
        return Consequences(**{name: stored.get(name, 0) for name in Consequences._fields})
    is_leftover = Exists(
        Entity.objects.filter(kind=OuterRef("kind"), key=OuterRef("key"), state=State.DELETED)
    )
    rows = changing_items(plan).filter(is_leftover, verb__in=GRANT_VERBS).order_by().values_list("verb")
    leftovers = dict(rows.annotate(Count("pk")))
    leaving = changing_items(plan).filter(verb=PlanVerb.DEACTIVATE).values_list("principal_name", flat=True)
    return Consequences(
        leftovers.get(PlanVerb.GRANT, 0),
        leftovers.get(PlanVerb.REVOKE, 0),
        *count_access(list(leaving) if plan_counts(plan)["deactivations"] else []),
    )


def planned_grant_count(plan: Plan) -> int:
    """Return how many grants of a plan are on addresses that are planned and stay so, so that they give nothing yet. Runs one
    query.
    """
    place = {"kind": OuterRef("kind"), "key": OuterRef("key")}
    exists = Exists(Entity.objects.filter(**place).exclude(state=State.PLANNED))
    becomes_live = Exists(plan.items.filter(**place, verb=PlanVerb.REGISTER))
    return changing_items(plan).filter(~exists, ~becomes_live, ~ON_PATTERN, verb=PlanVerb.GRANT).count()


def generation_of_plan(plan: Plan) -> Generation:
    """Return the generation in which a plan is evaluated.

    It is the one with which the plan was applied, the one for which it was created, or the active one.
    """
    stored = plan.effect.get("permissions") or {}
    name = stored.get("generation") or plan.recipe.get("to_generation") or plan.recipe.get("generation")
    return GENERATIONS[name] if name in GENERATIONS else active_generation()


def purpose_of_plan(plan: Plan) -> Purpose | None:
    """Return the purpose of a plan; None if the changed grants themselves are the purpose.

    A job does not know what a plan that is undone changed, so for an undo it uses the changed grants.
    """
    recipe = plan.recipe
    match plan.origin:
        case PlanOrigin.READINESS:
            return DeleteNamespace(recipe["user"], parse_address(recipe["namespace"]))
        case PlanOrigin.POLICY_IMPACT:
            return KeepPermissions(generation_by_name(recipe["generation"]))
        case PlanOrigin.CHANGE_SET if "operation" in recipe:
            subject_type, subject = type_and_name(recipe["subject"])
            return AnswerQuestion(
                subject if subject_type == "user" else "",
                recipe["operation"],
                parse_address(recipe["entity"]),
            )
        case PlanOrigin.REQUEST:
            return AnswerQuestions(
                recipe["subject"],
                frozenset((parse_address(address), operation) for operation, address in recipe["wanted"]),
            )
    return None


def _purpose_in(plan: Plan, generation: Generation, changes: Sequence[PlannedChange]) -> Purpose | None:
    """Return the purpose of a plan in a generation: of a plan that undoes another one, to restore what that
    one changed.
    """
    undone = plan.inverse_of
    if undone is None:
        return purpose_of_plan(plan)
    undone_changes, revision = list(changes_of_plan(undone)), revision_before(undone)
    try:
        with as_of(revision):
            effect = effect_of(undone_changes, generation, at=question_time())
    except (AsOfError, HistoryNotReady, EffectTooLarge):
        # only the changed grants themselves are known
        return None
    current_name = names_since(revision)
    names = [current_name(f"user:{name}").removeprefix("user:") for name in effect.names]
    return RestorePermissions(
        changes,
        names,
        {
            (cell.address, cell.operation): (
                cell.gained_for | cell.gained_beyond,
                cell.lost_for | cell.lost_beyond,
            )
            for cell in effect.cells
        },
    )


def newest_plan_job(plan: Plan, generation: str) -> Job | None:
    """Return the newest job for the effect of the plan in a generation. Runs one query."""
    return newest_effect_job(PLAN_EFFECT, _job_options(plan, generation))


def computed_plan_effect(plan: Plan, generation: str, at: datetime | None = None) -> Computed:
    """Return what is known about the effect of a plan in a generation. Raise PlanError like `plan_effect`.

    at: see `effect_of`, if no job computes it.
    """
    job = newest_plan_job(plan, generation) if plan.is_proposed else None
    return computed_effect(job, lambda: plan_effect(plan, generation, at))


def request_plan_effect(*, plan: Plan, generation: str, author: Author, requested_by: Any) -> Job:
    """Request the job that computes the effect of a proposed plan. Return the one that is waiting or running
    already, if any.

    generation: empty for the one for which the plan was created. Raise PlanError or NotAdministrator.
    """
    if not plan.is_proposed:
        raise PlanError(f"{plan} was {plan.state}: the effect is computed for plans that can be applied")
    return request_effect(
        PLAN_EFFECT,
        _job_options(plan, generation or generation_of_plan(plan).name),
        author=author,
        requested_by=requested_by,
        capability=Capability.CHANGE_GRANTS,
    )


def compute_plan_effect(context: JobContext) -> JobResult:
    """Compute the effect of the plan that a job names."""
    number = int(context.job.options["plan"])

    def proposed_plan() -> Plan:
        plan = Plan.objects.filter(pk=number).first()
        if plan is None or not plan.is_proposed:
            raise JobFailed(f"plan {number} was applied or discarded in the meantime")
        return plan

    return compute_effect(
        context,
        lambda: evaluable_changes(changes_of_plan(proposed_plan()), is_limited=False),
        lambda changes: purpose_of_plan(proposed_plan()) or NamedChanges(changes),
        counts_strandings=False,
    )


def _job_options(plan: Plan, generation: str) -> dict[str, str]:
    return {"plan": str(plan.pk), "generation": generation}


def check_effect(plan: Plan, shown: Shown) -> dict:
    """Check the effect of a plan before it is applied. Return its summary, to be stored with the plan.

    Raise EffectChanged if the effect is not the one that was shown. Raise EffectUnconfirmed if it gives
    permissions beyond the purpose of the plan, or cannot be computed, and the author does not accept this.
    """
    known = computed_plan_effect(plan, generation_of_plan(plan).name)
    effect = known.effect
    if effect is None:
        _check_digest(plan, shown, TOO_LARGE)
        if not shown.accepts_beyond:
            reason = known.too_large or f"the effect of {plan} is being computed: wait for it"
            raise EffectUnconfirmed(f"{reason}; or confirm that {plan} is applied without knowing its effect")
        return {}
    _check_digest(plan, shown, effect.digest)
    gained = effect.max_side_effects if shown.accepts_attached else effect.max_gained_beyond
    if gained and not shown.accepts_beyond:
        raise EffectUnconfirmed(
            f"{plan} also gives {quantity(gained, 'permission', 'permissions')} as side effects: look at its effect, and "
            "confirm it"
        )
    return effect.summary | {
        "generation": effect.generation,
        "revision": current_revision(),
        **plan_consequences(plan)._asdict(),
    }


def _check_digest(plan: Plan, shown: Shown, digest: str) -> None:
    if (shown.digest or shown.is_required) and shown.digest != digest:
        raise EffectChanged(str(plan))
