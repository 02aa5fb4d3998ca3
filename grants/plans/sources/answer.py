"""Create plans with the missing grants of a denied question."""

from typing import Any, NamedTuple, cast

from entities.vocabulary import quantity
from grants.change_set import grants_to
from grants.effects.effect import effect_of
from grants.effects.purposes import AnswerQuestion
from grants.errors import EffectTooLarge, PlanError
from grants.evaluation.engine import check_summary
from grants.evaluation.facts import gather_facts
from grants.lifecycle import missing_grants_of
from grants.plans.choices import PlanChoice
from grants.plans.create import MAX_PLAN_ITEMS, PlanDraft, PlanOrigin, plan_source
from grants.policies.catalogue import generation_by_name
from grants.policies.decide import Facts
from grants.policies.explain import MissingGrant, grant_order, minimal_grant_sets
from grants.policies.question import Question

# only short alternatives are compared
MAX_GRANTS_TO_COMPARE, MAX_ALTERNATIVES = 20, 16
MAX_NAMED = 4

GrantsOnly = frozenset[MissingGrant]


class Alternative(NamedTuple):
    """One way to permit a question.

    beyond: how many other permissions the grants give; None if the effect is too large to be computed. attached: how many of
    them come with the grants.
    """

    beyond: int | None
    grants: tuple[MissingGrant, ...]
    attached: int = 0

    @property
    def short_words(self) -> str:
        """The grants as text. If there are many, it has only the first ones."""
        if len(self.grants) <= MAX_NAMED:
            return self.words
        address, privilege = self.grants[0]
        return f"{len(self.grants):,} grants, such as {privilege} on {address}"

    @property
    def words(self) -> str:
        return " and ".join(f"{privilege} on {address}" for address, privilege in self.grants)


@plan_source(PlanOrigin.CHANGE_SET)
def answer_plan(*, question: Question, way: str = "") -> PlanDraft:
    """Return a plan of grants that permit a denied question: by default, those that give the fewest other
    permissions.

    way: the `words` of the alternative to use. Alternatives are compared if they are short; otherwise the
    plan has the fewest grants. `recipe` lists the alternatives. Raise PlanError if no grants would permit it,
    if more than MAX_PLAN_ITEMS grants are missing, or if `way` is not an alternative.
    """
    alternatives = alternatives_of(question)
    if way:
        chosen = [alternative for alternative in alternatives if alternative.words == way]
        if not chosen:
            raise PlanError(f"{way} does not permit this any more: choose again")
        alternatives = [*chosen, *(alternative for alternative in alternatives if alternative.words != way)]
    missing = (
        alternatives[0].grants if alternatives else missing_grants_of(question, max_grants=MAX_PLAN_ITEMS)
    )
    recipe = {
        "subject": question.principal,
        "operation": question.operation,
        "entity": str(question.target),
        "generation": question.generation,
    }
    if len(alternatives) > 1:
        recipe |= {
            "note": _note(alternatives),
            "alternatives": [
                {
                    "grants": [f"{privilege} {address}" for address, privilege in alternative.grants],
                    "beyond": alternative.beyond,
                }
                for alternative in alternatives
            ],
        }
    return PlanDraft(
        title=f"Let {question.principal} {question.operation} {question.target} ({question.generation})",
        recipe=recipe,
        changes=grants_to(question.principal, missing),
        empty_message="nothing is missing that a grant could give",
    )


def alternatives_of(question: Question) -> list[Alternative]:
    """Return the ways to permit a denied question, the narrowest first; an empty list if they are too long to
    be compared.
    """
    summary = check_summary(question, max_listed=1)
    total = len(summary.missing_grants or ()) + summary.unlisted_count
    requirement = question.policy.requirement if question.policy else None
    if requirement is None or not 0 < total <= min(MAX_GRANTS_TO_COMPARE, MAX_PLAN_ITEMS):
        return []
    facts = gather_facts([question], explained=True)[0]
    ways = shortest_ways(question, facts)
    if len(ways) < 2:
        return []
    try:
        return sorted((_alternative(question, grants) for grants in ways), key=narrowness)
    except EffectTooLarge:
        return []


def shortest_ways(question: Question, facts: Facts) -> list[tuple[MissingGrant, ...]]:
    """Return the shortest sets of grants that permit a denied question, at most MAX_ALTERNATIVES.

    The facts list every missing grant.
    """
    sets = sorted(minimal_grant_sets(question.policy.requirement, question, facts), key=len)
    return [tuple(sorted(cast("GrantsOnly", grants), key=grant_order)) for grants in sets[:MAX_ALTERNATIVES]]


def narrowness(way: Any) -> tuple:
    """Return the sort key of ways with `beyond` and `grants`, the narrowest first."""
    return way.beyond or 0, len(way.grants), [grant_order(grant) for grant in way.grants]


def answer_choices(question: Question) -> list[PlanChoice]:
    """Return a choice for each alternative, or only the fewest grants if there are no alternatives. Return an
    empty list if no grant is missing, or if no grant would permit it.

    Raise PlanError if more than MAX_PLAN_ITEMS grants are missing.
    """
    ways, has_choice = alternatives_of(question), True
    if not ways:
        missing, has_choice = missing_grants_of(question, max_grants=MAX_PLAN_ITEMS), False
        if not missing:
            return []
        try:
            ways = [_alternative(question, missing)]
        except EffectTooLarge:
            ways = [Alternative(None, missing)]
    return [
        PlanChoice(
            # one way needs no choice
            way.words if has_choice else "",
            way.short_words,
            grants=len(way.grants),
            gained=way.beyond,
            attached=way.attached,
            lost=None if way.beyond is None else 0,
        )
        for way in ways
    ]


def _alternative(question: Question, grants: tuple[MissingGrant, ...]) -> Alternative:
    user = question.subject if question.subject_type == "user" else ""
    purpose = AnswerQuestion(user, question.operation, question.known_target)
    changes = grants_to(question.principal, grants)
    effect = effect_of(changes, generation_by_name(question.generation), purpose)
    return Alternative(effect.tally.gained_beyond, grants, effect.attached_gains)


def _note(alternatives: list[Alternative]) -> str:
    """Return the alternatives side by side as text."""
    counts = [(way.beyond or 0) - way.attached for way in alternatives]
    others = zip(alternatives[1:], counts[1:], strict=True)
    ways = "; ".join(
        f"{way.words} ({len(way.grants):,} in all, {quantity(count, 'side effect', 'side effects')})"
        if len(way.grants) > 1
        else f"{way.words} ({quantity(count, 'side effect', 'side effects')})"
        for way, count in list(others)[:4]
    )
    fewest = ", the fewest of all ways" if counts[0] == min(counts) else ""
    given = quantity(counts[0], "permission", "permissions")
    return f"This plan gives {given} as side effects{fewest}. Other ways: {ways}."
