"""Two laws over the units of a part: for whom does an answer differ, counted or pair by pair.

The rules come as plain tuples `(kind, before, after)`, requirements over numbered facts (analytics.spark.law), and are judged on
rows of bits (analytics.spark.units), of many users at once. Those who hold nothing have a row of their own.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle

from analytics.spark import units
from analytics.spark.units import ALL_BITS, NO_BITS, ROWS_BYTES, FactForm, FactRows, Part, Unit, part_of, units_of

cloudpickle.register_pickle_by_value(sys.modules[__name__])

# everybody: those who hold nothing; the counts of every other user say how they differ from theirs
COUNTS = "is_everybody boolean, user_id long, family long, rule int, gained long, lost long"
# of each user by itself
PAIRS = "user_id long, entity string, rule int, after boolean"
BATCH_ROWS = 100_000

Rule = tuple[int, tuple, tuple]
BatchFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class Law:
    """rules: each the number of a kind and what it asks before and after. facts: how grants make them true, by number."""

    rules: tuple[Rule, ...]
    facts: tuple[FactForm, ...]


@dataclass(frozen=True, slots=True)
class Judged:
    """What one rule changes for some users: a row of words each, over the words of the rule's kind in the unit.

    users: their indexes in the part; None for those who hold nothing. runs: the unit's runs of that kind.
    """

    users: np.ndarray | None
    rule: int
    runs: np.ndarray
    gained: np.ndarray
    lost: np.ndarray


def judged(part: Part, unit: Unit, rows: dict, law: Law, *, each_user: bool = False) -> Iterator[Judged]:
    """First of those who hold nothing, then of all who hold a fact in the unit; each_user: of all users instead."""
    facts = [FactRows(part, unit, rows, number, fact) for number, fact in enumerate(law.facts)]
    asked = [(number, rule, found) for number, rule in enumerate(law.rules)
             if len(found := np.nonzero(unit.run_kind == rule[0])[0])]
    nobody = [fact.everybody[None, :] for fact in facts]
    for number, rule, found in asked:
        yield Judged(None, number, found, *_change(unit, facts, nobody, 1, rule, found))
    holders = np.unique(np.concatenate([np.empty(0, np.int64), *(fact.holders() for fact in facts)]))
    users = np.arange(len(part.user_ids)) if each_user else holders
    at_once = max(1, ROWS_BYTES // (8 * max(1, sum(fact.width for fact in facts))))
    for first in range(0, len(users), at_once):
        some = users[first : first + at_once]
        held = [fact.of(some) for fact in facts]
        for number, rule, found in asked:
            yield Judged(some, number, found, *_change(unit, facts, held, len(some), rule, found))


def _change(unit: Unit, facts: list[FactRows], held: list[np.ndarray], users: int, rule: Rule,
            found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """gained, lost: by user, words of the rule's kind."""
    begin, end = int(unit.run_word[found[0]]), int(unit.run_last[found[-1]])
    # the words of a fact that no rule of this kind asks for lie elsewhere, and are not looked at
    there = [bits[:, begin - fact.first : end - fact.first] for fact, bits in zip(facts, held, strict=True)]
    was, becomes = (np.broadcast_to(_met(asked, there), (users, end - begin)) for asked in rule[1:])
    differs = (was ^ becomes) & unit.mask[begin:end]
    return differs & becomes, differs & was


def _met(requirement: tuple, held: list[np.ndarray]) -> np.ndarray | np.uint64:
    """The entities for which it is met, by user. Raises ValueError for a word that it does not know."""
    word, parts = requirement
    match word:
        case "all":
            bits = ALL_BITS
            for part in parts:
                bits = bits & _met(part, held)
        case "any":
            bits = NO_BITS
            for part in parts:
                bits = bits | _met(part, held)
        case "held":
            bits = NO_BITS
            for fact in parts:
                bits = bits | held[fact]
        case _:
            raise ValueError(f"`{word}` is no requirement")
    return bits


def _opened(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[Part, Unit, dict]]:
    """Each unit of the part that the batches hold, with its rows; nothing where there is none."""
    if sent := list(batches):
        part = part_of(sent)
        yield from ((part, unit, rows) for unit, rows in units_of(part))


def changes_counted(law: Law) -> BatchFunction:
    """Rows of a part -> COUNTS, where anything changes."""
    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part, unit, everybody, users, change in counts(batches, law, per_run):
            run, rule, gained, lost = change
            yield pa.record_batch({
                "is_everybody": np.full(len(users), everybody), "user_id": part.user_ids[users] if not everybody else users,
                "family": unit.run_family[run], "rule": np.full(len(users), rule, np.int32), "gained": gained, "lost": lost})

    return counted


def counts(batches: Iterator[pa.RecordBatch], law: Law, counts_of: Callable):
    """(part, unit, is_everybody, users, (run, rule, gained, lost)) of what changes; users: their indexes, the changes by row."""
    for part, unit, rows in _opened(batches):
        basis = {}
        for change in judged(part, unit, rows, law):
            gained, lost = (counts_of(unit, change.runs, bits) for bits in (change.gained, change.lost))
            if change.users is None:
                basis[change.rule] = gained, lost
            else:
                gained, lost = gained - basis[change.rule][0], lost - basis[change.rule][1]
            user, run = np.nonzero((gained != 0) | (lost != 0))
            if len(user):
                users = user if change.users is None else change.users[user]
                yield part, unit, change.users is None, users, (change.runs[run], change.rule, gained[user, run], lost[user, run])


def per_run(unit: Unit, found: np.ndarray, bits: np.ndarray) -> np.ndarray:
    """By user and run."""
    ones = np.bitwise_count(bits)
    return np.add.reduceat(ones, unit.run_word[found] - unit.run_word[found[0]], axis=1, dtype=np.int64)


def summed(unit: Unit, found: np.ndarray, bits: np.ndarray) -> np.ndarray:
    """By user, over all runs."""
    return np.bitwise_count(bits).sum(axis=1, dtype=np.int64)[:, None]


def changes_spread(law: Law, *, each_user: bool) -> BatchFunction:
    """Rows of a part, with names -> PAIRS. each_user: also of those who hold nothing."""
    def spread(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part, unit, rows in _opened(batches):
            for change in judged(part, unit, rows, law, each_user=each_user):
                if change.users is not None:
                    yield from _pairs(part, unit, change)

    return spread


def _pairs(part: Part, unit: Unit, change: Judged) -> Iterator[pa.RecordBatch]:
    begin = int(unit.run_word[change.runs[0]])
    for after, bits in ((True, change.gained), (False, change.lost)):
        # so many users that a batch stays small
        at_once = max(1, BATCH_ROWS // max(1, bits.shape[1] * units.WORD_BITS // 8))
        for first in range(0, len(bits), at_once):
            some = np.ascontiguousarray(bits[first : first + at_once])
            user, bit = np.nonzero(np.unpackbits(some.view(np.uint8), axis=1, bitorder="little"))
            if len(user):
                target = np.searchsorted(unit.position, bit + begin * units.WORD_BITS)
                yield pa.record_batch({
                    "user_id": part.user_ids[change.users[first + user]],
                    "entity": part.names.take(pa.array(unit.name_at[target])),
                    "rule": np.full(len(user), change.rule, np.int32), "after": np.full(len(user), after)})
