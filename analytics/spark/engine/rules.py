"""Rule sets: the requirements of the catalogue, compiled for the engine.

A `Rule` states what one operation on one kind requires before and after. Each requirement is a tree over
numbered facts; a fact is a statement about grants that the engine can test. An analysis of a single
generation compares it with `None`, which permits
nothing: everything that the generation permits is then gained.

INVARIANT: rules are compiled from the nodes of an expression only, never from the name of a generation.
Questions have no parameters here: no artifact, no dataset type, no owner.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from operator import or_
from typing import NoReturn

from analytics.spark.engine.compiled import (
    MET,
    UNMET,
    CompiledFact,
    CompiledRule,
    CompiledRules,
    Requirement,
    fact_numbers,
)
from analytics.spark.engine.rows import NONE
from entities.address import ancestor_kinds
from entities.frozen import frozen
from entities.vocabulary import ANY, CONTAINER_KINDS, KINDS, Privilege
from grants.policies.catalogue import generation_by_name
from grants.policies.grammar import Algebra, Expression, Has, Parameter, Scope, fold
from grants.policies.policy import Generation

# The operation of a rule that finds every holder of ADMIN on a namespace or inside it. It is not an operation
# of a kind.
CANDIDATE = "candidate"
# The operations of `reach_rules`.
REACHED, CHANGEABLE = "reached", "changeable"
# the names of the privileges in the table of grants, by number
PRIVILEGES = tuple(privilege.value for privilege in Privilege)


@frozen
class Fact:
    """A fact by its form (CompiledFact) and the names of its privileges.

    inside: if the form is `precomputed`, the subject must hold one of the privileges on all live entities of
    this kind inside the target; None stands for all kinds.
    """

    form: str
    privileges: tuple[str, ...]
    inside: str | None = None


# met if the subject holds ADMIN on any address in the namespace of the target, in any state
ADMIN_ANYWHERE = Fact("anywhere", (Privilege.ADMIN.value,))

# What a rule requires. All facts of a tuple must be held; None permits nothing.
RequirementSource = Expression | tuple[Fact, ...] | None
# (kind, operation, before, after)
RuleSource = tuple[str, str, RequirementSource, RequirementSource]


@frozen
class Rule:
    """The requirements of an operation on a kind, before and after."""

    kind: str
    operation: str
    before: Requirement
    after: Requirement


@frozen
class RuleSet:
    """Rules and facts, each numbered by its position. Facts of the forms `below` and `precomputed` are about
    containers only.
    """

    rules: tuple[Rule, ...]
    facts: tuple[Fact, ...]

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(rule.kind for rule in self.rules))


def visibility_rules(generation: str) -> RuleSet:
    """Return the rules of `list`. They compare a state in which nothing is permitted with the generation."""
    return generation_rules(generation, lambda operation: operation == "list")


def generation_rules(generation: str, is_included: Callable[[str], bool] = lambda operation: True) -> RuleSet:
    """Return the rules of all included operations. They compare a state in which nothing is permitted with
    the generation.

    is_included: called with the name of each operation.
    """
    after = generation_by_name(generation)
    included = [(kind, operation) for kind, operation in _operations() if is_included(operation)]
    return _rule_set(
        (kind, operation, None, _policy_requirement(after, kind, operation)) for kind, operation in included
    )


def impact_rules(generation: str, to_generation: str) -> RuleSet:
    """Return rules that compare two generations, for the operations that have a rule in both."""
    before, after = generation_by_name(generation), generation_by_name(to_generation)
    rules = (
        (
            kind,
            operation,
            _policy_requirement(before, kind, operation),
            _policy_requirement(after, kind, operation),
        )
        for kind, operation in _operations()
    )
    return _rule_set(rule for rule in rules if rule[2] is not None and rule[3] is not None)


def held_rules(facts: Iterable[tuple[str, str, Fact]]) -> RuleSet:
    """Return a rule for each (kind, operation, fact). A user gains it on each entity on which the user holds
    the fact.
    """
    return _rule_set((kind, operation, None, (fact,)) for kind, operation, fact in facts)


def privilege_rules() -> RuleSet:
    """Return a rule for each kind and privilege, with the name of the privilege as its operation. A user gains it on
    each entity on which the user holds the privilege.
    """
    return _privilege_rules({privilege.value: (privilege,) for privilege in Privilege})


def reach_rules() -> RuleSet:
    """Return the rules REACHED and CHANGEABLE for every kind. A user gains them on each entity on which the user holds
    any privilege, and one that is not READ.
    """
    beyond_reading = tuple(privilege for privilege in ANY if privilege != Privilege.READ)
    return _privilege_rules({REACHED: ANY, CHANGEABLE: beyond_reading})


def _privilege_rules(privileges_by_operation: Mapping[str, tuple[Privilege, ...]]) -> RuleSet:
    return _rule_set(
        (kind, operation, None, Has(privileges))
        for kind in KINDS
        for operation, privileges in privileges_by_operation.items()
    )


def admin_rules(kinds: Iterable[str]) -> RuleSet:
    """Return rules for entities of these kinds, and the rule CANDIDATE for namespaces.

    A user gains the rule of its kind on each entity on which the user holds ADMIN, and CANDIDATE on each
    namespace in which the user holds ADMIN anywhere.
    """
    sources: list[RuleSource] = [
        (kind, Privilege.ADMIN.value, None, Has((Privilege.ADMIN,))) for kind in kinds
    ]
    return _rule_set((*sources, ("namespace", CANDIDATE, None, (ADMIN_ANYWHERE,))))


def missing_admin_rules(kinds: Iterable[str]) -> RuleSet:
    """Return rules for entities of these kinds.

    A user who holds ADMIN anywhere in the namespace loses the rule on each entity on which the user does not
    hold ADMIN.
    """
    on_entity = Fact(Scope.SELF.value, ADMIN_ANYWHERE.privileges)
    return _rule_set(
        (kind, Privilege.ADMIN.value, (ADMIN_ANYWHERE,), (ADMIN_ANYWHERE, on_entity)) for kind in kinds
    )


def _policy_requirement(generation: Generation, kind: str, operation: str) -> Expression | None:
    policy = generation.policy(kind, operation)
    return None if policy is None else policy.requirement


def _operations() -> Iterable[tuple[str, str]]:
    return ((kind.name, operation) for kind in KINDS.values() for operation in kind.operations)


def _rule_set(sources: Iterable[RuleSource]) -> RuleSet:
    """Return a rule set. Rules with the same requirement before and after are skipped."""
    numbers: dict[Fact, int] = {}
    rules = [
        Rule(kind, operation, _requirement(before, kind, numbers), _requirement(after, kind, numbers))
        for kind, operation, before, after in sources
    ]
    return RuleSet(tuple(rule for rule in rules if rule.before != rule.after), tuple(numbers))


def _requirement(source: RequirementSource, kind: str, numbers: dict[Fact, int]) -> Requirement:
    """Return the requirement for an entity of this kind. Add new facts to `numbers`, with the next number."""
    if source is None:
        return UNMET
    if isinstance(source, tuple):
        held = tuple(_fact(fact, numbers) for fact in source)
        return held[0] if len(held) == 1 else ("all", held)
    return fold(source, CompiledRequirements(kind, numbers))


def _fact(fact: Fact, numbers: dict[Fact, int]) -> Requirement:
    return "held", (numbers.setdefault(fact, len(numbers)),)


@frozen
class CompiledRequirements(Algebra[Requirement]):
    """An expression as a requirement for an entity of `kind`.

    numbers: of all facts; new facts are added.
    """

    kind: str
    numbers: dict[Fact, int]

    def has(self, privileges: tuple[Privilege, ...], scope: Scope) -> Requirement:
        scope_of_kind = _scope(scope, self.kind)
        return UNMET if scope_of_kind is None else self._fact(scope_of_kind.value, privileges)

    def has_at_or_below(self) -> Requirement:
        return self._fact("below" if self.kind in CONTAINER_KINDS else Scope.SELF.value, ANY)

    def has_on_all_live(self, privilege: Privilege, kind: str | None) -> Requirement:
        return self._fact("precomputed", (privilege,), kind) if self.kind in CONTAINER_KINDS else MET

    def always(self) -> Requirement:
        return MET

    def all_of(self, parts: Iterable[Requirement]) -> Requirement:
        return "all", tuple(parts)

    def any_of(self, parts: Iterable[Requirement]) -> Requirement:
        return "any", tuple(parts)

    def given(self, parameter: Parameter, then: Callable[[], Requirement]) -> Requirement:
        return MET

    def _fact(self, form: str, privileges: Iterable[Privilege], inside: str | None = None) -> Requirement:
        names = tuple(privilege.value for privilege in privileges)
        return _fact(Fact(form, names, inside), self.numbers)


def _scope(scope: Scope, kind: str) -> Scope | None:
    """Return the scope for an entity of this kind: SELF or a container; None if the kind has no such
    container.
    """
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


@frozen
class AdminRequirement:
    """The entities on which ADMIN is required for the deletion of a namespace.

    on_namespace: whether ADMIN on the namespace itself is required. kinds_inside: the kinds of live entities
    inside it on which ADMIN is required; None means every kind.
    """

    on_namespace: bool
    kinds_inside: frozenset[str] | None

    def __or__(self, other: "AdminRequirement") -> "AdminRequirement":
        kinds = None
        if self.kinds_inside is not None and other.kinds_inside is not None:
            kinds = self.kinds_inside | other.kinds_inside
        return AdminRequirement(self.on_namespace or other.on_namespace, kinds)


class AdminRequirements(Algebra[AdminRequirement]):
    """The entities on which a requirement requires ADMIN. Raises ValueError if it requires anything else."""

    def has(self, privileges: tuple[Privilege, ...], scope: Scope) -> AdminRequirement:
        if (privileges, scope) != ((Privilege.ADMIN,), Scope.SELF):
            self._refuse()
        return AdminRequirement(True, frozenset())

    def has_at_or_below(self) -> NoReturn:
        self._refuse()

    def has_on_all_live(self, privilege: Privilege, kind: str | None) -> AdminRequirement:
        if privilege != Privilege.ADMIN:
            self._refuse()
        return AdminRequirement(False, None if kind is None else frozenset({kind}))

    def always(self) -> NoReturn:
        self._refuse()

    def all_of(self, parts: Iterable[AdminRequirement]) -> AdminRequirement:
        return reduce(or_, parts, AdminRequirement(False, frozenset()))

    def any_of(self, parts: Iterable[AdminRequirement]) -> NoReturn:
        self._refuse()

    def given(self, parameter: Parameter, then: Callable[[], AdminRequirement]) -> NoReturn:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ValueError("the requirement asks for something else than ADMIN on the namespace and inside it")


def admin_requirement(expression: Expression | None) -> AdminRequirement:
    """Return the entities on which the expression requires ADMIN. Raise ValueError for all other requirements."""
    if expression is None:
        raise ValueError("there is no rule")
    return fold(expression, AdminRequirements())


def namespace_deletion_requirement(generation: str) -> AdminRequirement:
    return admin_requirement(_policy_requirement(generation_by_name(generation), "namespace", "delete"))


def number_kinds(rule_set: RuleSet, *, merge_kinds: bool) -> dict[str, int]:
    """Return the number of each kind in the rule set.

    Containers get the lowest numbers, so that the facts about containers take few words of a unit. Kinds with
    the same rules get neighbouring numbers. merge_kinds: kinds with the same rules share a number and are
    counted together.
    """
    rules_by_kind = {
        kind: tuple((rule.operation, rule.before, rule.after) for rule in rule_set.rules if rule.kind == kind)
        for kind in rule_set.kinds
    }
    numbers: dict[object, int] = {}
    return {
        kind: numbers.setdefault(rules_by_kind[kind] if merge_kinds else kind, len(numbers))
        for kind in sorted(
            rule_set.kinds, key=lambda kind: (kind not in CONTAINER_KINDS, repr(rules_by_kind[kind]))
        )
    }


def compile_rules(rule_set: RuleSet, kind_numbers: dict[str, int]) -> CompiledRules:
    """Return the rule set in the form for Python workers: kinds, privileges and facts are numbers."""
    rules, known_rules = [], set()
    for rule in rule_set.rules:
        key = kind_numbers[rule.kind], rule.operation, rule.before, rule.after
        # If kinds share a number, only the first of their equal rules is evaluated. The others keep their
        # position in the list.
        rules.append(CompiledRule(NONE if key in known_rules else key[0], rule.before, rule.after))
        known_rules.add(key)
    return CompiledRules(
        tuple(rules),
        tuple(_compiled_fact(rule_set, number, kind_numbers) for number in range(len(rule_set.facts))),
    )


def _compiled_fact(rule_set: RuleSet, number: int, kind_numbers: dict[str, int]) -> CompiledFact:
    kinds = frozenset(
        kind_numbers[rule.kind]
        for rule in rule_set.rules
        if number in fact_numbers(rule.before) | fact_numbers(rule.after)
    )
    fact = rule_set.facts[number]
    # For a namespace, a privilege anywhere in the namespace is a privilege on it or below it.
    form = "below" if fact.form == "anywhere" and kinds == {kind_numbers.get("namespace")} else fact.form
    privileges = tuple(PRIVILEGES.index(name) for name in fact.privileges)
    return CompiledFact(form, (number,) if form == "precomputed" else privileges, kinds)
