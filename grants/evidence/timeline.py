"""Compute in which revisions a requirement was met, and by which grants."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from operator import itemgetter

from entities.address import Address
from entities.vocabulary import Privilege
from grants.evidence.revision_ranges import EMPTY, Range, Ranges, intersection, union
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
from grants.validity import Validity


@dataclass(frozen=True, slots=True)
class BoundaryLine:
    """The journal line that started or ended a period: its revision, time, author and reason."""

    revision: int
    at: str
    actor: str
    reason: str


@dataclass(frozen=True, slots=True)
class ExistencePeriod:
    """A period in which a grant or a membership existed.

    ended: None if it still exists at the end of the journal. validity: when it counted, in time.
    """

    range: Range
    started: BoundaryLine
    ended: BoundaryLine | None
    validity: Validity


@dataclass(frozen=True, slots=True)
class HeldPeriod:
    """A path: one way in which a user held a privilege: by a grant to the user, or by a grant to a group and
    a membership in it.

    ranges: the revisions in which both the grant and the membership were in force.
    """

    principal: str
    entity: Address
    privilege: Privilege
    grant: ExistencePeriod
    membership: ExistencePeriod | None
    ranges: Ranges


@dataclass(frozen=True, slots=True)
class UserTimeline:
    """What one user held in a period. held: by address. active: the revisions in which the user was an active
    principal.
    """

    held: Mapping[Address, Sequence[HeldPeriod]]
    active: Ranges


@dataclass(frozen=True, slots=True)
class TargetTimeline:
    """The target of the question in a period.

    bounds: the revisions of the period. live_inside: for each entity inside the target, the revisions in
    which it was live.
    """

    bounds: Range
    live_inside: Mapping[Address, Ranges] = field(default_factory=dict)
    _counts: dict[str | None, "LiveCounts"] = field(default_factory=dict)

    def live_counts(self, kind: str | None) -> "LiveCounts":
        """Return the numbers of live entities of a kind inside the target; None for all kinds."""
        if kind not in self._counts:
            live = (
                ranges for address, ranges in self.live_inside.items() if kind is None or address.kind == kind
            )
            self._counts[kind] = LiveCounts(live, self.bounds)
        return self._counts[kind]


class LiveCounts:
    """How many entities inside a container were live at each revision.

    A user holds a privilege on all of them in the revisions in which it holds the privilege on the same
    number of entities. So the entities on which it holds nothing, of which there may be thousands, need not
    be compared.
    """

    def __init__(self, live: Iterable[Ranges], bounds: Range):
        # (number, start, end), by number
        self._steps = sorted((number, start, end) for start, end, number in _counts(live, bounds))
        self.nothing_live = self.all_among(())

    def all_among(self, live: Sequence[Ranges]) -> Ranges:
        """Return the revisions in which no other entities were live. live: for each of these entities, when
        it was live.
        """
        last = bisect_right(self._steps, len(live), key=itemgetter(0))
        steps = sorted((start, end, number) for number, start, end in self._steps[:last])
        if not steps:
            return EMPTY
        counts = _counts(live, (steps[0][0], steps[-1][1]))
        equal, i, j = [], 0, 0
        while i < len(steps) and j < len(counts):
            (start, end, total), (count_start, count_end, number) = steps[i], counts[j]
            if number == total and max(start, count_start) < min(end, count_end):
                equal.append((max(start, count_start), min(end, count_end)))
            if end < count_end:
                i += 1
            else:
                j += 1
        return union((equal,))


def _counts(sets: Iterable[Ranges], bounds: Range) -> list[tuple[int, int, int]]:
    """Return how many sets contain each revision of `bounds`, as (start, end, number), in order."""
    start, last = bounds
    starts, ends = [], []
    for ranges in sets:
        for range_start, range_end in ranges:
            starts.append((range_start, 1))
            ends.append((range_end, -1))
    number, counts = 0, []
    for revision, change in merge(sorted(starts), sorted(ends)):
        if start < min(revision, last):
            counts.append((start, min(revision, last), number))
            start = min(revision, last)
        number += change
    if start < last:
        counts.append((start, last, number))
    return counts


@dataclass(frozen=True, slots=True)
class MetPeriod:
    """The revisions in which an expression was met. paths: the held privileges that met it, each with these
    revisions.
    """

    ranges: Ranges
    paths: Sequence[tuple[HeldPeriod, Ranges]] = ()

    def during(self, ranges: Ranges) -> "MetPeriod":
        """Return the part of this period in the given revisions."""
        clipped = ((held, intersection(of_path, ranges)) for held, of_path in self.paths)
        return MetPeriod(intersection(self.ranges, ranges), tuple(path for path in clipped if path[1]))


def met_period(
    expression: Expression, question: Question, user: UserTimeline, target: TargetTimeline
) -> MetPeriod:
    """Return in which revisions of the target's bounds the user met `expression`, and by which held
    privileges.
    """
    match expression:
        case Has(privileges, scope):
            address = question.address_at(scope)
            held_there = () if address is None else user.held.get(address, ())
            return _any_of(held for held in held_there if held.privilege in privileges)
        case HasAtOrBelow():
            return _any_of(
                held
                for address, held_there in user.held.items()
                if _is_at_or_below(address, question.known_target)
                for held in held_there
            )
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
            return MetPeriod(
                union(part.ranges for part in met), [path for part in met for path in part.paths]
            )
        case Given(parameter, then):
            return (
                met_period(then, question, user, target)
                if question.has_parameter(parameter)
                else MetPeriod((target.bounds,))
            )
        case Always():
            return MetPeriod((target.bounds,))
        case _:
            raise UnknownExpression(expression)


def _any_of(held: Iterable[HeldPeriod]) -> MetPeriod:
    paths = [(each, each.ranges) for each in held]
    return MetPeriod(union(ranges for _, ranges in paths), paths)


def _is_at_or_below(address: Address, container: Address) -> bool:
    return address == container or container in address.ancestors


def _on_all_live(
    privilege: Privilege, kind: str | None, user: UserTimeline, target: TargetTimeline
) -> MetPeriod:
    """Return the revisions in which the user held `privilege` on every live entity inside the target, and by
    which grants.
    """
    counts, held_live = target.live_counts(kind), []
    paths: list[tuple[HeldPeriod, Ranges]] = []
    for address, held_there in user.held.items():
        live = target.live_inside.get(address)
        if live is None or kind is not None and address.kind != kind:
            continue
        held = _any_of(each for each in held_there if each.privilege == privilege).during(live)
        if held.ranges:
            held_live.append(held.ranges)
            paths += held.paths
    ranges = counts.all_among(held_live) if held_live else counts.nothing_live
    return MetPeriod(ranges, paths).during(ranges) if ranges else MetPeriod(EMPTY)
