"""Find out from the rules of a generation on which addresses a decision depends.

Everything follows from the leaves of the requirements, so no generation or kind is named here.
"""

from collections.abc import Iterable
from typing import NamedTuple

from entities.frozen import frozen
from entities.vocabulary import CONTAINER_KINDS, KINDS
from grants.policies.grammar import AnyOf, Expression, FactsRead, HasOnAllLive, Scope
from grants.policies.policy import Generation

_SCOPE_KINDS = {Scope.APPLICATION: "application", Scope.NAMESPACE: "namespace", Scope.INSTANCE: "instance"}


@frozen
class KindRules:
    """The rules of one kind.

    rules: each requirement once, with its operations. is_below: whether grants inside the entity count.
    container_kinds: grants on containers of these kinds count for an entity of the kind.
    all_live: the requirements over all live entities inside it. is_open: whether some requirement can be met
    without grants.
    """

    kind: str
    rules: tuple[tuple[Expression, tuple[str, ...]], ...]
    container_kinds: frozenset[str]
    is_below: bool
    all_live: frozenset[HasOnAllLive]
    is_open: bool

    @property
    def depends_on_inside(self) -> bool:
        """Whether a change inside an entity of the kind can change a decision about it."""
        return self.kind in CONTAINER_KINDS and (self.is_below or bool(self.all_live))


def rules_by_kind(generation: Generation, others: Iterable[Generation] = ()) -> dict[str, KindRules]:
    """Return the rules of all kinds. others: leave out the operations without a rule in one of these
    generations.
    """
    others = tuple(others)
    return {kind: _kind_rules(kind, generation, others) for kind in KINDS}


class RulePair(NamedTuple):
    """The requirements of some operations before and after another generation becomes active."""

    before: Expression
    after: Expression
    operations: tuple[str, ...]


def rule_pairs(before: KindRules, after: KindRules) -> list[RulePair]:
    """Return the requirements of the operations with a rule in both; each pair once."""
    operations: dict[tuple[Expression, Expression], list[str]] = {}
    requirements = {name: requirement for requirement, names in after.rules for name in names}
    for requirement, names in before.rules:
        for name in names:
            if name in requirements:
                operations.setdefault((requirement, requirements[name]), []).append(name)
    return [RulePair(*pair, tuple(names)) for pair, names in operations.items()]


def rule_pairs_by_kind(before: Generation, after: Generation) -> dict[str, list[RulePair]]:
    """Return the requirements of the operations with a rule in both generations, by kind."""
    rules_before, rules_after = rules_by_kind(before), rules_by_kind(after)
    return {kind: rule_pairs(rules_before[kind], rules_after[kind]) for kind in KINDS}


def dependent_kinds(container_kind: str, rules: Iterable[KindRules]) -> set[str]:
    """Return the kinds for which a grant on a container of `container_kind` counts."""
    return {of_kind.kind for of_kind in rules if container_kind in of_kind.container_kinds}


def _kind_rules(kind: str, generation: Generation, others: tuple[Generation, ...]) -> KindRules:
    operations: dict[Expression, list[str]] = {}
    for operation in KINDS[kind].operations:
        requirement = _requirement(kind, operation, generation)
        if requirement is not None and all(
            _requirement(kind, operation, other) is not None for other in others
        ):
            operations.setdefault(requirement, []).append(operation)
    read = FactsRead(AnyOf(tuple(operations)))
    scopes = {_scope_kind(kind, leaf.scope) for leaf in read.held}
    return KindRules(
        kind,
        tuple((requirement, tuple(names)) for requirement, names in operations.items()),
        frozenset(scope for scope in scopes if scope and scope != kind),
        read.is_at_or_below,
        frozenset(read.all_live),
        read.is_always or bool(read.all_live),
    )


def _requirement(kind: str, operation: str, generation: Generation) -> Expression | None:
    policy = generation.policy(kind, operation)
    return policy.requirement if policy else None


def _scope_kind(kind: str, scope: Scope) -> str | None:
    """Return the kind of the address at `scope`; None for the addresses that only parameters name."""
    return (
        KINDS[kind].parent
        if scope == Scope.PARENT
        else _SCOPE_KINDS.get(scope, kind if scope == Scope.SELF else None)
    )
