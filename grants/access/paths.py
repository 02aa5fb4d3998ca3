"""Collect the paths of a permission: the grants by which a requirement is met."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from heapq import merge
from itertools import groupby
from typing import Protocol

from entities.address import Address
from entities.frozen import frozen
from entities.vocabulary import ANY, CONTAINER_KINDS, Privilege
from grants.policies.grammar import Algebra, Expression, Parameter, Scope, fold
from grants.policies.question import Question


@dataclass(frozen=True, slots=True, order=True)
class Path:
    """A grant by which an operation is permitted, as it is written. Paths are sorted by code points.

    principal: the subject itself or one of its groups.
    """

    principal: str
    entity: str
    privilege: str


class PathSource(Protocol):
    """The paths of one leaf of a requirement, sorted.

    listed_paths: all paths, or the first ones that were loaded if `is_complete` is false. Iteration yields
    all paths.
    """

    @property
    def listed_paths(self) -> tuple[Path, ...]: ...

    @property
    def is_complete(self) -> bool: ...

    def __iter__(self) -> Iterator[Path]: ...


@frozen
class LoadedPaths:
    """All paths of a leaf, in memory; see `PathSource`."""

    listed_paths: tuple[Path, ...]
    is_complete: bool = True

    def __iter__(self) -> Iterator[Path]:
        return iter(self.listed_paths)


@frozen
class Ways:
    """How a permitted operation is permitted.

    sources: the paths of each leaf that is met; empty if no grant is needed. only: the listed paths without
    which the operation would be denied.
    """

    sources: tuple[PathSource, ...] = ()
    only: frozenset[Path] = frozenset()

    @property
    def listed_paths(self) -> list[Path]:
        """The loaded paths, sorted and without duplicates."""
        if len(self.sources) == 1:
            return list(self.sources[0].listed_paths)
        return sorted({path for source in self.sources for path in source.listed_paths})

    @property
    def is_complete(self) -> bool:
        """Whether `listed_paths` has all paths."""
        return all(source.is_complete for source in self.sources)

    def __iter__(self) -> Iterator[Path]:
        """Yield all paths, sorted and without duplicates. Paths that are not loaded are read in chunks."""
        if self.is_complete:
            return iter(self.listed_paths)
        return (path for path, _ in groupby(merge(*self.sources)))


class AccessFacts(Protocol):
    """The grants that count for the subject of a question."""

    def grants_on(self, address: Address, privileges: Iterable[Privilege]) -> tuple[Path, ...]:
        """Return the grants of these privileges on exactly `address`, sorted."""

    def grants_at_or_below(self, address: Address) -> PathSource:
        """Return the grants on the container `address` or on an address inside it."""

    def grants_on_all_live(self, address: Address, privilege: Privilege, kind: str | None) -> Ways | None:
        """Return the grants of the privilege on the live entities inside `address`; None if one of them has
        no such grant.

        kind: only entities of this kind; None for every kind.
        """


def ways_to_meet(expression: Expression, question: Question, facts: AccessFacts) -> Ways | None:
    """Return how the grants of the subject meet `expression`; None if they do not.

    A part of `AnyOf` that is not met contributes no paths.
    """
    return fold(expression, WaysToMeet(question, facts))


@frozen
class WaysToMeet(Algebra[Ways | None]):
    """The ways in which the grants of the subject meet an expression; see `ways_to_meet`."""

    question: Question
    facts: AccessFacts

    def has(self, privileges: tuple[Privilege, ...], scope: Scope) -> Ways | None:
        address = self.question.address_at(scope)
        return None if address is None else _ways_of_grants(self.facts.grants_on(address, privileges))

    def has_at_or_below(self) -> Ways | None:
        target = self.question.known_target
        if target.kind not in CONTAINER_KINDS:
            return _ways_of_grants(self.facts.grants_on(target, ANY))
        source = self.facts.grants_at_or_below(target)
        only = _only_path(source.listed_paths) if source.is_complete else frozenset()
        return Ways((source,), only) if source.listed_paths else None

    def has_on_all_live(self, privilege: Privilege, kind: str | None) -> Ways | None:
        return self.facts.grants_on_all_live(self.question.known_target, privilege, kind)

    def always(self) -> Ways:
        return Ways()

    def all_of(self, parts: Iterable[Ways | None]) -> Ways | None:
        """It is no longer met if one of its parts is no longer met."""
        met = []
        for part in parts:
            if part is None:
                return None
            met.append(part)
        return Ways(_sources(met), frozenset().union(*(part.only for part in met)))

    def any_of(self, parts: Iterable[Ways | None]) -> Ways | None:
        """It is no longer met if all its met parts are no longer met."""
        met = [part for part in parts if part is not None]
        return Ways(_sources(met), frozenset.intersection(*(part.only for part in met))) if met else None

    def given(self, parameter: Parameter, then: Callable[[], Ways | None]) -> Ways | None:
        return then() if self.question.has_parameter(parameter) else Ways()


def _ways_of_grants(paths: tuple[Path, ...]) -> Ways | None:
    return Ways((LoadedPaths(paths),), _only_path(paths)) if paths else None


def _only_path(paths: tuple[Path, ...]) -> frozenset[Path]:
    return frozenset(paths) if len(paths) == 1 else frozenset()


def _sources(met: Iterable[Ways]) -> tuple[PathSource, ...]:
    return tuple(source for part in met for source in part.sources)
