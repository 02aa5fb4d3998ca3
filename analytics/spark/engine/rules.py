"""Rule sets: the requirements of the catalogue, compiled for the engine.

A `Rule` says what one operation on one kind requires before and after. Each requirement is a tree over numbered facts; a fact is
a statement about grants that the engine can test. An analysis that looks at one generation only compares it with `None`, which
permits nothing: everything that the generation permits is then gained.

INVARIANT: nothing here names a generation. The shape of an expression decides, and an unknown node raises UnknownExpression.
A question has no parameters here: no artifact, no dataset type, no owner.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from analytics.spark.engine.compiled import MET, UNMET, CompiledFact, CompiledRule, CompiledRules, Requirement, fact_numbers
from analytics.spark.engine.rows import NONE
from entities.address import ancestor_kinds
from entities.vocabulary import ANY, CONTAINER_KINDS, KINDS, Privilege
from grants.policies.catalogue import generation_by_name
from grants.policies.grammar import (
    AllOf,
    Always,
    AnyOf,
    Expression,
    Given,
    Has,
    HasAtOrBelow,
    HasOnAllLive,
    Scope,
    UnknownExpression,
)
from grants.policies.policy import Generation

# The "operation" of the rule that finds every holder of ADMIN on a namespace or inside it.
CANDIDATE = "candidate"
PRIVILEGES = tuple(privilege.value for privilege in Privilege)


@dataclass(frozen=True, slots=True)
class HeldAnywhere:
    """Met by one of these privileges on any address in the namespace of the target, in any state. Not a node of the grammar."""

    privileges: tuple[Privilege, ...]


Fact = Has | HasAtOrBelow | HasOnAllLive | HeldAnywhere
RuleSource = tuple[str, str, Expression | HeldAnywhere | None, Expression | HeldAnywhere | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """The requirements of an operation on a kind, before and after."""

    kind: str
    operation: str
    before: Requirement
    after: Requirement


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Rules and facts, each numbered by its position.

    A `Has` fact tests the target itself, its application, its namespace or the instance. `HasAtOrBelow` and `HasOnAllLive` facts
    are about containers only.
    """

    rules: tuple[Rule, ...]
    facts: tuple[Fact, ...]

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(rule.kind for rule in self.rules))


def visibility_rules(generation: str) -> RuleSet:
    """Return the rules of `list`: before, nothing is permitted; after, what the generation permits."""
    return generation_rules(generation, lambda operation: operation == "list")


def generation_rules(generation: str, is_included: Callable[[str], bool] = lambda operation: True) -> RuleSet:
    """Return the rules of all included operations: before, nothing is permitted; after, what the generation permits.

    is_included: called with the name of each operation.
    """
    after = generation_by_name(generation)
    included = [(kind, operation) for kind, operation in _operations() if is_included(operation)]
    return _rule_set((kind, operation, None, _policy_requirement(after, kind, operation)) for kind, operation in included)


def impact_rules(generation: str, to_generation: str) -> RuleSet:
    """Return rules that compare two generations, for the operations that have a rule in both."""
    before, after = generation_by_name(generation), generation_by_name(to_generation)
    rules = ((kind, operation, _policy_requirement(before, kind, operation), _policy_requirement(after, kind, operation))
             for kind, operation in _operations())
    return _rule_set(rule for rule in rules if rule[2] is not None and rule[3] is not None)


def missing_privilege_rules(privilege_by_kind: Iterable[tuple[str, Privilege]]) -> RuleSet:
    """Return for each kind and privilege a rule that a user loses on each entity without that privilege on the entity itself."""
    return _rule_set((kind, privilege.value, Always(), Has((privilege,))) for kind, privilege in privilege_by_kind)


def admin_rules(kinds: Iterable[str]) -> RuleSet:
    """Return rules that gain ADMIN on entities of these kinds, and CANDIDATE on a namespace with ADMIN anywhere inside it."""
    held: list[RuleSource] = [(kind, Privilege.ADMIN.value, None, Has((Privilege.ADMIN,))) for kind in kinds]
    return _rule_set((*held, ("namespace", CANDIDATE, None, HeldAnywhere((Privilege.ADMIN,)))))


