"""The catalogue's expressions as Spark needs them, in two forms.

`admin_needed` counts: on which entities a namespace's deletion needs ADMIN. `Plan` decides: each rule becomes a requirement over
numbered facts, plain tuples that Python workers understand without this package (analytics.spark.verdicts), and the facts are
what analytics.spark.facts looks for in the grants.

INVARIANT: nothing here names a generation. The shape of the expression decides, and a shape that is not foreseen is refused.
Nothing is asked along with an operation: no artifact, no dataset type, no owner.
"""

from collections.abc import Iterable
from dataclasses import dataclass

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

# `held` lists the numbers of facts of which one is enough; `all` and `any` list requirements
Requirement = tuple[str, tuple]
# what stands for an operation where it is asked who holds ADMIN anywhere
CANDIDATE = "candidate"
MET: Requirement = ("all", ())
UNMET: Requirement = ("any", ())


@dataclass(frozen=True, slots=True)
class HeldAnywhere:
    """Some of these privileges on any address of the target's namespace, in whatever state. No leaf of the catalogue."""

    privileges: tuple[Privilege, ...]


Fact = Has | HasAtOrBelow | HasOnAllLive | HeldAnywhere


@dataclass(frozen=True, slots=True)
class Rule:
    """What an operation on a kind asks for, before and after."""

    kind: str
    operation: str
    before: Requirement
    after: Requirement


@dataclass(frozen=True, slots=True)
class Plan:
    """rules: numbered by their place. facts: likewise; each is one leaf of the catalogue's expressions, or HeldAnywhere.

    A fact of Has looks at the target itself, its application, its namespace or the instance, and at nothing else.
    HasAtOrBelow and HasOnAllLive are facts about containers only.
    """

    rules: tuple[Rule, ...]
    facts: tuple[Fact, ...]

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(rule.kind for rule in self.rules))


def visibility_plan(generation: str) -> Plan:
    """From nothing to what `list` shows."""
    return verdict_plan(generation, lambda operation: operation == "list")


def verdict_plan(generation: str, is_asked=lambda operation: True) -> Plan:
    """From nothing to what the generation permits: whatever is permitted, is gained."""
    after = generation_by_name(generation)
    asked = [(kind, operation) for kind, operation in _operations() if is_asked(operation)]
    return _plan((kind, operation, None, after.policy(kind, operation).requires) for kind, operation in asked)


def impact_plan(generation: str, to_generation: str) -> Plan:
    """From one generation to another, over the operations that have a rule in both."""
    before, after = generation_by_name(generation), generation_by_name(to_generation)
    rules = ((kind, operation, before.policy(kind, operation).requires, after.policy(kind, operation).requires)
             for kind, operation in _operations())
    return _plan(rule for rule in rules if rule[2] is not None and rule[3] is not None)


def lacking_plan(privilege_by_kind: Iterable[tuple[str, Privilege]]) -> Plan:
    """For each kind and privilege a rule that everybody loses who does not hold that privilege on the entity itself."""
    return _plan((kind, privilege.value, Always(), Has((privilege,))) for kind, privilege in privilege_by_kind)


def admin_plan(kinds: Iterable[str]) -> Plan:
    """On an entity of these kinds ADMIN is gained by whom holds it there; CANDIDATE on a namespace by whom holds it in it."""
    held = tuple((kind, Privilege.ADMIN.value, None, Has((Privilege.ADMIN,))) for kind in kinds)
    return _plan((*held, ("namespace", CANDIDATE, None, HeldAnywhere((Privilege.ADMIN,)))))


def admin_missing_plan(kinds: Iterable[str]) -> Plan:
    """ADMIN is lost on an entity of these kinds by whom holds it in the namespace, and not there."""
    anywhere, here = HeldAnywhere((Privilege.ADMIN,)), Has((Privilege.ADMIN,))
    return _plan((kind, Privilege.ADMIN.value, anywhere, AllOf((anywhere, here))) for kind in kinds)


