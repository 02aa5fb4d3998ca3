"""List who could perform which operations on an entity, in which revisions, and by which grants."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby, islice
from operator import attrgetter

from entities.address import Address
from entities.frozen import frozen
from entities.vocabulary import KINDS
from grants.evidence.grant_periods import GrantPeriodReader, TooMuchEvidence
from grants.evidence.holdings import Holdings, HoldingsReader, UserHistory, read_users
from grants.evidence.revision_ranges import Range, Ranges, intersection, union
from grants.evidence.timeline import HeldPeriod, MetPeriod, UserTimeline, met_period
from grants.models.history import GenerationPeriod
from grants.policies.catalogue import GENERATIONS
from grants.policies.grammar import Expression
from grants.policies.question import Question

ENTITIES_PER_READ = 200
_NOTHING_HELD: dict = {}


@frozen
class AccessRow:
    """A range of revisions in which a user could perform an operation. paths: the held privileges that
    permitted it.
    """

    user: str
    operation: str
    range: Range
    paths: Sequence[HeldPeriod]


class KindRequirements:
    """The rules for one kind in the generations that were active.

    requirements: all different ones. operations: in alphabetical order, each with its rules: the position of
    the requirement, and the revisions in which its generation was active.
    """

    def __init__(self, kind: str, generations: Mapping[str, Ranges]):
        self.kind, self.generation = kind, next(iter(generations), "")
        positions: dict[Expression, int] = {}
        self.operations: list[tuple[str, tuple[tuple[int, Ranges], ...]]] = []
        for operation in sorted(KINDS[kind].operations):
            rules = []
            for name, active in generations.items():
                policy = GENERATIONS[name].policy(kind, operation)
                if policy is not None and policy.requirement is not None:
                    rules.append((positions.setdefault(policy.requirement, len(positions)), active))
            self.operations.append((operation, tuple(rules)))
        self.requirements = list(positions)

    def question(self, target: Address) -> Question:
        """Return a question about the target.

        The requirements depend on the operation and the generation, the facts do not.
        """
        return Question("user", "", "list", target, self.generation)


class AccessPeriods:
    """The access to one entity in a range of revisions.

    Iterate over its rows, sorted by user, operation and revision.
    """

    def __init__(self, entity: Address, rules: KindRequirements, holdings: Holdings):
        self.entity, self._rules, self._holdings = entity, rules, holdings
        self._without_grants = self._met(UserTimeline(_NOTHING_HELD, (holdings.target.bounds,)))

    def rows_by_user(self) -> Iterator[list[AccessRow]]:
        """Yield a list of rows for each user who can have had access. The list can be empty."""
        names, active = self._holdings.users.names, self._holdings.users.active
        is_open = any(
            self._without_grants[position].during(generation).ranges
            for _, rules in self._rules.operations
            for position, generation in rules
        )
        # users without grants have no rows unless something is permitted without one
        users = active if is_open else active.keys() & self._holdings.held.keys()
        for user in sorted(users, key=lambda user: (names[user], user)):
            yield self._rows_of_user(user)

    def _rows_of_user(self, user: int) -> list[AccessRow]:
        timeline, name = self._holdings.timeline(user), f"user:{self._holdings.users.names[user]}"
        # what is permitted without grants is the same for all users
        met = self._met(timeline) if timeline.held else self._without_grants
        # many operations have the same rules
        periods: dict[tuple, list[tuple[Range, Sequence[HeldPeriod]]]] = {}
        rows = []
        for operation, rules in self._rules.operations:
            if rules not in periods:
                periods[rules] = _ranges_with_paths(
                    [met[position].during(active).during(timeline.active) for position, active in rules]
                )
            rows += [AccessRow(name, operation, range_, paths) for range_, paths in periods[rules]]
        return rows

    def _met(self, user: UserTimeline) -> list[MetPeriod]:
        """Return the periods in which each requirement was met."""
        question = self._rules.question(self.entity)
        return [
            met_period(requirement, question, user, self._holdings.target)
            for requirement in self._rules.requirements
        ]


def _ranges_with_paths(parts: Sequence[MetPeriod]) -> list[tuple[Range, Sequence[HeldPeriod]]]:
    """Return the ranges of revisions in which at least one part was met, each with its paths."""
    # by identity, because comparing all columns of the paths takes longer
    paths: dict[int, tuple[HeldPeriod, list[Range]]] = {}
    for part in parts:
        for held, ranges in part.paths:
            paths.setdefault(id(held), (held, []))[1].extend(ranges)
    return [
        (range_, [held for held, ranges in paths.values() if intersection(union([ranges]), (range_,))])
        for range_ in union(part.ranges for part in parts)
    ]


def access_periods(
    addresses: Iterable[Address], bounds: Range, default_generation: str, users: UserHistory | None = None
) -> Iterator[AccessPeriods]:
    """Yield the access to each entity, in order. An address that was never registered has none. The history of ENTITIES_PER_READ entities of one kind is
    read together.

    default_generation: the one that was active before the journal activated another. users: of `read_users`,
    if they were read already. Raise TooMuchEvidence if there are too many periods for one entity.
    """
    generations = active_generations(bounds, default_generation)
    grants, users = GrantPeriodReader(bounds), users or read_users(bounds)
    for kind, of_kind in groupby(addresses, key=attrgetter("kind")):
        rules = KindRequirements(kind, generations)
        reader = HoldingsReader(kind, rules.requirements, grants, users)
        while questions := [rules.question(address) for address in islice(of_kind, ENTITIES_PER_READ)]:
            for question, holdings in _read(reader, questions):
                yield AccessPeriods(question.known_target, rules, holdings)


def _read(reader: HoldingsReader, questions: Sequence[Question]) -> Iterator[tuple[Question, Holdings]]:
    """Yield the holdings for each question.

    If there are too many grants for all of them, read half of them at a time.
    """
    try:
        holdings = reader.read(questions)
    except TooMuchEvidence:
        if len(questions) == 1:
            raise
        middle = len(questions) // 2
        holdings = chain.from_iterable(
            (of_question for _, of_question in _read(reader, part))
            for part in (questions[:middle], questions[middle:])
        )
    yield from zip(questions, holdings, strict=True)


def active_generations(bounds: Range, default: str) -> dict[str, Ranges]:
    """Return the revisions of `bounds` in which each generation was active, in order of their first
    activation.
    """
    changes = list(GenerationPeriod.objects.order_by("from_revision").values_list("from_revision", "name"))
    starts = [(0, default), *changes]
    ranges: dict[str, list[Range]] = {}
    for (start, name), end in zip(starts, [start for start, _ in changes] + [bounds[1]], strict=True):
        start, end = max(start, bounds[0]), min(end, bounds[1])
        if start < end and name in GENERATIONS:
            ranges.setdefault(name, []).append((start, end))
    return {name: union([of_name]) for name, of_name in ranges.items()}
