"""Two laws over a block of numbered entities: for whom does an answer differ, as bits of Python's whole numbers.

The rules come as plain tuples `(kind, before, after)`, requirements over numbered facts (analytics.spark.law). A holding makes
facts true of places in the block: of an entity at its position, of all entities of an application, or of the whole block. What
a user holds is the OR of the user's holdings, so the loops pass over users, grants and rules, never over pairs of users and
entities. Those who hold nothing have a row of their own, and every other row says how it differs from that one.
"""

import sys
from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark import cloudpickle

from analytics.spark.blocks import WORD_BITS

# a place that stands for all entities of the block
EVERYWHERE = -1

HOLDINGS = "array<struct<users:array<long>,held:array<struct<fact:int,place:long>>>>"
APPLICATIONS = "array<struct<place:long,positions:array<long>>>"
# users: who have it in common; null are those who hold nothing
COUNTS = "array<struct<users:array<long>,rule:int,gained:long,lost:long>>"
WORDS = "array<struct<users:array<long>,rule:int,after:boolean,words:array<long>>>"

_USERS = pa.field("users", pa.list_(pa.int64()))
_RULE = pa.field("rule", pa.int32())
_COUNTS = pa.list_(pa.struct([_USERS, _RULE, pa.field("gained", pa.int64()), pa.field("lost", pa.int64())]))
_WORDS = pa.list_(pa.struct([_USERS, _RULE, pa.field("after", pa.bool_()), pa.field("words", pa.list_(pa.int64()))]))

# Python workers, on a cluster above all, need not have this package installed
cloudpickle.register_pickle_by_value(sys.modules[__name__])

# of one rule: the entities whose answer turns to yes, and those whose answer turns to no
Change = tuple[int, int]
# over the columns kinds, applications and holdings of blocks
BlockFunction = Callable[[pa.Array, pa.Array, pa.Array], pa.Array]


def changes_counted(rules: tuple, by_application: frozenset[int]) -> BlockFunction:
    """Blocks -> COUNTS. rules: each a kind and what it asks before and after. by_application: the facts held on applications."""
    return lambda *columns: pa.array([_counts(block, rules, by_application) for block in _blocks(columns)], _COUNTS)


def changes_spread(rules: tuple, by_application: frozenset[int]) -> BlockFunction:
    """Blocks -> WORDS: the positions that change, as words of 64 bits, lowest first; against those who hold nothing by XOR."""
    return lambda *columns: pa.array([_words(block, rules, by_application) for block in _blocks(columns)], _WORDS)


def _counts(block: tuple, rules: tuple, by_application: frozenset[int]) -> list[tuple]:
    found = []
    for users, changes, basis in _changes_by_users(block, rules, by_application):
        for rule, ((gained, lost), (other_gained, other_lost)) in enumerate(zip(changes, basis, strict=True)):
            more = gained.bit_count() - other_gained.bit_count(), lost.bit_count() - other_lost.bit_count()
            if any(more):
                found.append((users, rule, *more))
    return found


def _words(block: tuple, rules: tuple, by_application: frozenset[int]) -> list[tuple]:
    found = []
    for users, changes, basis in _changes_by_users(block, rules, by_application):
        for rule, (change, other) in enumerate(zip(changes, basis, strict=True)):
            found += [(users, rule, after, _as_words(bits ^ without))
                      for after, bits, without in zip((True, False), change, other, strict=True) if bits != without]
    return found


def _changes_by_users(block: tuple, rules: tuple, by_application: frozenset[int]) -> Iterator[tuple[list | None, list, list]]:
    """(users, their changes, the changes that theirs are counted against); first None, those who hold nothing."""
    kinds, applications, holdings = block
    judge = _Judge(rules, kinds)
    inside = {place: _bits(positions) for place, positions in applications}
    held, everybody = [], {}
    numbers_by_user: dict[int, list[int]] = {}
    for users, facts in holdings:
        bits_by_fact = _bits_by_fact(facts, by_application, inside, judge.whole)
        if users is None:
            everybody = bits_by_fact
            continue
        for user in users:
            numbers_by_user.setdefault(user, []).append(len(held))
        held.append(bits_by_fact)
    basis = judge.changes([everybody])
    yield None, basis, [(0, 0)] * len(rules)
    # members of the same groups share one verdict
    users_by_numbers: dict[tuple[int, ...], list[int]] = {}
    for user, numbers in numbers_by_user.items():
        users_by_numbers.setdefault(tuple(numbers), []).append(user)
    for numbers, users in users_by_numbers.items():
        yield users, judge.changes([everybody, *(held[number] for number in numbers)]), basis


