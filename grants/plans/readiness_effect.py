"""Compare the plans that let a user delete a namespace, and count their effect."""

from collections.abc import Iterator
from itertools import islice

from entities.address import Address
from entities.models import Entity
from entities.selectors import live_entities_inside
from grants.active_generation import active_generation
from grants.change_set import grants_to
from grants.effects.effect import effect_of
from grants.effects.purposes import DELETING_OPERATIONS, DeleteNamespace
from grants.errors import EffectTooLarge
from grants.evaluation.facts import gather_facts
from grants.journal import Author
from grants.lifecycle import active_user_by_name, live_namespace, missing_grants_to_delete
from grants.models import Plan
from grants.plans.choices import PlanChoice
from grants.plans.create import MAX_PLAN_ITEMS
from grants.plans.sources.readiness import readiness_plan
from grants.policies.decide import is_permitted
from grants.policies.policy import Generation
from grants.policies.principals import group_text
from grants.policies.question import Question

QUESTIONS_PER_BATCH = 1_000
# how many receivers of the missing grants are listed, and how many grants to them together are evaluated, which takes
# about a second
MAX_RECEIVERS, MAX_GRANTS_EVALUATED = 9, 3_000


def readiness_choices(*, namespace: Address, user: str, generation: Generation) -> list[PlanChoice]:
    """Return the effect of granting what `user` lacks to the user, and to each group of the user, the
    narrowest first. Counts are None if the effect is too large to be computed, or of further receivers if the
    effects of all of them would take too long.

    Return an empty list if nothing is missing. Raise PlanError if `user` is unknown or too many grants are
    missing, LifecycleError if the namespace is not live.
    """
    deleter, container = active_user_by_name(user), live_namespace(namespace)
    missing = missing_grants_to_delete(namespace, deleter, generation, max_grants=MAX_PLAN_ITEMS)
    if not missing:
        return []
    permitted, total = None, 0
    groups = deleter.groups.order_by("name").values_list("name", flat=True)[: MAX_RECEIVERS - 1]
    choices = []
    for number, principal in enumerate((str(deleter), *(group_text(name) for name in groups))):
        if number and (number + 1) * len(missing) > MAX_GRANTS_EVALUATED:
            choices.append(PlanChoice(principal, grants=len(missing)))
            continue
        try:
            purpose = DeleteNamespace(user, namespace)
            effect = effect_of(grants_to(principal, missing), generation, purpose)
        except EffectTooLarge:
            choices.append(PlanChoice(principal, grants=len(missing)))
            continue
        if permitted is None:
            permitted, total = _deletions(user, container, generation)
        tally = effect.tally
        kept = permitted + tally.gained_for
        choices.append(
            PlanChoice(
                principal,
                grants=len(missing),
                kept=kept,
                kept_not=total - kept,
                gained=tally.gained_beyond,
                attached=effect.attached_gains,
                lost=tally.lost_beyond,
            )
        )
    return sorted(choices, key=lambda way: (way.gained is None, way.gained, way.value != str(deleter)))


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
    missing = missing_grants_to_delete(namespace, deleter, generation, max_grants=MAX_PLAN_ITEMS)
    changes, purpose = grants_to(str(deleter), missing), DeleteNamespace(user, namespace)
    tally = effect_of(changes, generation, purpose).tally
    permitted, total = _deletions(user, container, generation)
    kept = permitted + tally.gained_for
    counts = {
        "grants": len(missing),
        "kept": kept,
        "beyond_gained": tally.gained_beyond,
        "beyond_lost": tally.lost_beyond,
        "kept_not": total - kept,
    }
    if not missing:
        return None, counts
    return readiness_plan.create(author, namespace=namespace, user=user, generation=generation), counts


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