def _operations() -> Iterable[tuple[str, str]]:
    return ((kind.name, operation) for kind in KINDS.values() for operation in kind.operations)


def _plan(rules: Iterable[tuple[str, str, Expression | None, Expression | None]]) -> Plan:
    numbers: dict[Fact, int] = {}
    found = [Rule(kind, operation, _requirement(before, kind, numbers), _requirement(after, kind, numbers))
             for kind, operation, before, after in rules]
    return Plan(tuple(rule for rule in found if rule.before != rule.after), tuple(numbers))


def _requirement(expression: Expression | None, kind: str, numbers: dict[Fact, int]) -> Requirement:
    """What the expression asks of an entity of that kind; facts that are new get the next number."""
    match expression:
        case None:
            return UNMET
        case Has(privileges, scope):
            place = _place(scope, kind)
            return UNMET if place is None else _held(Has(privileges, place), numbers)
        case HasAtOrBelow():
            return _held(expression if kind in CONTAINER_KINDS else Has(ANY), numbers)
        case HeldAnywhere():
            return _held(expression, numbers)
        case HasOnAllLive():
            return _held(expression, numbers) if kind in CONTAINER_KINDS else MET
        case Always() | Given():
            return MET
        case AllOf(parts):
            return "all", tuple(_requirement(part, kind, numbers) for part in parts)
        case AnyOf(parts):
            return "any", tuple(_requirement(part, kind, numbers) for part in parts)
    raise UnknownExpression(expression)


def _held(fact: Fact, numbers: dict[Fact, int]) -> Requirement:
    return "held", (numbers.setdefault(fact, len(numbers)),)


def _place(scope: Scope, kind: str) -> Scope | None:
    """The scope by the name of the container that it is for that kind; None where there is nothing at that scope."""
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


def everybody_may_be_met(plan: Plan) -> bool:
    """Whether somebody without any grant may be answered differently before and after."""
    # where nothing lives inside, everybody holds a privilege on all of it
    held = {number: isinstance(fact, HasOnAllLive) for number, fact in enumerate(plan.facts)}
    return any(_may_be_met(requirement, held) for rule in plan.rules for requirement in (rule.before, rule.after))


def _may_be_met(requirement: Requirement, held: dict[int, bool]) -> bool:
    word, parts = requirement
    if word == "held":
        return any(held[number] for number in parts)
    return (all if word == "all" else any)(_may_be_met(part, held) for part in parts)


@dataclass(frozen=True, slots=True)
class AdminNeeded:
    """on_namespace: on the namespace itself. kinds_inside: on the live entities of these kinds inside it; None is every kind."""

    on_namespace: bool
    kinds_inside: frozenset[str] | None

    def __or__(self, other: "AdminNeeded") -> "AdminNeeded":
        kinds = None
        if self.kinds_inside is not None and other.kinds_inside is not None:
            kinds = self.kinds_inside | other.kinds_inside
        return AdminNeeded(self.on_namespace or other.on_namespace, kinds)


NOTHING = AdminNeeded(False, frozenset())


def admin_needed(expression: Expression | None) -> AdminNeeded:
    """Raises UnknownExpression for every node that is not a count of ADMIN."""
    match expression:
        case Has((Privilege.ADMIN,), Scope.SELF):
            return AdminNeeded(True, frozenset())
        case HasOnAllLive(Privilege.ADMIN, None):
            return AdminNeeded(False, None)
        case HasOnAllLive(Privilege.ADMIN, kind):
            return AdminNeeded(False, frozenset({kind}))
        case AllOf(parts):
            needed = NOTHING
            for part in parts:
                needed |= admin_needed(part)
            return needed
    raise UnknownExpression(expression)


def admin_needed_to_delete_namespace(generation: str) -> AdminNeeded:
    return admin_needed(generation_by_name(generation).policy("namespace", "delete").requires)
