"""The fewest grants after which a user may do, by the rules of a generation, what a list of answers says.

An answer that can be met in one way only forces its grants. Of those that can be met in several ways most are met by what is
forced; the rest is covered greedily, by the grant that meets most of them, and then stripped of every grant that can be spared.
INVARIANT: whether an answer is met is decided by the law itself (`decide.holds`), with the grants of the cover among the facts.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from entities.address import Address
from entities.selectors import entity_at, live_entities_inside
from entities.vocabulary import ANY, CONTAINER_KINDS, KIND_ORDER, KINDS, Privilege
from grants.errors import PlanError
from grants.evaluation.effective_grants import grant_tables
from grants.evaluation.entity_filters import FilterContext, requirement_condition
from grants.evaluation.facts import gather_facts
from grants.policies.decide import Facts, HeldGrant, MissingEntities, is_met
from grants.policies.explain import MissingGrant, minimal_missing_sets
from grants.policies.grammar import Expression, Has, HasAtOrBelow, HasOnAllLive, leaves
from grants.policies.policy import Generation
from grants.policies.question import Question

QUESTIONS_AT_ONCE = 500

Way = frozenset[MissingGrant]


@dataclass(frozen=True, slots=True)
class Cover:
    """gaps: the grants, by address. only_way: how many of them are such that an answer is not met without them, whatever else
    is granted. is_smallest: proven that fewer would not do."""

    gaps: tuple[MissingGrant, ...] = ()
    only_way: int = 0
    is_smallest: bool = True


@dataclass(frozen=True, slots=True)
class _Want:
    """An answer to be met, the facts about it, and every minimal way to meet it."""

    question: Question
    facts: Facts
    ways: list[Way]

    @property
    def below(self) -> Address | None:
        """The container in which any grant meets it; None where none does."""
        shown = any(isinstance(leaf, HasAtOrBelow) for leaf in leaves(self.question.policy.requirement))
        return self.question.target if shown and self.question.target.kind in CONTAINER_KINDS else None


@dataclass(slots=True)
class _Granted:
    """Grants to be made, as facts look at them. inside: how many lie at or below each address."""

    privileges: dict[Address, set[Privilege]] = field(default_factory=lambda: defaultdict(set))
    inside: Counter = field(default_factory=Counter)

    def holds(self, gap: MissingGrant) -> bool:
        return gap[1] in self.privileges.get(gap[0], ())

    def add(self, gap: MissingGrant) -> None:
        """One that is not in it yet."""
        self.privileges[gap[0]].add(gap[1])
        self.inside.update((gap[0], *gap[0].ancestors))

    def remove(self, gap: MissingGrant) -> None:
        self.privileges[gap[0]].discard(gap[1])
        self.inside.subtract((gap[0], *gap[0].ancestors))

    def meets(self, want: _Want) -> bool:
        return is_met(want.question.policy.requirement, want.question, _WithGranted(want, self))


@dataclass(frozen=True, slots=True)
class _WithGranted:
    """The facts of a question as they would be; see `grants.policies.decide.Facts`."""

    want: _Want
    granted: _Granted
    subject_is_known: bool = True

    def privileges_on(self, place: Address) -> Mapping[Privilege, str]:
        more = dict.fromkeys(self.granted.privileges.get(place, ()), self.want.question.principal)
        return {**self.want.facts.privileges_on(place), **more}

    def has_grant_at_or_below(self, place: Address) -> bool:
        return self.granted.inside[place] > 0 or self.want.facts.has_grant_at_or_below(place)

    def grant_at_or_below(self, place: Address) -> HeldGrant | None:
        if self.granted.inside[place] > 0:
            return HeldGrant(self.want.question.principal, place, ANY[0])
        return self.want.facts.grant_at_or_below(place)

    def missing_entities(self, place: Address, privilege: Privilege, kind: str | None) -> MissingEntities:
        lacking = self.want.facts.missing_entities(place, privilege, kind)
        left = tuple(a for a in lacking.addresses if privilege not in self.granted.privileges.get(a, ()))
        return MissingEntities(not left, lacking.total, left)


def minimal_grants(user: str, answers: Iterable[tuple[Address, str]], generation: Generation, *, most_gaps: int) -> Cover:
    """answers: (address, operation), each of which has a rule. Held in memory until the cover is found.

    Raises PlanError where more than `most_gaps` grants would be needed.
    """
    families = _families(answers, generation)
    granted, gaps, only_way, is_smallest = _Granted(), [], 0, True
    for questions in families.values():
        forced, wants = set(), []
        for want in _wants(user, questions, generation, most_gaps):
            if len(want.ways) == 1 and want.below is None:
                forced |= want.ways[0]
            else:
                wants.append(want)
            _check_bound(len(gaps) + len(forced), most_gaps)
        new = [gap for gap in forced if not granted.holds(gap)]
        for gap in new:
            granted.add(gap)
        chosen, is_fewest = _chosen([want for want in wants if not granted.meets(want)], granted)
        gaps += [*new, *chosen]
        only_way, is_smallest = only_way + len(new), is_smallest and is_fewest
        _check_bound(len(gaps), most_gaps)
    return Cover(tuple(sorted(gaps, key=_order)), only_way, is_smallest)


def _families(answers: Iterable[tuple[Address, str]], generation: Generation) -> dict:
    """One answer for each requirement of each entity, by namespace: grants in one meet nothing in another."""
    families: dict[Address | None, dict[tuple[Address, Expression], str]] = defaultdict(dict)
    for address, operation in answers:
        requires = generation.policy(address.kind, operation).requirement
        families[address.namespace].setdefault((address, requires), operation)
    # what lies outside of all namespaces first: its grants are seen from within them
    return dict(sorted(families.items(), key=lambda family: (family[0] is not None, str(family[0]))))


def _wants(user: str, asked: dict, generation: Generation, most_gaps: int) -> Iterator[_Want]:
    """Those that are not met yet. One query for every QUESTIONS_AT_ONCE, and two for each that looks at all that is live."""
    questions = (Question("user", user, operation, address, generation.name) for address, _ in asked
                 for operation in [asked[address, _]])
    waiting = iter(questions)
    while batch := list(islice(waiting, QUESTIONS_AT_ONCE)):
        over_all = [question for question in batch if _live_leaves(question)]
        plain = [question for question in batch if not _live_leaves(question)]
        yield from _weighed(plain, gather_facts(plain))
        for question in over_all:
            _check_live(question, most_gaps)
            yield from _weighed([question], gather_facts([question], explained=True))


def _weighed(questions: list[Question], found: list[Facts]) -> Iterator[_Want]:
    for question, facts in zip(questions, found, strict=True):
        ways = minimal_missing_sets(question.policy.requirement, question, facts)
        if facts.subject_is_known and ways and ways != [frozenset()]:
            yield _Want(question, facts, ways)


def _live_leaves(question: Question) -> list[HasOnAllLive]:
    return [leaf for leaf in leaves(question.policy.requirement) if isinstance(leaf, HasOnAllLive)]


def _check_live(question: Question, most_gaps: int) -> None:
    """Before all that is missing in a namespace is loaded."""
    entity, tables = entity_at(question.target), grant_tables("user", question.subject)
    if entity is None or tables is None:
        return
    for leaf in _live_leaves(question):
        held = requirement_condition(Has((leaf.privilege,)), FilterContext(tables, list(KINDS)))
        _check_bound(live_entities_inside(entity, leaf.kind).exclude(held).order_by()[: most_gaps + 1].count(), most_gaps)


def _check_bound(count: int, most_gaps: int) -> None:
    if count > most_gaps:
        raise PlanError(f"more than {most_gaps:,} grants would be needed, which is the limit of a plan: make it for one "
                        f"namespace, one group or one user at a time")


def _chosen(wants: list[_Want], granted: _Granted) -> tuple[list[MissingGrant], bool]:
    """Grants that meet all of these, added to `granted`; and whether fewer are proven not to."""
    if not wants:
        return [], True
    meets, at_least = _met_by(wants), _at_least(wants, granted)
    chosen = _greedy(wants, meets, granted)
    kept = _stripped(chosen, wants, meets, granted)
    return kept, at_least == len(kept)


def _met_by(wants: list[_Want]) -> dict[Way, set[int]]:
    """The wants, by number, that each way meets by itself."""
    meets: dict[Way, set[int]] = defaultdict(set)
    below = defaultdict(set)
    for number, want in enumerate(wants):
        for way in want.ways:
            meets[way].add(number)
        if want.below is not None:
            below[want.below].add(number)
    for way, numbers in meets.items():
        for address, _ in way:
            for place in (address, *address.ancestors):
                numbers |= below.get(place, set())
    return meets


def _greedy(wants: list[_Want], meets: dict[Way, set[int]], granted: _Granted) -> list[MissingGrant]:
    """Always the way that meets most for each of its grants; of equal ones that of the narrowest reach."""
    open_wants, chosen = set(range(len(wants))), []
    waiting = [(-len(numbers) / len(way), _reach(way), number, way) for number, (way, numbers) in enumerate(
        sorted(meets.items(), key=lambda item: sorted(map(_order, item[0]))))]
    heapq.heapify(waiting)
    while open_wants:
        score, reach, number, way = heapq.heappop(waiting)
        now = -len(meets[way] & open_wants) / len(way)
        if now != score:
            # what it met was met meanwhile: it has to wait for its turn again
            if now:
                heapq.heappush(waiting, (now, reach, number, way))
            continue
        for gap in way:
            if not granted.holds(gap):
                granted.add(gap)
                chosen.append(gap)
        open_wants -= {number for number in meets[way] & open_wants if granted.meets(wants[number])}
    return chosen


def _stripped(chosen: list[MissingGrant], wants: list[_Want], meets: dict[Way, set[int]],
              granted: _Granted) -> list[MissingGrant]:
    """Without those that can be spared, the widest first."""
    touched: dict[MissingGrant, set[int]] = defaultdict(set)
    for way, numbers in meets.items():
        for gap in way:
            touched[gap] |= numbers
    kept = []
    for gap in sorted(chosen, key=lambda gap: (-_reach((gap,)), _order(gap))):
        granted.remove(gap)
        if not all(granted.meets(wants[number]) for number in touched[gap]):
            granted.add(gap)
            kept.append(gap)
    return kept


def _at_least(wants: list[_Want], granted: _Granted) -> int:
    """A number of further grants that no cover can do without: wants of which no two could share a grant."""
    total, used, around, containers = 0, set(), set(), set()
    for want in sorted(wants, key=lambda want: (want.below is not None, len(want.ways))):
        ways = [{gap for gap in way if not granted.holds(gap)} for way in want.ways]
        gaps = set().union(*ways)
        places = {place for address, _ in gaps for place in (address, *address.ancestors)}
        if gaps & used or places & containers or want.below in around:
            continue
        total += min(map(len, ways))
        used |= gaps
        around |= places
        if want.below is not None:
            containers.add(want.below)
    return total


def _reach(way: Iterable[MissingGrant]) -> int:
    """How far its grants reach: one on an instance, a namespace or an application is about all that lies in it."""
    kinds = [address.kind for address, _ in way if address.kind in CONTAINER_KINDS]
    return sum(len(CONTAINER_KINDS) - CONTAINER_KINDS.index(kind) for kind in kinds)


def _order(gap: MissingGrant) -> tuple:
    address, privilege = gap
    return KIND_ORDER[address.kind], address.key, ANY.index(privilege)
