"""Compute in which revisions a requirement was met, and by which grants."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from entities.address import Address
from entities.vocabulary import Privilege
from grants.evidence.revision_ranges import EMPTY, Range, Ranges, complement, intersection, union
from grants.policies.grammar import (
    AllOf,
    Always,
    AnyOf,
    Expression,
    Given,
    Has,
    HasAtOrBelow,
    HasOnAllLive,
    UnknownExpression,
)
from grants.policies.question import Question


@dataclass(frozen=True, slots=True)
class Change:
    """The journal line that started or ended a period: its revision, time, author and reason."""

    revision: int
    at: str
    actor: str
    reason: str


@dataclass(frozen=True, slots=True)
class Period:
    """A period in which a grant or a membership existed. ended: None if it still exists at the end of the journal."""

    range: Range
    started: Change
    ended: Change | None


@dataclass(frozen=True, slots=True)
class HeldPeriod:
    """A path: one way in which a user held a privilege: by a grant to the user, or by a grant to a group and a membership in it.

    ranges: the revisions in which both the grant and the membership existed.
    """

    principal: str
    entity: Address
    privilege: Privilege
    grant: Period
    membership: Period | None
    ranges: Ranges


@dataclass(frozen=True, slots=True)
class UserTimeline:
    """What one user held in a period. held: by address. active: the revisions in which the user was an active principal."""

    held: Mapping[Address, Sequence[HeldPeriod]]
    active: Ranges


@dataclass(frozen=True, slots=True)
class TargetTimeline:
    """The target of the question in a period.

    bounds: the revisions of the period. live_inside: for each entity inside the target, the revisions in which it was live.
    """

    bounds: Range
    live_inside: Mapping[Address, Ranges] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MetPeriod:
    """The revisions in which an expression was met. paths: the held privileges that met it, each with these revisions."""

    ranges: Ranges
    paths: Sequence[tuple[HeldPeriod, Ranges]] = ()

    def during(self, ranges: Ranges) -> "MetPeriod":
        """Return the part of this period in the given revisions."""
        clipped = ((held, intersection(of_path, ranges)) for held, of_path in self.paths)
        return MetPeriod(intersection(self.ranges, ranges), tuple(path for path in clipped if path[1]))


def met_period(expression: Expression, question: Question, user: UserTimeline, target: TargetTimeline) -> MetPeriod:
    """Return in which revisions of the target's bounds the user met `expression`, and by which held privileges."""
    match expression:
        case Has(privileges, scope):
            address = question.address_at(scope)
            held_there = () if address is None else user.held.get(address, ())
            return _any_of(held for held in held_there if held.privilege in privileges)
        case HasAtOrBelow():
            return _any_of(held for address, held_there in user.held.items() if _is_at_or_below(address, question.known_target)
                           for held in held_there)
        case HasOnAllLive(privilege, kind):
            return _on_all_live(privilege, kind, user, target)
        case AllOf(parts):
            met = [met_period(part, question, user, target) for part in parts]
            ranges: Ranges = (target.bounds,)
            for part in met:
                ranges = intersection(ranges, part.ranges)
            return MetPeriod(ranges, [path for part in met for path in part.paths]).during(ranges)
        case AnyOf(parts):
            met = [met_period(part, question, user, target) for part in parts]
            return MetPeriod(union(part.ranges for part in met), [path for part in met for path in part.paths])
        case Given(parameter, then):
            return met_period(then, question, user, target) if question.has_parameter(parameter) else MetPeriod((target.bounds,))
        case Always():
            return MetPeriod((target.bounds,))
        case _:
            raise UnknownExpression(expression)


def _any_of(held: Iterable[HeldPeriod]) -> MetPeriod:
    paths = [(each, each.ranges) for each in held]
    return MetPeriod(union(ranges for _, ranges in paths), paths)


def _is_at_or_below(address: Address, container: Address) -> bool:
    return address == container or container in address.ancestors


def _on_all_live(privilege: Privilege, kind: str | None, user: UserTimeline, target: TargetTimeline) -> MetPeriod:
    """Return the revisions in which the user held `privilege` on every live entity inside the target, and by which grants."""
    ranges: Ranges = (target.bounds,)
    paths: list[tuple[HeldPeriod, Ranges]] = []
    for address, live in target.live_inside.items():
        if kind is not None and address.kind != kind:
            continue
        held = _any_of(each for each in user.held.get(address, ()) if each.privilege == privilege)
        ranges = intersection(ranges, union((held.ranges, complement(live, target.bounds))))
        if ranges == EMPTY:
            return MetPeriod(EMPTY)
        paths += held.during(live).paths
    return MetPeriod(ranges, paths).during(ranges)
