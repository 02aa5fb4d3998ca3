"""Two laws over the units of a part: how many answers differ, for whom, by family or over all of them.

Where the grants of one principal alone count, the answers of everybody whom they reach turn alike: they are judged once, for the
principal, and added up for the members. Rows of bits (analytics.spark.units) are only made of the entities of which a user may
hold something in two ways, which are few. Those who hold nothing have counts of their own.
"""

import sys
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle

from analytics.spark.units import (
    EVERYBODY,
    NOTHING,
    WORD_BITS,
    Entries,
    FactRows,
    Layout,
    Members,
    Part,
    Unit,
    groups_in,
    rows_from,
)
from analytics.spark.verdicts import (
    NEVER,
    BatchFunction,
    Law,
    Sort,
    change,
    entries_by_fact,
    met,
    opened,
    sorts_of,
    users_at_once,
)

cloudpickle.register_pickle_by_value(sys.modules[__name__])

# everybody: those who hold nothing; the counts of every other user say how they differ from theirs
COUNTS = "is_everybody boolean, user_id long, family long, rule int, gained long, lost long"


def changes_counted(law: Law) -> BatchFunction:
    """Rows of a part -> COUNTS, where anything changes."""
    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part, unit, everybody, users, (runs, rules, at, gained, lost) in counts(batches, law, is_by_family=True):
            yield pa.record_batch({
                "is_everybody": np.full(len(users), everybody), "user_id": part.user_ids[users] if not everybody else users,
                "family": unit.run_family[runs][at], "rule": rules.astype(np.int32)[at], "gained": gained.astype(np.int64),
                "lost": np.zeros(len(users), np.int64) if lost is None else lost.astype(np.int64)})

    return counted


def counts(batches: Iterator[pa.RecordBatch], law: Law, *, is_by_family: bool):
    """(part, unit, is_everybody, users, (runs, rules, at, gained, lost)) of what changes: by row a user's index, at which of the
    runs and their rules it is, and the counts.

    is_by_family: by run of the unit; otherwise over all families, each told as one of the runs. lost: None where nothing is.
    """
    for part, unit, rows in opened(batches):
        entries = entries_by_fact(unit, rows, law)
        everybody = _held_by_everybody(unit, entries)
        is_shared = _shared(part, unit, entries)
        layout, moved = unit.thinned(is_shared)
        facts = [FactRows(part, layout, each.at(is_shared, moved)) for each in entries]
        alone = _Alone(part, unit, entries, is_shared, everybody)
        tallies = [_Tally(unit, layout, facts, alone, sort, is_by_family) for sort in sorts_of(unit, law)]
        for tally in tallies:
            yield from _told_of(part, unit, None, tally, tally.of_nobody(unit, everybody))
        is_judged = alone.is_holder
        for fact in facts:
            fact.mark_holders(is_judged)
        width = sum(fact.width for fact in facts) + sum(tally.width for tally in tallies)
        for users in users_at_once(np.nonzero(is_judged)[0], width):
            held = [fact.of(users) for fact in facts]
            for tally in tallies:
                yield from _told_of(part, unit, users, tally, tally.of(users, held))


def _shared(part: Part, unit: Unit, entries: list[Entries]) -> np.ndarray:
    """By position: whether there may be a user whom grants of two principals reach there; a doubt costs time, and no answer."""
    run_words = unit.run_last - unit.run_word
    is_wide = np.zeros(len(unit.run_kind), bool)
    for each in entries:
        is_wide |= np.isin(unit.run_family, [family for _, family in each.wide])
    is_shared = np.repeat(is_wide, run_words * WORD_BITS)
    principal, position = (_joined([getattr(each, name) for each in entries]) for name in ("principal", "position"))
    groups, at = groups_in(principal), position[principal < EVERYBODY]
    group_at = np.full(len(is_shared), NOTHING)
    group_at[at] = groups
    is_shared[at[group_at[at] != groups]] = True
    rows = np.nonzero((principal >= 0) & (group_at[position] != NOTHING) & ~is_shared[position])[0]
    at = position[rows]
    is_shared[at[part.may_be_members(principal[rows], group_at[at])]] = True
    return is_shared


