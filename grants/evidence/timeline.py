"""Compute in which revisions a requirement was met, and by which grants."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from heapq import merge
from operator import itemgetter

from entities.address import Address
from entities.frozen import frozen
from entities.patterns import reveals
from entities.vocabulary import Privilege
from grants.evidence.revision_ranges import EMPTY, Range, Ranges, intersection, union
from grants.policies.grammar import Algebra, Expression, Parameter, Scope, fold
from grants.policies.question import Question
from grants.validity import Validity


@frozen
class BoundaryLine:
    """The journal line that started or ended a period: its revision, time, author and reason."""

    revision: int
    at: str
    actor: str
    reason: str


@frozen
class ExistencePeriod:
    """A period in which a grant or a membership existed.

    ended: None if it still exists at the end of the journal. validity: when it counted, in time.
    """

    range: Range
    started: BoundaryLine
    ended: BoundaryLine | None
    validity: Validity


@frozen
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


@frozen
class UserTimeline:
    """What one user held in a period. held: by address. active: the revisions in which the user was an active
    principal.
    """

    held: Mapping[Address, Sequence[HeldPeriod]]
    active: Ranges


@frozen
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


@frozen
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
    return fold(expression, MetPeriods(question, user, target))


@frozen
class MetPeriods(Algebra[MetPeriod]):
    """The revisions in which the user met an expression; see `met_period`."""

    question: Question
    user: UserTimeline
    target: TargetTimeline

    def has(self, privileges: tuple[Privilege, ...], scope: Scope) -> MetPeriod:
        address = self.question.address_at(scope)
        held_there = () if address is None else self.user.held.get(address, ())
        return _any_of(held for held in held_there if held.privilege in privileges)

    def has_at_or_below(self) -> MetPeriod:
        return _any_of(
            held
            for address, held_there in self.user.held.items()
            if _is_at_or_below(address, self.question.known_target)
            for held in held_there
        )

    def has_on_all_live(self, privilege: Privilege, kind: str | None) -> MetPeriod:
        counts, held_live = self.target.live_counts(kind), []
        paths: list[tuple[HeldPeriod, Ranges]] = []
        for address, held_there in self.user.held.items():
            live = self.target.live_inside.get(address)
            if live is None or kind is not None and address.kind != kind:
                continue
            held = _any_of(each for each in held_there if each.privilege == privilege).during(live)
            if held.ranges:
                held_live.append(held.ranges)
                paths += held.paths
        ranges = counts.all_among(held_live) if held_live else counts.nothing_live
        return MetPeriod(ranges, paths).during(ranges) if ranges else MetPeriod(EMPTY)

    def always(self) -> MetPeriod:
        return MetPeriod((self.target.bounds,))

    def all_of(self, parts: Iterable[MetPeriod]) -> MetPeriod:
        met = list(parts)
        ranges: Ranges = (self.target.bounds,)
        for part in met:
            ranges = intersection(ranges, part.ranges)
        return MetPeriod(ranges, [path for part in met for path in part.paths]).during(ranges)

    def any_of(self, parts: Iterable[MetPeriod]) -> MetPeriod:
        met = list(parts)
        return MetPeriod(union(part.ranges for part in met), [path for part in met for path in part.paths])

    def given(self, parameter: Parameter, then: Callable[[], MetPeriod]) -> MetPeriod:
        return then() if self.question.has_parameter(parameter) else self.always()


def _any_of(held: Iterable[HeldPeriod]) -> MetPeriod:
    paths = [(each, each.ranges) for each in held]
    return MetPeriod(union(ranges for _, ranges in paths), paths)


def _is_at_or_below(address: Address, container: Address) -> bool:
    return (
        address == container
        or container in address.ancestors
        or (address.is_pattern and reveals(address, container))
    )
