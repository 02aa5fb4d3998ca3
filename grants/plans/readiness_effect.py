"""Create a readiness plan together with its effect on the deletions and on other permissions."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from entities.address import Address
from entities.models import Entity
from entities.selectors import live_entities_inside
from grants.active_generation import active_generation
from grants.change_set import grants_to
from grants.effects.effect import effect_of
from grants.effects.purposes import DELETING_OPERATIONS, DeleteNamespace
from grants.errors import EffectTooLarge, PlanError
from grants.evaluation.facts import gather_facts
from grants.journal import Author
from grants.lifecycle.missing_grants import active_user_by_name, missing_grants_to_delete
from grants.lifecycle.namespace_deletion import live_namespace
from grants.models import Plan
from grants.plans.create import MAX_PLAN_ITEMS
from grants.plans.permission_effect import plan_effect
from grants.plans.sources.readiness import create_readiness_plan
from grants.policies.decide import is_permitted
from grants.policies.policy import Generation
from grants.policies.question import Question

QUESTIONS_PER_BATCH = 1_000
# how many receivers of the missing grants are compared
MAX_RECEIVERS = 9


@dataclass(frozen=True, slots=True)
class ReadinessWay:
    """The effect of granting what is missing to one principal.

    grants: their number. kept, kept_not: as in `create_readiness_plan_with_effect`. gained, lost: permissions
    beyond the purpose. The last four are None if the effect is too large to be computed.
    """

    principal: str
    grants: int
    kept: int | None = None
    kept_not: int | None = None
    gained: int | None = None
    lost: int | None = None


def readiness_ways(*, namespace: Address, user: str, generation: Generation) -> list[ReadinessWay]:
    """Return the effect of granting what `user` lacks to the user, and to each group of the user, the
    narrowest first.

    Return an empty list if nothing is missing. The missing grants are kept in memory, at most MAX_PLAN_ITEMS.
    Raise PlanError if `user` is unknown or too many grants are missing, LifecycleError if the namespace is
    not live.
    """
    deleter, container = active_user_by_name(user), live_namespace(namespace)
    missing = list(islice(missing_grants_to_delete(namespace, deleter, generation), MAX_PLAN_ITEMS + 1))
    if len(missing) > MAX_PLAN_ITEMS:
        raise PlanError(f"more than {MAX_PLAN_ITEMS:,} grants are missing, which is the limit of a plan")
    if not missing:
        return []
    permitted, total = _deletions(user, container, generation)
    groups = deleter.groups.order_by("name").values_list("name", flat=True)[: MAX_RECEIVERS - 1]
    ways = []
    for principal in (str(deleter), *(f"group:{name}" for name in groups)):
        changes = grants_to(principal, missing)
        try:
            tally = effect_of(changes, generation, DeleteNamespace(user, namespace)).tally
        except EffectTooLarge:
            ways.append(ReadinessWay(principal, len(missing)))
            continue
        kept = permitted + tally.gained_for
        ways.append(
            ReadinessWay(principal, len(missing), kept, total - kept, tally.gained_beyond, tally.lost_beyond)
        )
    return sorted(ways, key=lambda way: (way.gained is None, way.gained, way.principal != str(deleter)))


def create_readiness_plan_with_effect(
    *, author: Author, namespace: Address, user: str
) -> tuple[Plan | None, dict[str, int]]:
    """Create the plan of the grants that `user` needs to delete a namespace, in the active generation.

    Return it with its numbers: grants; kept and kept_not: deletions of the namespace and of the entities in
    it that are permitted and not permitted afterwards; beyond_gained and beyond_lost: other changed
    permissions. The plan is None if nothing is missing. Raise PlanError if `user` is unknown, LifecycleError
    if the namespace is not live, EffectTooLarge.
    """
    generation, deleter, container = active_generation(), active_user_by_name(user), live_namespace(namespace)
    permitted, total = _deletions(user, container, generation)
    if next(missing_grants_to_delete(namespace, deleter, generation), None) is None:
        return None, {
            "grants": 0,
            "kept": permitted,
            "beyond_gained": 0,
            "beyond_lost": 0,
            "kept_not": total - permitted,
        }
    plan = create_readiness_plan(author=author, namespace=namespace, user=user, generation=generation)
    try:
        tally = plan_effect(plan).tally
    except EffectTooLarge:
        plan.delete()
        raise
    kept = permitted + tally.gained_for
    return plan, {
        "grants": plan.effect["grants"],
        "kept": kept,
        "beyond_gained": tally.gained_beyond,
        "beyond_lost": tally.lost_beyond,
        "kept_not": total - kept,
    }


def _deletions(user: str, namespace: Entity, generation: Generation) -> tuple[int, int]:
    """Return how many deletions of the namespace and of live entities in it are permitted now, and how many
    have a rule.
    """
    permitted = total = 0
    questions = _questions(user, namespace, generation)
    while batch := list(islice(questions, QUESTIONS_PER_BATCH)):
        total += len(batch)
        permitted += sum(
            is_permitted(question, facts) for question, facts in zip(batch, gather_facts(batch), strict=True)
        )
    return permitted, total


def _questions(user: str, namespace: Entity, generation: Generation) -> Iterator[Question]:
    inside = (
        live_entities_inside(namespace).values_list("kind", "key").iterator(chunk_size=QUESTIONS_PER_BATCH)
    )
    for address in (namespace.address, *(Address(*row) for row in inside)):
        for operation in DELETING_OPERATIONS:
            policy = generation.policy(address.kind, operation)
            if policy is not None and policy.has_rule:
                yield Question("user", user, operation, address, generation.name)