def _joined(columns: list[np.ndarray]) -> np.ndarray:
    # a law that looks at no grants has none
    return np.concatenate([np.empty(0, np.int64), *columns])


def _held_by_everybody(unit: Unit, entries: list[Entries]) -> np.ndarray:
    """By fact and position."""
    held = np.zeros((len(entries), unit.words * WORD_BITS), bool)
    for fact, each in enumerate(entries):
        held[fact, each.position[each.principal == EVERYBODY]] = True
    return held


class _Alone:
    """What one principal holds where no user is reached by two. principal, position: of each, groups first, then by user.
    held: by fact. basis: likewise what everybody holds there. is_holder: of all users by index, whom it reaches."""

    def __init__(self, part: Part, unit: Unit, entries: list[Entries], is_shared: np.ndarray, everybody: np.ndarray):
        meant = [np.nonzero(~is_shared[each.position] & (each.principal != EVERYBODY))[0] for each in entries]
        principal, position = (_joined([getattr(each, name)[rows] for each, rows in zip(entries, meant, strict=True)])
                               for name in ("principal", "position"))
        fact = np.repeat(np.arange(len(entries)), [len(rows) for rows in meant])
        below, most = part.groups + 1, max(1, len(entries))
        # numbers alone are sorted in a fraction of the time that their order takes
        both, fact = split(np.sort(((principal + below) * len(is_shared) + position) * most + fact), most)
        is_first = np.diff(both, prepend=NOTHING) != 0
        self.principal, self.position = split(both[is_first], max(1, len(is_shared)))
        self.principal -= below
        self.run = unit.run_of(self.position)
        self.basis = everybody[:, self.position]
        self.held = self.basis.copy()
        self.held[fact, np.cumsum(is_first) - 1] = True
        self.members = Members(part, [groups_in(self.principal)])
        self.is_holder = np.zeros(len(part.user_ids), bool)
        self.is_holder[self.members.users] = True
        self.is_holder[self.principal[self.principal >= 0]] = True