def missing_admin_rules(kinds: Iterable[str]) -> RuleSet:
    """Return rules that users lose on entities of these kinds without ADMIN, if they hold ADMIN elsewhere in the namespace."""
    anywhere, here = HeldAnywhere((Privilege.ADMIN,)), Has((Privilege.ADMIN,))
    return _rule_set((kind, Privilege.ADMIN.value, anywhere, AllOf((anywhere, here))) for kind in kinds)  # type: ignore[arg-type]


def _policy_requirement(generation: Generation, kind: str, operation: str) -> Expression | None:
    policy = generation.policy(kind, operation)
    return None if policy is None else policy.requirement


def _operations() -> Iterable[tuple[str, str]]:
    return ((kind.name, operation) for kind in KINDS.values() for operation in kind.operations)


def _rule_set(sources: Iterable[RuleSource]) -> RuleSet:
    """Return a rule set. Rules with the same requirement before and after are skipped."""
    numbers: dict[Fact, int] = {}
    rules = [Rule(kind, operation, _requirement(before, kind, numbers), _requirement(after, kind, numbers))
             for kind, operation, before, after in sources]
    return RuleSet(tuple(rule for rule in rules if rule.before != rule.after), tuple(numbers))


def _requirement(expression: Expression | HeldAnywhere | None, kind: str, numbers: dict[Fact, int]) -> Requirement:
    """Return the requirement of the expression on an entity of this kind. New facts get the next number in `numbers`."""
    match expression:
        case None:
            return UNMET
        case Has(privileges, scope):
            scope_of_kind = _scope(scope, kind)
            return UNMET if scope_of_kind is None else _fact(Has(privileges, scope_of_kind), numbers)
        case HasAtOrBelow():
            return _fact(expression if kind in CONTAINER_KINDS else Has(ANY), numbers)
        case HeldAnywhere():
            return _fact(expression, numbers)
        case HasOnAllLive():
            return _fact(expression, numbers) if kind in CONTAINER_KINDS else MET
        case Always() | Given():
            return MET
        case AllOf(parts):
            return "all", tuple(_requirement(part, kind, numbers) for part in parts)
        case AnyOf(parts):
            return "any", tuple(_requirement(part, kind, numbers) for part in parts)
    raise UnknownExpression(expression)


def _fact(fact: Fact, numbers: dict[Fact, int]) -> Requirement:
    return "held", (numbers.setdefault(fact, len(numbers)),)


def _scope(scope: Scope, kind: str) -> Scope | None:
    """Return the scope of the container that `scope` refers to for this kind; None if the kind has no such container."""
    match scope:
        case Scope.SELF:
            return scope
        case Scope.PARENT:
            container = KINDS[kind].parent
        case Scope.APPLICATION | Scope.NAMESPACE | Scope.INSTANCE:
            container = scope.value
        case _:
            return None
    if container == kind:
        return Scope.SELF
    return Scope(container) if container in ancestor_kinds(kind) else None


def is_met_without_grants(rule_set: RuleSet) -> bool:
    """Return whether a user without any grant may get a different answer before and after."""
    # A container with no live entities inside satisfies HasOnAllLive for every user.
    held = {number: isinstance(fact, HasOnAllLive) for number, fact in enumerate(rule_set.facts)}
    return any(_may_be_met(requirement, held) for rule in rule_set.rules for requirement in (rule.before, rule.after))


def _may_be_met(requirement: Requirement, held: dict[int, bool]) -> bool:
    match requirement:
        case "held", numbers:
            return any(held[number] for number in numbers)
        case "all", parts:
            return all(_may_be_met(part, held) for part in parts)
        case "any", parts:
            return any(_may_be_met(part, held) for part in parts)
    raise UnknownExpression(requirement)


@dataclass(frozen=True, slots=True)
class AdminNeeded:
    """The entities on which the deletion of a namespace needs ADMIN.

    on_namespace: on the namespace itself. kinds_inside: on the live entities of these kinds inside it; None means every kind.
    """

    on_namespace: bool
    kinds_inside: frozenset[str] | None

    def __or__(self, other: "AdminNeeded") -> "AdminNeeded":
        kinds = None
        if self.kinds_inside is not None and other.kinds_inside is not None:
            kinds = self.kinds_inside | other.kinds_inside
        return AdminNeeded(self.on_namespace or other.on_namespace, kinds)


