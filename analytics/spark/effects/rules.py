"""The rules of an effect: the requirements of a generation in the states before and after the changes.

An operation has two rules. The first one compares the answer before the changes with the answer that only the
intended changes would give: its changed answers are intended. The second one compares that answer with the
one after the changes: its changed answers are beyond the purpose. So no changed answer belongs to both.

INVARIANT: the requirements are those that `engine.rules` compiles. There is no other evaluation of the
grammar here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from analytics.spark.engine.compiled import UNMET, Requirement
from analytics.spark.engine.rules import (
    PRIVILEGES,
    Fact,
    Rule,
    RuleSet,
    generation_rules,
    impact_rules,
)
from entities.address import ancestor_kinds

# The states: before the changes, after them, and after only the changes of memberships and activations.
BEFORE, AFTER, PERSONAL = "b", "a", "p"
# The privilege, on the instance, of the users that the rule engine knows: active principals.
KNOWN = "KNOWN"
# The privilege of all users on the entities that are not live in some states.
ABSENT = "ABSENT"
# The engine numbers the privileges with the bits of a positive 64-bit integer.
MAX_PRIVILEGES = 62


@dataclass(frozen=True, slots=True)
class Intention:
    """The intended decisions: those about an entity, for the holders of a pseudo-privilege on it.

    privilege: its name. rules: the kinds and operations that are intended; None for all.
    covers_namespace: the privilege is held on a namespace, and the decisions about all entities inside it are
    intended too.
    """

    privilege: str
    rules: frozenset[tuple[str, str]] | None = None
    covers_namespace: bool = False


@dataclass(frozen=True, slots=True)
class EffectQuestion:
    """The states that are compared, and the changes of decisions that are intended.

    states: BEFORE and AFTER, and PERSONAL if the decisions that memberships and activations change by
    themselves are intended.
    has_known_changes: whether a user is a known subject in some of the states only.
    reference: the name of a generation. The decisions that it permits before the changes are intended. Empty
    for none.
    absences: the sets of states in which changed entities are not live.
    to_generation: the generation that decides after the changes, if they change it. Then all changes are
        intended, and operations without a rule in one of the two generations are left out. Empty for no other
        generation.
    """

    generation: str
    states: str
    has_known_changes: bool
    intentions: tuple[Intention, ...] = ()
    reference: str = ""
    absences: tuple[str, ...] = ()
    to_generation: str = ""

    @property
    def has_effect_everywhere(self) -> bool:
        """Whether decisions can change about entities without a changed grant on them or inside their
        namespace.
        """
        return self.has_known_changes or bool(self.to_generation)


def marked_privilege(privilege: str, states: str) -> str:
    """Return the name of a privilege in the grants that count in these states. states: in the order of the
    question.
    """
    return f"{privilege} {states}"


def effect_rules(question: EffectQuestion) -> RuleSet:
    """Return the rules of an effect.

    Raise ValueError if it has more different intentions than the engine has numbers.
    """
    numbers: dict[Fact, int] = {}
    states = {state: _StateFacts(question, state, numbers) for state in question.states}
    rules = list(
        _rules_of_generations(question, states)
        if question.to_generation
        else _rules_of_one_generation(question, states, numbers)
    )
    marked = [
        marked_privilege(privilege, subset)
        for privilege in (*PRIVILEGES, KNOWN)
        for subset in subsets(question.states)
    ]
    marked += [marked_privilege(ABSENT, subset) for subset in question.absences]
    privileges = dict.fromkeys((*marked, *(intention.privilege for intention in question.intentions)))
    if len(privileges) > MAX_PRIVILEGES:
        raise ValueError(f"{len(privileges)} privileges cannot be numbered")
    return RuleSet(tuple(rules), tuple(numbers), tuple(privileges))


def subsets(states: str) -> list[str]:
    """Return all subsets of the states but the empty one, each in the order of the states."""
    return ["".join(subset) for size in range(1, len(states) + 1) for subset in combinations(states, size)]


def _rules_of_one_generation(
    question: EffectQuestion, states: dict[str, "_StateFacts"], numbers: dict[Fact, int]
) -> Iterator[Rule]:
    """Yield the rules of changes that leave the generation active."""
    reference = {(rule.kind, rule.operation): rule.after for rule in _reference_rules(question).rules}
    base = generation_rules(question.generation)
    for rule in base.rules:
        decisions = [states[state].decision(rule.after, base.facts) for state in question.states]
        key = rule.kind, rule.operation
        intended = [
            _intention_requirement(intention, rule.kind, numbers)
            for intention in question.intentions
            if intention.rules is None or key in intention.rules
        ]
        if key in reference:
            intended.append(states[BEFORE].decision(reference[key], _reference_rules(question).facts))
        yield from _rules_of_operation(rule, decisions, ("any", tuple(intended)) if intended else UNMET)


def _rules_of_generations(question: EffectQuestion, states: dict[str, "_StateFacts"]) -> Iterator[Rule]:
    """Yield the rules of a change that makes another generation active, and changes nothing else."""
    base = impact_rules(question.generation, question.to_generation)
    for rule in base.rules:
        before, after = (
            states[BEFORE].decision(rule.before, base.facts),
            states[AFTER].decision(rule.after, base.facts),
        )
        yield Rule(rule.kind, rule.operation, before, after, is_intended=True)


def _reference_rules(question: EffectQuestion) -> RuleSet:
    return generation_rules(question.reference) if question.reference else RuleSet((), ())


class _StateFacts:
    """Translate requirements into requirements about the grants of one state. numbers: of all facts; new
    facts are added.
    """

    def __init__(self, question: EffectQuestion, state: str, numbers: dict[Fact, int]):
        self._subsets = [subset for subset in subsets(question.states) if state in subset]
        self._numbers = numbers
        self._absent = tuple(
            marked_privilege(ABSENT, subset) for subset in question.absences if state in subset
        )
        self._conditions: list[Requirement] = []
        if question.has_known_changes:
            self._conditions.append(self._fact_requirement(Fact("instance", (KNOWN,))))
        if self._absent:
            self._conditions.append(("not", (_fact_requirement(Fact("self", self._absent), numbers),)))

    def decision(self, requirement: Requirement, facts: tuple[Fact, ...]) -> Requirement:
        """Return the requirement in this state. Unknown users are denied, and so are all users about entities
        that are not live.

        facts: by the numbers in the requirement.
        """
        in_state = self._in_state(requirement, facts)
        return ("all", (*self._conditions, in_state)) if self._conditions else in_state

    def _in_state(self, requirement: Requirement, facts: tuple[Fact, ...]) -> Requirement:
        operator, operands = requirement
        if operator == "held":
            return "any", tuple(self._fact_requirement(facts[number]) for number in operands)
        return operator, tuple(self._in_state(operand, facts) for operand in operands)

    def _fact_requirement(self, fact: Fact) -> Requirement:
        names = tuple(
            marked_privilege(privilege, subset) for privilege in fact.privileges for subset in self._subsets
        )
        if fact.form == "precomputed":
            # entities that are not live in this state do not count for requirements over all live entities
            names += self._absent
        return _fact_requirement(Fact(fact.form, names, fact.inside), self._numbers)


def _fact_requirement(fact: Fact, numbers: dict[Fact, int]) -> Requirement:
    return "held", (numbers.setdefault(fact, len(numbers)),)


def _intention_requirement(intention: Intention, kind: str, numbers: dict[Fact, int]) -> Requirement:
    form = (
        "namespace"
        if intention.covers_namespace and "namespace" in ancestor_kinds(kind) and kind != "namespace"
        else "self"
    )
    return _fact_requirement(Fact(form, (intention.privilege,)), numbers)


def _rules_of_operation(rule: Rule, decisions: list[Requirement], intended: Requirement) -> Iterator[Rule]:
    """Yield the rules of one operation. decisions: before the changes, after them, and for PERSONAL, if it is
    a state.
    """
    before, after, *personal = decisions
    if before == after:
        return
    # where the answers before and after differ, the majority is the answer for PERSONAL
    between = (
        ("any", (("all", (before, after)), *(("all", (answer, personal[0])) for answer in (before, after))))
        if personal
        else before
    )
    if intended != UNMET:
        between = "any", (("all", (intended, after)), ("all", (("not", (intended,)), between)))
    for is_intended, first, last in ((True, before, between), (False, between, after)):
        if first != last:
            yield Rule(rule.kind, rule.operation, first, last, is_intended)
