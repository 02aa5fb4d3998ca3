"""The closed grammar of requirements.

The requirement of a policy is a small tree of seven node types. The nodes contain only data. Walkers turn the
tree into a decision, an explanation, SQL conditions, Spark rules or words. A walker raises
`UnknownExpression` for node types that it does not handle. `tests/grants/policies/test_grammar_walkers.py`
lists every walker, and fails for a function that matches on nodes and is not listed. To add a node type, add
it here, run that test, and extend each walker.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from entities.vocabulary import Privilege


class Scope(StrEnum):
    """The address that a requirement checks, relative to the target of the question."""

    SELF = "self"
    PARENT = "parent"
    APPLICATION = "application"
    NAMESPACE = "namespace"
    INSTANCE = "instance"
    ARTIFACT = "artifact"
    DATASET_TYPE = "dataset_type"
    OWNER = "owner"


class Parameter(StrEnum):
    """An object that a question can name in addition to its target."""

    NEW_ARTIFACT = "new artifact"
    EXISTING_ARTIFACT = "existing artifact"
    DATASET_TYPE = "dataset type"
    OWNER = "owner"


@dataclass(frozen=True, slots=True)
class Has:
    """Met if at least one of `privileges` is held on exactly the entity at `scope`."""

    privileges: tuple[Privilege, ...]
    scope: Scope = Scope.SELF


@dataclass(frozen=True, slots=True)
class HasAtOrBelow:
    """Met if any privilege is held on the target or on any address inside it, in any state."""


@dataclass(frozen=True, slots=True)
class HasOnAllLive:
    """Met if `privilege` is held on every live entity inside the target. Also met if there is no such entity.

    kind: only entities of this kind count; None for every kind.
    """

    privilege: Privilege
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class Always:
    """Met for every active principal."""


@dataclass(frozen=True, slots=True)
class AllOf:
    """Met if every part is met."""

    parts: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Met if at least one part is met."""

    parts: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Given:
    """Met if `then` is met, or if the question does not have `parameter`."""

    parameter: Parameter
    then: "Expression"


Expression = Has | HasAtOrBelow | HasOnAllLive | Always | AllOf | AnyOf | Given


class UnknownExpression(TypeError):
    """A walker reached a node that it does not handle."""

    def __init__(self, node: object):
        super().__init__(f"{type(node).__name__} is not a node of the requirement grammar")


def on(scope: Scope, *privileges: Privilege) -> Has:
    """Require at least one of the privileges on the entity at `scope`."""
    return Has(privileges, scope)


def has(*privileges: Privilege) -> Has:
    """Require at least one of the privileges on the target itself."""
    return Has(privileges)


def all_of(*parts: Expression) -> AllOf:
    return AllOf(parts)


def any_of(*parts: Expression) -> AnyOf:
    return AnyOf(parts)


def leaves(expression: Expression) -> Iterator[Has | HasAtOrBelow | HasOnAllLive | Always]:
    """Yield every node without parts, depth first."""
    match expression:
        case AllOf(parts) | AnyOf(parts):
            for part in parts:
                yield from leaves(part)
        case Given(_, then):
            yield from leaves(then)
        case Has() | HasAtOrBelow() | HasOnAllLive() | Always():
            yield expression
        case _:
            raise UnknownExpression(expression)


def parameters(expression: Expression) -> Iterator[Parameter]:
    """Yield every parameter on which the expression depends, depth first."""
    match expression:
        case AllOf(parts) | AnyOf(parts):
            for part in parts:
                yield from parameters(part)
        case Given(parameter, then):
            yield parameter
            yield from parameters(then)
        case Has() | HasAtOrBelow() | HasOnAllLive() | Always():
            return
        case _:
            raise UnknownExpression(expression)
