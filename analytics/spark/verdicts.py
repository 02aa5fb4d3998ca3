"""Two laws over the units of a part: for whom does an answer differ, pair by pair.

The rules come as plain tuples `(kind, before, after)`, requirements over numbered facts (analytics.spark.law), and are judged on
rows of bits (analytics.spark.units), of many users at once.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle

from analytics.spark.units import (
    ALL_BITS,
    NO_BITS,
    NOTHING,
    ROWS_BYTES,
    WORD_BITS,
    Entries,
    FactForm,
    FactRows,
    Layout,
    Part,
    Unit,
    entries_of,
    part_of,
    units_of,
)

cloudpickle.register_pickle_by_value(sys.modules[__name__])

# of each user by itself
PAIRS = "user_id long, entity string, rule int, after boolean"
BATCH_ROWS = 100_000
# what nobody ever meets
NEVER = ("any", ())

Rule = tuple[int, tuple, tuple]
BatchFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class Law:
    """rules: each the number of a kind and what it asks before and after. facts: how grants make them true, by number."""

    rules: tuple[Rule, ...]
    facts: tuple[FactForm, ...]


@dataclass(frozen=True, slots=True)
class Sort:
    """Rules that ask for the same before and after, where their kinds are neighbours in a unit.

    runs: neighbours. rules: each by run the number of a rule that asks so of it, or NOTHING.
    """

    before: tuple
    after: tuple
    runs: np.ndarray
    rules: np.ndarray


def sorts_of(unit: Unit, law: Law) -> Iterator[Sort]:
    alike: dict[tuple, dict[int, list[int]]] = {}
    for number, (kind, before, after) in enumerate(law.rules):
        if kind != NOTHING:
            alike.setdefault((before, after), {}).setdefault(kind, []).append(number)
    for (before, after), rules in alike.items():
        by_kind = np.full((max(map(len, rules.values())), max(rules) + 1), NOTHING)
        for kind, numbers in rules.items():
            by_kind[: len(numbers), kind] = numbers
        found = np.nonzero(np.isin(unit.run_kind, list(rules)))[0]
        for runs in np.split(found, np.nonzero(np.diff(found) > 1)[0] + 1):
            if len(runs):
                yield Sort(before, after, runs, by_kind[:, unit.run_kind[runs]])


def entries_by_fact(unit: Unit, rows: dict, law: Law) -> list[Entries]:
    return [entries_of(unit, rows, number, fact) for number, fact in enumerate(law.facts)]


def users_at_once(users: np.ndarray, width: int) -> Iterator[np.ndarray]:
    """So many that what they hold stays near a core. width: of what is at hand for each, in words."""
    count = max(1, ROWS_BYTES // (8 * max(1, width)))
    return (users[first : first + count] for first in range(0, len(users), count))


def change(layout: Layout, facts: list[FactRows], held: list[np.ndarray], users: int,
           sort: Sort) -> tuple[np.ndarray, np.ndarray | None]:
    """gained, lost: by user, words of the runs. lost: None where nothing can be."""
    begin, end = int(layout.run_word[sort.runs[0]]), int(layout.run_last[sort.runs[-1]])
    # the words of a fact that no rule of these kinds asks for lie elsewhere, and are not looked at
    there = [bits[:, begin - fact.first : end - fact.first] for fact, bits in zip(facts, held, strict=True)]
    mask = layout.mask[begin:end]
    becomes = np.broadcast_to(met(sort.after, there), (users, end - begin))
    if sort.before == NEVER:
        return becomes & mask, None
    was = np.broadcast_to(met(sort.before, there), (users, end - begin))
    differs = (was ^ becomes) & mask
    return differs & becomes, differs & was


def met(requirement: tuple, held: Sequence[np.ndarray]) -> np.ndarray | np.uint64:
    """Where it is met. held: by fact, bits. Raises ValueError for a word that it does not know."""
    word, parts = requirement
    match word:
        case "all":
            return reduce(np.bitwise_and, (met(part, held) for part in parts)) if parts else ALL_BITS
        case "any":
            return reduce(np.bitwise_or, (met(part, held) for part in parts)) if parts else NO_BITS
        case "held":
            return reduce(np.bitwise_or, (held[fact] for fact in parts)) if parts else NO_BITS
    raise ValueError(f"`{word}` is no requirement")


def opened(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[Part, Unit, dict]]:
    """Each unit of the part that the batches hold, with its rows; nothing where there is none."""
    if sent := list(batches):
        part = part_of(sent)
        yield from ((part, unit, rows) for unit, rows in units_of(part))


def changes_spread(law: Law, *, each_user: bool) -> BatchFunction:
    """Rows of a part, with names -> PAIRS. each_user: also of those who hold nothing."""
    def spread(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part, unit, rows in opened(batches):
            facts = [FactRows(part, unit, entries) for entries in entries_by_fact(unit, rows, law)]
            is_judged = np.full(len(part.user_ids), each_user)
            for fact in facts:
                fact.mark_holders(is_judged)
            sorts = list(sorts_of(unit, law))
            for users in users_at_once(np.nonzero(is_judged)[0], sum(fact.width for fact in facts)):
                held = [fact.of(users) for fact in facts]
                for sort in sorts:
                    yield from _pairs(part, unit, users, sort, change(unit, facts, held, len(users), sort))

    return spread


def _pairs(part: Part, unit: Unit, users: np.ndarray, sort: Sort, changed: tuple) -> Iterator[pa.RecordBatch]:
    begin = int(unit.run_word[sort.runs[0]])
    for after, bits in zip((True, False), changed, strict=True):
        if bits is None:
            continue
        # so many users that a batch stays small
        at_once = max(1, BATCH_ROWS // max(1, bits.shape[1] * WORD_BITS // 8))
        for first in range(0, len(bits), at_once):
            some = np.ascontiguousarray(bits[first : first + at_once])
            user, bit = np.nonzero(np.unpackbits(some.view(np.uint8), axis=1, bitorder="little"))
            target = np.searchsorted(unit.position, bit + begin * WORD_BITS)
            run = np.searchsorted(unit.run_word[sort.runs], bit // WORD_BITS + begin, side="right") - 1
            for rules in sort.rules:
                told = np.nonzero(rules[run] != NOTHING)[0]
                if len(told):
                    yield pa.record_batch({
                        "user_id": part.user_ids[users[first + user[told]]],
                        "entity": part.names.take(pa.array(unit.name_at[target[told]])),
                        "rule": rules[run[told]].astype(np.int32), "after": np.full(len(told), after)})
