"""List who could perform which operations on an entity, in which revisions, and by which grants."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from entities.address import Address
from entities.vocabulary import KINDS
from grants.evidence.holdings import Holdings, read_holdings
from grants.evidence.revision_ranges import Range, Ranges, intersection, union
from grants.evidence.timeline import HeldPeriod, MetPeriod, UserTimeline, met_period
from grants.history_models import GenerationPeriod
from grants.policies.catalogue import GENERATIONS
from grants.policies.grammar import Expression
from grants.policies.question import Question

_NOTHING_HELD: dict = {}


@dataclass(frozen=True, slots=True)
class AccessRow:
    """A range of revisions in which a user could perform an operation. paths: the held privileges that permitted it."""

    user: str
    operation: str
    range: Range
    paths: Sequence[HeldPeriod]


@dataclass(frozen=True, slots=True)
class _Rule:
    """The requirement of an operation, and the revisions in which its generation was active."""

    operation: str
    generation: str
    requirement: Expression
    active: Ranges


class AccessPeriods:
    """The access to one entity in a range of revisions. Iterate over its rows, sorted by user, operation and revision."""

    def __init__(self, entity: Address, bounds: Range, default_generation: str):
        """Read the history. default_generation: the one that was active before the journal activated another.

        Raise TooMuchEvidence if there are too many periods.
        """
        self.entity, self.bounds = entity, bounds
        self.generations = active_generations(bounds, default_generation)
        self._rules = list(self._rules_of_kind())
        question = self._question("list")
        self._holdings: Holdings = read_holdings(question, [rule.requirement for rule in self._rules], bounds)
        self._without_grants = self._met(UserTimeline(_NOTHING_HELD, (bounds,)))

    @property
    def user_count(self) -> int:
        """The number of users who are checked."""
        return len(self._holdings.active)

    def rows_by_user(self) -> Iterator[list[AccessRow]]:
        """Yield the rows of each checked user; an empty list for a user without rows."""
        names = self._holdings.names
        for user in sorted(self._holdings.active, key=lambda user: (names[user], user)):
            yield self._rows_of_user(user)

    def _rows_of_user(self, user: int) -> list[AccessRow]:
        timeline = self._holdings.timeline(user)
        # what is permitted without grants is the same for all users
        met = self._met(timeline) if timeline.held else self._without_grants
        rows = []
        for operation, parts in met.items():
            parts = [part.during(timeline.active) for part in parts]
            paths: dict[HeldPeriod, list[Range]] = {}
            for part in parts:
                for held, ranges in part.paths:
                    paths.setdefault(held, []).extend(ranges)
            for range_ in union(part.ranges for part in parts):
                rows.append(AccessRow(f"user:{self._holdings.names[user]}", operation, range_, [
                    held for held, ranges in paths.items() if intersection(union([ranges]), (range_,))]))
        return rows

    def _met(self, user: UserTimeline) -> dict[str, list[MetPeriod]]:
        """Return the periods in which each operation was permitted, by operation in alphabetical order."""
        met: dict[str, list[MetPeriod]] = {}
        for rule in self._rules:
            period = met_period(rule.requirement, self._question(rule.operation, rule.generation), user, self._holdings.target)
            met.setdefault(rule.operation, []).append(period.during(rule.active))
        return met

    def _rules_of_kind(self) -> Iterator[_Rule]:
        for operation in sorted(KINDS[self.entity.kind].operations):
            for name, active in self.generations.items():
                policy = GENERATIONS[name].policy(self.entity.kind, operation)
                if policy is not None and policy.requirement is not None:
                    yield _Rule(operation, name, policy.requirement, active)

    def _question(self, operation: str, generation: str = "") -> Question:
        return Question("user", "", operation, self.entity, generation or next(iter(self.generations)))


def active_generations(bounds: Range, default: str) -> dict[str, Ranges]:
    """Return the revisions of `bounds` in which each generation was active, in order of their first activation."""
    changes = list(GenerationPeriod.objects.order_by("from_revision").values_list("from_revision", "name"))
    starts = [(0, default), *changes]
    ranges: dict[str, list[Range]] = {}
    for (start, name), end in zip(starts, [start for start, _ in changes] + [bounds[1]], strict=True):
        start, end = max(start, bounds[0]), min(end, bounds[1])
        if start < end and name in GENERATIONS:
            ranges.setdefault(name, []).append((start, end))
    return {name: union([of_name]) for name, of_name in ranges.items()}
