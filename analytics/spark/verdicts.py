"""Two laws over the units of a part: for whom does an answer differ, counted or pair by pair.

The rules come as plain tuples `(kind, before, after)`, requirements over numbered facts (analytics.spark.law), and are judged on
rows of bits (analytics.spark.units), of many users at once. Those who hold nothing have a row of their own.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle

from analytics.spark import units
from analytics.spark.units import ALL_BITS, NO_BITS, NOTHING, ROWS_BYTES, FactForm, FactRows, Part, Unit, part_of, units_of

cloudpickle.register_pickle_by_value(sys.modules[__name__])

# everybody: those who hold nothing; the counts of every other user say how they differ from theirs
COUNTS = "is_everybody boolean, user_id long, family long, rule int, gained long, lost long"
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
class Judged:
    """What rules of one sort change for some users: a row of words each, over the words of some runs of the unit.

    users: their indexes in the part; None for those who hold nothing. runs: neighbours. rules: each by run the number of a rule
    that changes this, or NOTHING. lost: None where nothing can be.
    """

    users: np.ndarray | None
    runs: np.ndarray
    rules: np.ndarray
    gained: np.ndarray
    lost: np.ndarray | None


@dataclass(frozen=True, slots=True)
class _Sort:
    """Rules that ask for the same before and after, where their kinds are neighbours in a unit. runs, rules: as Judged."""

    before: tuple
    after: tuple
    runs: np.ndarray
    rules: np.ndarray


def _sorts(unit: Unit, law: Law) -> Iterator[_Sort]:
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
                yield _Sort(before, after, runs, by_kind[:, unit.run_kind[runs]])


def judged(part: Part, unit: Unit, rows: dict, law: Law, *, each_user: bool = False) -> Iterator[Judged]:
    """First of those who hold nothing, then of all who hold a fact in the unit; each_user: of all users instead."""
    facts = [FactRows(part, unit, rows, number, fact) for number, fact in enumerate(law.facts)]
    sorts = list(_sorts(unit, law))
    nobody = [fact.everybody[None, :] for fact in facts]
    for sort in sorts:
        yield Judged(None, sort.runs, sort.rules, *_change(unit, facts, nobody, 1, sort))
    is_judged = np.full(len(part.user_ids), each_user)
    for fact in facts:
        fact.mark_holders(is_judged)
    users = np.nonzero(is_judged)[0]
    at_once = max(1, ROWS_BYTES // (8 * max(1, sum(fact.width for fact in facts))))
    for first in range(0, len(users), at_once):
        some = users[first : first + at_once]
        held = [fact.of(some) for fact in facts]
        for sort in sorts:
            yield Judged(some, sort.runs, sort.rules, *_change(unit, facts, held, len(some), sort))


def _change(unit: Unit, facts: list[FactRows], held: list[np.ndarray], users: int,
            sort: _Sort) -> tuple[np.ndarray, np.ndarray | None]:
    """gained, lost: by user, words of the runs."""
    begin, end = int(unit.run_word[sort.runs[0]]), int(unit.run_last[sort.runs[-1]])
    # the words of a fact that no rule of these kinds asks for lie elsewhere, and are not looked at
    there = [bits[:, begin - fact.first : end - fact.first] for fact, bits in zip(facts, held, strict=True)]
    mask = unit.mask[begin:end]
    becomes = np.broadcast_to(_met(sort.after, there), (users, end - begin))
    if sort.before == NEVER:
        return becomes & mask, None
    was = np.broadcast_to(_met(sort.before, there), (users, end - begin))
    differs = (was ^ becomes) & mask
    return differs & becomes, differs & was


def _met(requirement: tuple, held: list[np.ndarray]) -> np.ndarray | np.uint64:
    """The entities for which it is met, by user. Raises ValueError for a word that it does not know."""
    word, parts = requirement
    match word:
        case "all":
            return reduce(np.bitwise_and, (_met(part, held) for part in parts)) if parts else ALL_BITS
        case "any":
            return reduce(np.bitwise_or, (_met(part, held) for part in parts)) if parts else NO_BITS
        case "held":
            return reduce(np.bitwise_or, (held[fact] for fact in parts)) if parts else NO_BITS
    raise ValueError(f"`{word}` is no requirement")


def _opened(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[Part, Unit, dict]]:
    """Each unit of the part that the batches hold, with its rows; nothing where there is none."""
    if sent := list(batches):
        part = part_of(sent)
        yield from ((part, unit, rows) for unit, rows in units_of(part))


def changes_counted(law: Law) -> BatchFunction:
    """Rows of a part -> COUNTS, where anything changes."""
    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part, unit, everybody, users, (runs, rules, at, gained, lost) in counts(batches, law, is_by_family=True):
            yield pa.record_batch({
                "is_everybody": np.full(len(users), everybody), "user_id": part.user_ids[users] if not everybody else users,
                "family": unit.run_family[runs][at], "rule": rules.astype(np.int32)[at], "gained": gained.astype(np.int64),
                "lost": _or_none(lost, users).astype(np.int64)})

    return counted


def _or_none(lost: np.ndarray | None, users: np.ndarray) -> np.ndarray:
    return np.zeros(len(users), np.int32) if lost is None else lost


def counts(batches: Iterator[pa.RecordBatch], law: Law, *, is_by_family: bool):
    """(part, unit, is_everybody, users, (runs, rules, at, gained, lost)) of what changes: by row a user's index, at which of the
    runs and their rules it is, and the counts.

    is_by_family: by run of the unit; otherwise over all families, each told as one of the runs. lost: None where nothing is.
    """
    for part, unit, rows in _opened(batches):
        basis: dict[int, tuple] = {}
        for change in judged(part, unit, rows, law):
            runs, kinds = change.runs, unit.run_kind[change.runs]
            places = np.arange(len(runs)) if is_by_family else np.nonzero(np.diff(kinds, prepend=NOTHING))[0]
            begins = unit.run_word[runs[places]] - unit.run_word[runs[0]]
            counted = [None if bits is None else _ones(bits, begins) for bits in (change.gained, change.lost)]
            # a sort of rules is known by the first of them
            known = int(change.rules[0, 0]), int(runs[0])
            if change.users is None:
                basis[known] = counted
            else:
                counted = [None if found is None else found - of_nobody
                           for found, of_nobody in zip(counted, basis[known], strict=True)]
            gained, lost = counted
            # in one dimension it is found in half the time
            where = np.flatnonzero(gained if lost is None else (gained != 0) | (lost != 0))
            for rules in change.rules[:, places]:
                yield from _told_of(part, unit, change, where, (runs[places], rules), gained, lost)


def _told_of(part: Part, unit: Unit, change: Judged, where: np.ndarray, told: tuple, gained: np.ndarray, lost: np.ndarray | None):
    """As counts, of one rule of each run."""
    runs, rules = told
    user, at = split(where, len(runs))
    if (rules == NOTHING).any():
        is_told = rules[at] != NOTHING
        user, at, where = user[is_told], at[is_told], where[is_told]
    if len(user):
        users = user if change.users is None else change.users[user]
        yield part, unit, change.users is None, users, (
            runs, rules, at, gained.reshape(-1)[where], None if lost is None else lost.reshape(-1)[where])


def split(numbers: np.ndarray, by: int) -> tuple[np.ndarray, np.ndarray]:
    """As divmod, which divides twice and one by one."""
    times = numbers // by
    return times, numbers - times * by


def _ones(bits: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """By user and stretch of words."""
    return np.add.reduceat(np.bitwise_count(bits), begins, axis=1, dtype=np.int32)


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
        if bits is None:
            continue
        # so many users that a batch stays small
        at_once = max(1, BATCH_ROWS // max(1, bits.shape[1] * units.WORD_BITS // 8))
        for first in range(0, len(bits), at_once):
            some = np.ascontiguousarray(bits[first : first + at_once])
            user, bit = np.nonzero(np.unpackbits(some.view(np.uint8), axis=1, bitorder="little"))
            target = np.searchsorted(unit.position, bit + begin * units.WORD_BITS)
            run = np.searchsorted(unit.run_word[change.runs], bit // units.WORD_BITS + begin, side="right") - 1
            for rules in change.rules:
                told = np.nonzero(rules[run] != NOTHING)[0]
                if len(told):
                    yield pa.record_batch({
                        "user_id": part.user_ids[change.users[first + user[told]]],
                        "entity": part.names.take(pa.array(unit.name_at[target[told]])),
                        "rule": rules[run[told]].astype(np.int32), "after": np.full(len(told), after)})
