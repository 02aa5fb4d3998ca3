"""The closed grammar of requirements.

A policy's requirement is a small tree of seven node kinds over facts about grants. Every node is data. The walkers (`decide`,
`explain`, `wording`, `grants.evaluation`, `analytics.spark`) turn it into a decision, an explanation, SQL filters and Spark
rules. A walker handles every node kind or raises `UnknownExpression`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from entities.vocabulary import Privilege


class Scope(StrEnum):
    """Which address a requirement looks at, seen from the target of the question."""

    SELF = "self"
    PARENT = "parent"
    APPLICATION = "application"
    NAMESPACE = "namespace"
    INSTANCE = "instance"
    ARTIFACT = "artifact"
    DATASET_TYPE = "dataset_type"
    OWNER = "owner"


class Parameter(StrEnum):
    """What a question may bring along besides its target."""

    NEW_ARTIFACT = "new artifact"
    EXISTING_ARTIFACT = "existing artifact"
    DATASET_TYPE = "dataset type"
    OWNER = "owner"


@dataclass(frozen=True, slots=True)
class Has:
    """Holds any one of `privileges` on exactly the entity at `scope`."""

    privileges: tuple[Privilege, ...]
    scope: Scope = Scope.SELF


@dataclass(frozen=True, slots=True)
class HasAtOrBelow:
    """Holds any privilege on the target or on any address inside it, whatever its state."""


@dataclass(frozen=True, slots=True)
class HasOnAllLive:
    """Holds `privilege` on every live entity inside the target, of every kind or of one. Met where there is none."""

    privilege: Privilege
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class Always:
    """Asks for nothing but an active principal."""


@dataclass(frozen=True, slots=True)
class AllOf:
    parts: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    parts: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Given:
    """Asks for `then` only when the question brings `parameter` along; met otherwise."""

    parameter: Parameter
    then: "Expression"


Expression = Has | HasAtOrBelow | HasOnAllLive | Always | AllOf | AnyOf | Given


class UnknownExpression(TypeError):
    """A walker met a node that the grammar does not hold."""

    def __init__(self, node: object):
        super().__init__(f"{type(node).__name__} is not a node of the requirement grammar")


def on(scope: Scope, *privileges: Privilege) -> Has:
    """Any one of the privileges on the entity at `scope`."""
    return Has(privileges, scope)


def has(*privileges: Privilege) -> Has:
    """Any one of the privileges on the target itself."""
    return Has(privileges)


def all_of(*parts: Expression) -> AllOf:
    return AllOf(parts)


def any_of(*parts: Expression) -> AnyOf:
    return AnyOf(parts)


def leaves(expression: Expression) -> Iterator[Expression]:
    """Every node that looks at grants, depth first."""
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
    """Every parameter that the expression looks at, depth first."""
    match expression:
        case AllOf(parts) | AnyOf(parts):
            for part in parts:
                yield from parameters(part)
        case Given(parameter, then):
            yield parameter
            yield from parameters(then)