class _Judge:
    """Decides every rule for the entities of its kind in one block."""

    def __init__(self, rules: tuple, kinds: list[tuple[str, int, int]]):
        masks = {kind: ((1 << count) - 1) << first for kind, first, count in kinds}
        self.whole = (1 << sum(count for _, _, count in kinds)) - 1
        numbers: dict[tuple, int] = {}
        self._rules = [(masks.get(kind, 0), *(numbers.setdefault(asked, len(numbers)) for asked in both))
                       for kind, *both in rules]
        self._requirements = list(numbers)

    def changes(self, holdings: list[dict[int, int]]) -> list[Change]:
        held: dict[int, int] = {}
        for bits_by_fact in holdings:
            for fact, bits in bits_by_fact.items():
                held[fact] = held.get(fact, 0) | bits
        met: dict[int, int] = {}
        return [self._change(rule, held, met) for rule in self._rules]

    def _change(self, rule: tuple[int, int, int], held: dict[int, int], met: dict[int, int]) -> Change:
        mask, *both = rule
        if not mask:
            return 0, 0
        for number in both:
            if number not in met:
                met[number] = self._met(self._requirements[number], held)
        before, after = (met[number] for number in both)
        differs = (before ^ after) & mask
        return differs & after, differs & before

    def _met(self, requirement: tuple, held: dict[int, int]) -> int:
        """The entities for which it is met. Raises ValueError for a word that it does not know."""
        word, parts = requirement
        if word == "all":
            bits = self.whole
            for part in parts:
                bits &= self._met(part, held)
        elif word == "any":
            bits = 0
            for part in parts:
                bits |= self._met(part, held)
        elif word == "held":
            bits = 0
            for fact in parts:
                bits |= held.get(fact, 0)
        else:
            raise ValueError(f"`{word}` is no requirement")
        return bits


def _bits_by_fact(
    held: list[tuple[int, int]], by_application: frozenset[int], inside: dict[int, int], whole: int
) -> dict[int, int]:
    positions: dict[int, list[int]] = {}
    bits_by_fact: dict[int, int] = {}
    for fact, place in held:
        if place == EVERYWHERE:
            bits_by_fact[fact] = whole
        elif fact in by_application:
            bits_by_fact[fact] = bits_by_fact.get(fact, 0) | inside[place]
        else:
            positions.setdefault(fact, []).append(place)
    for fact, places in positions.items():
        bits_by_fact[fact] = bits_by_fact.get(fact, 0) | _bits(places)
    return bits_by_fact


def _bits(positions: list[int]) -> int:
    row = bytearray((max(positions) >> 3) + 1)
    for position in positions:
        row[position >> 3] |= 1 << (position & 7)
    return int.from_bytes(row, "little")


def _as_words(bits: int) -> list[int]:
    length = -(-bits.bit_length() // WORD_BITS)
    return memoryview(bits.to_bytes(length * WORD_BITS // 8, "little")).cast("q").tolist()


def _blocks(columns: tuple[pa.Array, ...]) -> Iterator[tuple[list, list, list]]:
    """Of each block its kinds (name, first position, count), applications (id, positions) and holdings (users, held)."""
    for kinds, applications, holdings in zip(*columns, strict=True):
        yield (_tuples(kinds, "kind", "first", "count"), _tuples(applications, "place", "positions"), _holdings(holdings))


def _tuples(scalar: pa.ListScalar, *names: str) -> list[tuple]:
    return list(zip(*(scalar.values.field(name).to_pylist() for name in names), strict=True)) if scalar.is_valid else []


def _holdings(scalar: pa.ListScalar) -> list[tuple]:
    if not scalar.is_valid:
        return []
    users = scalar.values.field("users").to_pylist()
    return list(zip(users, (_tuples(held, "fact", "place") for held in scalar.values.field("held")), strict=True))
