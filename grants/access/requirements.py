"""Group the operations of a kind by their requirement, and combine requirements."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field

from entities.errors import Refusal
from entities.frozen import frozen
from entities.vocabulary import ANY, CONTAINER_KINDS, KINDS, Privilege, clip
from grants.policies.grammar import (
    Algebra,
    AllOf,
    Always,
    AnyOf,
    Expression,
    Has,
    HasAtOrBelow,
    HasOnAllLive,
    Parameter,
    Scope,
    fold,
)
from grants.policies.levels import Level, operations_by_level
from grants.policies.policy import Generation

OperationsByRequirement = dict[Expression, list[str]]


class UnknownOperation(Refusal, ValueError):
    """The kind has no such operation. The message lists its operations."""


def operations_by_requirement(
    generation: Generation, kind: str, operations: Iterable[str] | None = None
) -> OperationsByRequirement:
    """Return the operations of a kind that have a rule, by requirement, in the order of the vocabulary.

    operations: limits the result to these operations or bare privileges; by default, all operations of the
    kind.
    """
    grouped: OperationsByRequirement = {}
    for operation in KINDS[kind].operations if operations is None else operations:
        policy = generation.policy(kind, operation)
        if policy is not None and policy.requirement is not None:
            grouped.setdefault(policy.requirement, []).append(operation)
    return grouped


def selected_operations(generation: Generation, kind: str, operation: str, level: str) -> list[str] | None:
    """Return the operations of a kind that a filter selects; None without a filter."""
    if operation:
        return [operation]
    return operations_by_level(generation, kind).get(Level(level), []) if level else None


def check_operation(kind: str, operation: str) -> str:
    """Return the operation. Raise UnknownOperation if it is no operation of the kind and no privilege."""
    if operation in KINDS[kind].operations or operation in Privilege.__members__:
        return operation
    operations = ", ".join(KINDS[kind].operations) or "none"
    raise UnknownOperation(
        f"`{clip(operation)}` is not an operation of {KINDS[kind].plural}; their operations are {operations}"
    )


def any_of_requirements(requirements: Iterable[Expression], kind: str) -> Expression:
    """Return one requirement that is met if any of these is met, with as few parts as possible.

    The database then reads the grants on an address once, and not once for each operation. Only for questions
    without parameters.
    """
    return fold(AnyOf(tuple(requirements)), Simplified(kind)).expression


def all_of_requirements(requirements: Iterable[Expression], kind: str) -> Expression:
    """Return one requirement that is met if all of these are met. Only for questions without parameters."""
    parts = dict.fromkeys(any_of_requirements([requirement], kind) for requirement in requirements)
    needed = tuple(part for part in parts if part != Always()) or (Always(),)
    return needed[0] if len(needed) == 1 else AllOf(needed)


@frozen
class Alternatives:
    """A requirement as alternatives, of which any one is enough.

    held: privileges, by scope. is_at_or_below: any grant on the target or inside it. all_live: see HasOnAllLive.
    all_of: requirements of which all parts must be met. is_always: nothing is needed.
    """

    held: Mapping[Scope, frozenset[Privilege]] = field(default_factory=dict)
    is_at_or_below: bool = False
    all_live: tuple[HasOnAllLive, ...] = ()
    all_of: tuple[tuple["Alternatives", ...], ...] = ()
    is_always: bool = False

    @property
    def expression(self) -> Expression:
        """The requirement with as few parts as possible."""
        if self.is_always:
            return Always()
        parts: list[Expression] = [
            Has(tuple(privilege for privilege in Privilege if privilege in names), scope)
            for scope, names in self.held.items()
            # a grant on the container itself is also at or below it
            if not (self.is_at_or_below and scope == Scope.SELF)
        ]
        parts += [HasAtOrBelow()] if self.is_at_or_below else []
        parts += dict.fromkeys(self.all_live)
        parts += dict.fromkeys(
            AllOf(tuple(part.expression for part in needed))
            for needed in self.all_of
            if not any(self._includes(part) for part in needed)
        )
        return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))

    def _includes(self, other: "Alternatives") -> bool:
        """Return whether one of these privileges is held if one of the other alternatives is met."""
        return not (other.is_at_or_below or other.all_live or other.all_of or other.is_always) and all(
            names <= self.held.get(scope, frozenset()) or self.is_at_or_below and scope == Scope.SELF
            for scope, names in other.held.items()
        )


@frozen
class Simplified(Algebra[Alternatives]):
    """The alternatives of a requirement for an entity of `kind`, in a question without parameters."""

    kind: str

    def has(self, privileges: tuple[Privilege, ...], scope: Scope) -> Alternatives:
        return Alternatives({scope: frozenset(privileges)})

    def has_at_or_below(self) -> Alternatives:
        if self.kind in CONTAINER_KINDS:
            return Alternatives(is_at_or_below=True)
        return self.has(ANY, Scope.SELF)

    def has_on_all_live(self, privilege: Privilege, kind: str | None) -> Alternatives:
        return Alternatives(all_live=(HasOnAllLive(privilege, kind),))

    def always(self) -> Alternatives:
        return Alternatives(is_always=True)

    def all_of(self, parts: Iterable[Alternatives]) -> Alternatives:
        needed = tuple(part for part in parts if not part.is_always)
        return needed[0] if len(needed) == 1 else Alternatives(all_of=(needed,)) if needed else self.always()

    def any_of(self, parts: Iterable[Alternatives]) -> Alternatives:
        found = list(parts)
        held: dict[Scope, frozenset[Privilege]] = {}
        for part in found:
            for scope, privileges in part.held.items():
                held[scope] = held.get(scope, frozenset()) | privileges
        return Alternatives(
            held,
            any(part.is_at_or_below for part in found),
            tuple(leaf for part in found for leaf in part.all_live),
            tuple(needed for part in found for needed in part.all_of),
            any(part.is_always for part in found),
        )

    def given(self, parameter: Parameter, then: Callable[[], Alternatives]) -> Alternatives:
        return self.always()