def admin_needed(expression: Expression | None) -> AdminNeeded:
    """Return where the expression needs ADMIN. Raise UnknownExpression for every node that is not a requirement of ADMIN."""
    match expression:
        case Has((Privilege.ADMIN,), Scope.SELF):
            return AdminNeeded(True, frozenset())
        case HasOnAllLive(Privilege.ADMIN, None):
            return AdminNeeded(False, None)
        case HasOnAllLive(Privilege.ADMIN, str() as kind):
            return AdminNeeded(False, frozenset({kind}))
        case AllOf(parts):
            needed = AdminNeeded(False, frozenset())
            for part in parts:
                needed |= admin_needed(part)
            return needed
    raise UnknownExpression(expression)


def admin_needed_to_delete_namespace(generation: str) -> AdminNeeded:
    return admin_needed(_policy_requirement(generation_by_name(generation), "namespace", "delete"))


def number_kinds(rule_set: RuleSet, *, merge_kinds: bool = False) -> dict[str, int]:
    """Return the number of each kind in the rule set.

    Containers get the lowest numbers, so that the facts about containers cover a short stretch of a unit; kinds with the same
    rules get neighbouring numbers. merge_kinds: kinds with the same rules share a number and are counted together.
    """
    rules_of = {kind: tuple((rule.operation, rule.before, rule.after) for rule in rule_set.rules if rule.kind == kind)
                for kind in rule_set.kinds}
    numbers: dict[object, int] = {}
    return {kind: numbers.setdefault(rules_of[kind] if merge_kinds else kind, len(numbers))
            for kind in sorted(rule_set.kinds, key=lambda kind: (kind not in CONTAINER_KINDS, repr(rules_of[kind])))}


def compile_rules(rule_set: RuleSet, kind_numbers: dict[str, int]) -> CompiledRules:
    """Return the rule set in the form for Python workers: kinds, privileges and facts are numbers."""
    rules, compiled = [], set()
    for rule in rule_set.rules:
        key = kind_numbers[rule.kind], rule.operation, rule.before, rule.after
        # A rule of a kind that shares its number with an earlier one is evaluated there already; it keeps its place.
        rules.append(CompiledRule(NONE if key in compiled else key[0], rule.before, rule.after))
        compiled.add(key)
    return CompiledRules(tuple(rules), tuple(_compiled_fact(rule_set, number, kind_numbers)
                                             for number in range(len(rule_set.facts))))


def _compiled_fact(rule_set: RuleSet, number: int, kind_numbers: dict[str, int]) -> CompiledFact:
    kinds = frozenset(kind_numbers[rule.kind] for rule in rule_set.rules
                      if number in fact_numbers(rule.before) | fact_numbers(rule.after))
    match rule_set.facts[number]:
        case Has(privileges, Scope.SELF | Scope.APPLICATION | Scope.NAMESPACE | Scope.INSTANCE as scope):
            return CompiledFact(scope.value, _privilege_mask(privileges), kinds)
        case HasAtOrBelow():
            return CompiledFact("below", _privilege_mask(Privilege), kinds)
        case HeldAnywhere(privileges):
            # For the namespace itself this is what is held on it or below it.
            form = "below" if kinds == {kind_numbers.get("namespace")} else "anywhere"
            return CompiledFact(form, _privilege_mask(privileges), kinds)
        case HasOnAllLive():
            return CompiledFact("precomputed", 0, kinds)
    raise UnknownExpression(rule_set.facts[number])


def _privilege_mask(privileges: Iterable[Privilege]) -> int:
    return sum(1 << PRIVILEGES.index(privilege.value) for privilege in privileges)


def kinds_known_from_grants(rule_set: RuleSet, rules: CompiledRules) -> tuple[str, ...]:
    """Return the kinds whose rules only a grant on the entity itself meets. The grants then list all entities with an answer."""
    return tuple(kind for kind in rule_set.kinds if all(
        rule.before == UNMET and _needs_own_grant(rule.after, rules.facts) for rule in rule_set.rules if rule.kind == kind))


def _needs_own_grant(requirement: Requirement, facts: tuple[CompiledFact, ...]) -> bool:
    match requirement:
        case "held", numbers:
            return all(facts[number].form == "self" for number in numbers)
        case "all", parts:
            return any(_needs_own_grant(part, facts) for part in parts)
        case "any", parts:
            return all(_needs_own_grant(part, facts) for part in parts)
    raise UnknownExpression(requirement)