class _Tally:
    """How many answers of a sort of rules turn, by user and place: a run, or all runs of a kind, each told as one of the runs.

    width: of the counts of a user, in words.
    """

    def __init__(self, unit: Unit, layout: Layout, facts: list[FactRows], alone: _Alone, sort: Sort, is_by_family: bool):
        self.sort, self._layout, self._facts, self._alone = sort, layout, facts, alone
        kinds = unit.run_kind[sort.runs]
        begins = np.ones(len(kinds), bool) if is_by_family else np.diff(kinds, prepend=NOTHING) != 0
        # what is told as each place, and the place of each run
        self.runs, self.rules = sort.runs[begins], sort.rules[:, begins]
        self._place = np.cumsum(begins) - 1
        self.width = len(self.runs)
        words = np.append(layout.run_word[self.runs], layout.run_last[sort.runs[-1]]) - layout.run_word[sort.runs[0]]
        self._is_there = np.diff(words) > 0
        self._last_word = words[1:][self._is_there] - 1
        nobody = change(layout, facts, [fact.everybody[None, :] for fact in facts], 1, sort)
        self._nobody = [None if bits is None else self._ones(bits) for bits in nobody]
        self._alone_add()

    def _mine(self, run: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(which of these lie in runs of the sort, the places of those)."""
        first, last = int(self.sort.runs[0]), int(self.sort.runs[-1])
        mine = np.nonzero((run >= first) & (run <= last))[0]
        return mine, self._place[run[mine] - first]

    def _alone_add(self) -> None:
        alone = self._alone
        mine, place = self._mine(alone.run)
        principal = alone.principal[mine]
        turned = _turned(self.sort, alone.held[:, mine]), _turned(self.sort, alone.basis[:, mine])
        self._groups, self._own = [], []
        for one, basis in zip(*turned, strict=True):
            by_principal = None if one is None else one.astype(np.int32) - basis
            self._groups.append(None if one is None else self._table(principal, place, by_principal))
            self._own.append(None if one is None else _differing(principal, place, by_principal))

    def _table(self, principal: np.ndarray, place: np.ndarray, counted: np.ndarray) -> np.ndarray:
        of_group = principal < EVERYBODY
        row = self._alone.members.row_of[groups_in(principal)]
        table = np.zeros((self._alone.members.rows, self.width), np.int32)
        np.add.at(table.reshape(-1), row * self.width + place[of_group], counted[of_group])
        return table

    def of_nobody(self, unit: Unit, everybody: np.ndarray) -> list[np.ndarray | None]:
        """gained, lost of those who hold nothing, over all targets, as one row."""
        mine, place = self._mine(unit.run)
        return [None if turned is None else np.bincount(place[turned], minlength=self.width)[None, :]
                for turned in _turned(self.sort, everybody[:, unit.position[mine]])]

    def of(self, users: np.ndarray, held: list[np.ndarray]) -> list[np.ndarray | None]:
        """gained, lost: by user and place, less those of nobody. held: by fact, of these users."""
        row_of, counted = rows_from(users), []
        changed = change(self._layout, self._facts, held, len(users), self.sort)
        for bits, nobody, table, own in zip(changed, self._nobody, self._groups, self._own, strict=True):
            if bits is None:
                counted.append(None)
                continue
            found = self._alone.members.joined(table, np.add, users, row_of)
            if bits.shape[1]:
                found += self._ones(bits)
                found -= nobody
            user, place, count = own
            begin, end = np.searchsorted(user, [users[0], users[-1] + 1])
            at = row_of[user[begin:end] - users[0]] * self.width + place[begin:end]
            np.add.at(found.reshape(-1), at, count[begin:end])
            counted.append(found)
        return counted

    def _ones(self, bits: np.ndarray) -> np.ndarray:
        ones = np.zeros((len(bits), self.width), np.int32)
        # what a run adds to the sum so far: it takes as long for many short runs as for a few long ones
        so_far = np.cumsum(np.bitwise_count(bits), axis=1, dtype=np.int32)
        ones[:, self._is_there] = np.diff(so_far[:, self._last_word], axis=1, prepend=0)
        return ones


def _turned(sort: Sort, held: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """gained, lost. held: by fact, where; likewise what comes back. lost: None where nothing can be."""
    becomes = _is_met(sort.after, held)
    if sort.before == NEVER:
        return becomes, None
    was = _is_met(sort.before, held)
    return becomes & ~was, was & ~becomes


def _is_met(requirement: tuple, held: np.ndarray) -> np.ndarray:
    return np.broadcast_to(met(requirement, held) != 0, held.shape[1:])


def _differing(principal: np.ndarray, place: np.ndarray, counted: np.ndarray) -> tuple[np.ndarray, ...]:
    """user, place, count: where users of their own make a difference, by user."""
    rows = np.nonzero((principal >= 0) & (counted != 0))[0]
    return principal[rows], place[rows], counted[rows]


def _told_of(part: Part, unit: Unit, users: np.ndarray | None, tally: _Tally, counted: list[np.ndarray | None]):
    """As counts, of each rule."""
    gained, lost = counted
    # in one dimension it is found in half the time
    where = np.flatnonzero(gained if lost is None else (gained != 0) | (lost != 0))
    if not len(where):
        return
    user, at = split(where, tally.width)
    found = gained.reshape(-1)[where], None if lost is None else lost.reshape(-1)[where]
    for rules in tally.rules:
        if (is_told := rules[at] != NOTHING).all():
            told, told_at, (more, less) = user, at, found
        else:
            told, told_at = user[is_told], at[is_told]
            more, less = (None if column is None else column[is_told] for column in found)
        if len(told):
            yield part, unit, users is None, told if users is None else users[told], (tally.runs, rules, told_at, more, less)


def split(numbers: np.ndarray, by: int) -> tuple[np.ndarray, np.ndarray]:
    """As divmod, which divides twice and one by one."""
    times = numbers // by
    return times, numbers - times * by
