"""The closed grammar of requirements, and its one interpreter.

The requirement of a policy is a small tree of nodes, which contain only data. `fold` evaluates
a tree in an algebra: a value for each leaf, and one method each for `AllOf`, `AnyOf` and `Given`. A decision, an
explanation and an SQL condition are the same expression, evaluated in different algebras. The theory is that of
provenance semirings: the answer of a query in another semiring tells which facts it depends on (Green,
Karvounarakis and Tannen, "Provenance semirings", PODS 2007).

| algebra | evaluates an expression to |
|---|---|
| `grants.policies.decide.IsMet` | a boolean: the decision |
| `grants.policies.explain.Attempts` | the tree of attempts of an explanation |
| `grants.policies.explain.MissingGrantSets` | the minimal sets of missing grants |
| `grants.policies.wording.Phrases` | words |
| `grants.policies.levels.RequiredLevel` | its access level |
| `authzconsole.rest.policies.RequirementJson` | JSON |
| `grants.policies.grammar.FactsRead` | the facts that it reads |
| `grants.evaluation.entity_filters.EntityConditions` | an SQL condition on entities |
| `grants.evaluation.entity_filters.Covers` | SQL conditions that lead from grants to entities |
| `grants.evaluation.visibility.IsReachedByGrants` | whether grants lead to all permitted entities |
| `grants.evaluation.principal_filters.PrincipalConditions` | an SQL condition on users or groups |
| `grants.access.paths.WaysToMeet` | the paths: the grants that meet it |
| `grants.access.requirements.Simplified` | an equal requirement with fewer parts |
| `grants.effects.evaluate._Source` | the mask of the users that meet it before or after a change |
| `grants.plans.regrants.stages.StageSource` | the same mask, with additional grants |
| `grants.evidence.timeline.MetPeriods` | the revisions in which it was met |
| `analytics.spark.engine.rules.CompiledRequirements` | a compiled rule for Spark |
| `analytics.spark.engine.rules.AdminRequirements` | the entities on which it requires ADMIN |

To add a node type, add it to `Expression`, to `Algebra` and to `fold`. mypy then reports each algebra that lacks
its method, because an incomplete algebra cannot be instantiated.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Generic, TypeVar, assert_never

from entities.frozen import frozen
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


@frozen
class Has:
    """Met if at least one of `privileges` is held on exactly the entity at `scope`."""

    privileges: tuple[Privilege, ...]
    scope: Scope = Scope.SELF


@frozen
class HasAtOrBelow:
    """Met if any privilege is held on the target or on any address inside it, in any state."""


@frozen
class HasOnAllLive:
    """Met if `privilege` is held on every live entity inside the target, which is a container. Also met if there
    is no such entity.

    kind: only entities of this kind count; None for every kind.
    """

    privilege: Privilege
    kind: str | None = None


@frozen
class Always:
    """Met for every active principal."""


@frozen
class AllOf:
    """Met if every part is met."""

    parts: tuple["Expression", ...]


@frozen
class AnyOf:
    """Met if at least one part is met."""

    parts: tuple["Expression", ...]


@frozen
class Given:
    """Met if `then` is met, or if the question does not have `parameter`."""

    parameter: Parameter
    then: "Expression"


Expression = Has | HasAtOrBelow | HasOnAllLive | Always | AllOf | AnyOf | Given


Result = TypeVar("Result")


class Algebra(ABC, Generic[Result]):
    """The values of the nodes of an expression. See `fold`."""

    __slots__ = ()

    @abstractmethod
    def has(self, privileges: tuple[Privilege, ...], scope: Scope) -> Result:
        """Return the value of `Has`."""

    @abstractmethod
    def has_at_or_below(self) -> Result:
        """Return the value of `HasAtOrBelow`."""

    @abstractmethod
    def has_on_all_live(self, privilege: Privilege, kind: str | None) -> Result:
        """Return the value of `HasOnAllLive`."""

    @abstractmethod
    def always(self) -> Result:
        """Return the value of `Always`."""

    @abstractmethod
    def all_of(self, parts: Iterable[Result]) -> Result:
        """Return the value of `AllOf`. parts: their values; each is computed when the iteration reaches it."""

    @abstractmethod
    def any_of(self, parts: Iterable[Result]) -> Result:
        """Return the value of `AnyOf`. parts: as in `all_of`."""

    @abstractmethod
    def given(self, parameter: Parameter, then: Callable[[], Result]) -> Result:
        """Return the value of `Given`. then: computes the value of its part."""


def fold(expression: Expression, algebra: Algebra[Result]) -> Result:
    """Evaluate `expression` in `algebra`.

    Parts are evaluated only when the algebra asks for them, so that a decision stops as early as possible.
    """
    match expression:
        case Has():
            return algebra.has(expression.privileges, expression.scope)
        case AllOf():
            return algebra.all_of(fold(part, algebra) for part in expression.parts)
        case AnyOf():
            return algebra.any_of(fold(part, algebra) for part in expression.parts)
        case HasAtOrBelow():
            return algebra.has_at_or_below()
        case HasOnAllLive():
            return algebra.has_on_all_live(expression.privilege, expression.kind)
        case Given(parameter, then):
            return algebra.given(parameter, lambda: fold(then, algebra))
        case Always():
            return algebra.always()
        case _:
            assert_never(expression)


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


class FactsRead(Algebra[None]):
    """The facts that the evaluation of a requirement can read, in the order of its leaves.

    held: the privileges on single addresses. is_at_or_below: whether any grant at or below the target counts.
    all_live: the privileges on all live entities inside the target. is_always: whether `Always` is a leaf.
    parameters: those of the question.
    """

    def __init__(self, requirement: Expression | None):
        self.held: list[Has] = []
        self.is_at_or_below = False
        self.all_live: list[HasOnAllLive] = []
        self.is_always = False
        self.parameters: list[Parameter] = []
        if requirement is not None:
            fold(requirement, self)

    def has(self, privileges: tuple[Privilege, ...], scope: Scope) -> None:
        self.held.append(Has(privileges, scope))

    def has_at_or_below(self) -> None:
        self.is_at_or_below = True

    def has_on_all_live(self, privilege: Privilege, kind: str | None) -> None:
        self.all_live.append(HasOnAllLive(privilege, kind))

    def always(self) -> None:
        self.is_always = True

    def all_of(self, parts: Iterable[None]) -> None:
        for _ in parts:
            pass

    any_of = all_of

    def given(self, parameter: Parameter, then: Callable[[], None]) -> None:
        self.parameters.append(parameter)
        then()
