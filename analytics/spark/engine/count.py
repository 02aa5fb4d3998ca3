"""Count the answers that change, by holder, rule and namespace (or over all namespaces).

The counts of a user are a sum. At a target that grants of one principal reach, the answer is evaluated once for the principal:
a group's counts then stand for each of its members, and are only expanded to users when the result is merged (see `merge`).
Bits by user are only made of the targets that two groups reach, or that lie in a family on which a fact is held as a whole.
What every user gets without any grant is counted for everyone, and all other counts are differences from that.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle

from analytics.spark.batches import BatchFunction
from analytics.spark.engine.compiled import CompiledRules
from analytics.spark.engine.evaluate import (
    RuleGroup,
    changed_bits,
    chunk_users,
    evaluate_targets,
    group_rules,
    read_units,
)
from analytics.spark.engine.facts import FactBits, FactEntries, find_entries
from analytics.spark.engine.layout import WORD_BITS, Unit, WordLayout, ranges
from analytics.spark.engine.members import EVERYONE, Directory, Shared, groups_of
from analytics.spark.engine.rows import NONE, Array

cloudpickle.register_pickle_by_value(sys.modules[__name__])

# The counts of everyone have no user.
COUNTS = "is_everyone boolean, user_id bigint, family bigint, rule int, gained bigint, lost bigint"


class Holder(IntEnum):
    """The type of holder of a count: a user, each member of a group, or every user."""

    USER = 0
    GROUP = 1
    EVERYONE = 2


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """How many answers change. holders: user or group indexes; zeros for everyone. lost: None where nothing can be lost.

    runs: a run of the unit for each count; where counts are not by namespace, one run stands for all of its kind.
    """

    holder: Holder
    unit: Unit
    holders: Array
    runs: Array
    rules: Array
    gained: Array
    lost: Array | None


def count_changes(rules: CompiledRules, shared: Shared) -> BatchFunction:
    """Return a function from tenant rows to COUNTS by user. The counts of groups are expanded to their members."""
    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        directory = Directory.load(shared)
        for counts in count_units(batches, rules, directory, by_family=True):
            users, which = expand_holders(counts, directory)
            lost = np.zeros(len(users), np.int64) if counts.lost is None else counts.lost[which].astype(np.int64)
            is_everyone = counts.holder == Holder.EVERYONE
            yield pa.record_batch({
                "is_everyone": np.full(len(users), is_everyone),
                "user_id": users if is_everyone else directory.user_ids[users],
                "family": counts.unit.run_family[counts.runs[which]], "rule": counts.rules[which].astype(np.int32),
                "gained": counts.gained[which].astype(np.int64), "lost": lost})

    return count


def expand_holders(counts: Counts, directory: Directory) -> tuple[Array, Array]:
    """Return (user indexes, rows of the counts): the counts of a group once for each of its members."""
    if counts.holder != Holder.GROUP:
        return counts.holders, np.arange(len(counts.holders))
    members, bounds = directory.members_by_group
    sizes = bounds[counts.holders + 1] - bounds[counts.holders]
    return members[ranges(bounds[counts.holders], sizes)], np.repeat(np.arange(len(sizes)), sizes)


def count_units(batches: Iterator[pa.RecordBatch], rules: CompiledRules, directory: Directory, *,
                by_family: bool) -> Iterator[Counts]:
    """Yield the counts of every unit of a partition. by_family: by run; otherwise over all families of a unit."""
    for unit, rows in read_units(batches, directory):
        holdings = Holdings(unit, find_entries(unit, rows, rules, directory), directory)
        groups = list(group_rules(unit, rules))
        for group in groups:
            yield from _Counter(unit, holdings, group, by_family).count_principals()
        yield from _count_overlaps(unit, holdings, groups, directory, by_family)


class Holdings:
    """The principals that hold each fact at each position of a unit.

    has_overlap: by position, whether users may hold facts there through two groups, or for a whole family. Such positions are
    evaluated by user. everyone: by fact and position, whether all users hold the fact. principal, position: the pairs of
    principal and position without overlap, sorted by principal. held: by fact and pair, the facts of the pair, including `basis`.
    basis: by fact and pair, the facts that the users of the pair hold without it: those of everyone, and for a user's own grant
    those through a group.
    """

    def __init__(self, unit: Unit, entries: list[FactEntries], directory: Directory):
        self.entries = entries
        self._positions = unit.words * WORD_BITS
        principal = _concatenate([each.principal for each in entries])
        position = _concatenate([each.position for each in entries])
        fact = np.repeat(np.arange(len(entries)), [len(each.principal) for each in entries])
        self.everyone = self._mask(len(entries), fact, position, principal == EVERYONE)
        group_at = np.full(self._positions, NONE)
        group_at[position[principal < EVERYONE]] = groups_of(principal)
        self.has_overlap = self._overlaps(unit, principal, position, group_at)
        group_held = self._mask(len(entries), fact, position, (principal < EVERYONE) & ~self.has_overlap[position])
        which = ~self.has_overlap[position] & (principal != EVERYONE)
        self._set_pairs(principal[which], position[which], fact[which], group_at, group_held, directory)
        self.run = unit.runs_at(self.position)

    def _mask(self, facts: int, fact: Array, position: Array, which: Array) -> Array:
        mask = np.zeros((facts, self._positions), bool)
        mask[fact[which], position[which]] = True
        return mask

    def _overlaps(self, unit: Unit, principal: Array, position: Array, group_at: Array) -> Array:
        is_wide = np.zeros(len(unit.run_kind), bool)
        for each in self.entries:
            is_wide |= np.isin(unit.run_family, [family for _, family in each.family_wide])
        has_overlap = np.repeat(is_wide, (unit.run_end - unit.run_begin) * WORD_BITS)
        groups, at = groups_of(principal), position[principal < EVERYONE]
        has_overlap[at[group_at[at] != groups]] = True
        return has_overlap

    def _set_pairs(self, principal: Array, position: Array, fact: Array, group_at: Array, group_held: Array,
                   directory: Directory) -> None:
        facts, below = max(1, len(self.entries)), directory.group_count + 1
        # One sort of plain numbers takes a fraction of the time of a sort by three keys.
        key, fact = divide(np.sort(((principal + below) * self._positions + position) * facts + fact), facts)
        is_first = np.diff(key, prepend=NONE) != 0
        principal, self.position = divide(key[is_first], max(1, self._positions))
        self.principal = principal - below
        self.basis = self.everyone[:, self.position]
        own = np.nonzero(self.principal >= 0)[0]
        own = own[group_at[self.position[own]] != NONE]
        own = own[directory.are_members(self.principal[own], group_at[self.position[own]])]
        self.basis[:, own] |= group_held[:, self.position[own]]
        self.held = self.basis.copy()
        self.held[fact, np.cumsum(is_first) - 1] = True


class _Counter:
    """Counts for one group of rules by holder and cell. A cell is a run; if counts are not by family, all runs of a kind."""

    def __init__(self, unit: Unit, holdings: Holdings, group: RuleGroup, by_family: bool):
        self._unit, self._holdings, self._group = unit, holdings, group
        kinds = unit.run_kind[group.runs]
        begins = np.ones(len(kinds), bool) if by_family else np.diff(kinds, prepend=NONE) != 0
        # the run that stands for each cell, its rules, and the cell of each run
        self._runs, self._rules = group.runs[begins], group.rules[:, begins]
        self._cell = np.cumsum(begins) - 1
        self.cells = len(self._runs)

    def count_principals(self) -> Iterator[Counts]:
        """Yield the counts of everyone, and those of the principals at positions without overlap."""
        holdings, unit = self._holdings, self._unit
        which, cell = self._select(unit.run)
        gained, lost = evaluate_targets(self._group, holdings.everyone[:, unit.position[which]])
        gained_count = np.bincount(cell[gained], minlength=self.cells)
        lost_count = None if lost is None else np.bincount(cell[lost], minlength=self.cells)
        yield from self._by_rule(Holder.EVERYONE, np.zeros(self.cells, np.int64), np.arange(self.cells), gained_count, lost_count)
        which, cell = self._select(holdings.run)
        principal = holdings.principal[which]
        gained, lost = evaluate_targets(self._group, holdings.held[:, which])
        basis_gained, basis_lost = evaluate_targets(self._group, holdings.basis[:, which])
        gained_difference = gained.astype(np.int64) - basis_gained
        lost_difference = None if lost is None or basis_lost is None else lost.astype(np.int64) - basis_lost
        for holder, some in ((Holder.GROUP, principal < EVERYONE), (Holder.USER, principal >= 0)):
            # By principal, and by position in each: equal principals and cells are neighbours.
            first = np.flatnonzero((np.diff(principal[some], prepend=np.iinfo(np.int64).min) != 0)
                                   | (np.diff(cell[some], prepend=NONE) != 0))
            if len(first):
                gained_count = np.add.reduceat(gained_difference[some], first)
                lost_count = None if lost_difference is None else np.add.reduceat(lost_difference[some], first)
                holders = principal[some][first]
                yield from self._by_rule(holder, groups_of(holders) if holder == Holder.GROUP else holders, cell[some][first],
                                         gained_count, lost_count)

    def _select(self, run: Array) -> tuple[Array, Array]:
        """Return (a mask of the runs that are in the group, the cells of those runs)."""
        first, last = int(self._group.runs[0]), int(self._group.runs[-1])
        which = np.nonzero((run >= first) & (run <= last))[0]
        return which, self._cell[run[which] - first]

    def _by_rule(self, holder: Holder, holders: Array, cell: Array, gained: Array, lost: Array | None) -> Iterator[Counts]:
        """Yield the counts that are not zero, once for each rule of the group."""
        for rules in self._rules:
            rule = rules[cell]
            is_counted = (rule != NONE) & (gained != 0 if lost is None else (gained != 0) | (lost != 0))
            if is_counted.any():
                yield Counts(holder, self._unit, holders[is_counted], self._runs[cell[is_counted]], rule[is_counted],
                             gained[is_counted], None if lost is None else lost[is_counted])

    def open_overlaps(self, layout: WordLayout, facts: list[FactBits]) -> None:
        """Prepare to count the positions with overlap. layout: contains only these positions."""
        self._layout, self._facts = layout, facts
        words = np.append(layout.run_begin[self._runs], layout.run_end[self._group.runs[-1]])
        words -= layout.run_begin[self._group.runs[0]]
        self._has_words = np.diff(words) > 0
        self._last_word = words[1:][self._has_words] - 1
        gained, lost = changed_bits(layout, facts, [fact.everyone[None, :] for fact in facts], 1, self._group)
        self._everyone_gained = self._count_bits(gained)
        self._everyone_lost = None if lost is None else self._count_bits(lost)

    def count_overlaps(self, users: Array, held: list[Array]) -> Iterator[Counts]:
        """Yield the counts of these users at positions with overlap. held: by fact, their bits."""
        gained_bits, lost_bits = changed_bits(self._layout, self._facts, held, len(users), self._group)
        gained = (self._count_bits(gained_bits) - self._everyone_gained).reshape(-1)
        lost = None if lost_bits is None else (self._count_bits(lost_bits) - self._everyone_lost).reshape(-1)
        where = np.flatnonzero(gained if lost is None else (gained != 0) | (lost != 0))
        user, cell = divide(where, self.cells)
        if len(where):
            yield from self._by_rule(Holder.USER, users[user], cell, gained[where], None if lost is None else lost[where])

    def _count_bits(self, bits: Array) -> Array:
        """Return the number of bits by row and cell."""
        counts = np.zeros((len(bits), self.cells), np.int32)
        # Differences of a running sum take as long for many short runs as for a few long ones.
        so_far = np.cumsum(np.bitwise_count(bits), axis=1, dtype=np.int32)
        counts[:, self._has_words] = np.diff(so_far[:, self._last_word], axis=1, prepend=0)
        return counts


def _count_overlaps(unit: Unit, holdings: Holdings, groups: list[RuleGroup], directory: Directory,
                    by_family: bool) -> Iterator[Counts]:
    """Yield the counts of users at the positions where they may hold facts through two groups."""
    if not holdings.has_overlap.any():
        return
    layout, moved = unit.subset(holdings.has_overlap)
    facts = [FactBits(directory, layout, each.subset(holdings.has_overlap, moved)) for each in holdings.entries]
    counters = [_Counter(unit, holdings, group, by_family) for group in groups]
    for counter in counters:
        counter.open_overlaps(layout, facts)
    is_evaluated = np.zeros(directory.user_count, bool)
    for fact in facts:
        fact.mark_holders(is_evaluated)
    width = sum(fact.width for fact in facts) + sum(counter.cells for counter in counters)
    for users in chunk_users(np.nonzero(is_evaluated)[0], width):
        held = [fact.of(users) for fact in facts]
        for counter in counters:
            yield from counter.count_overlaps(users, held)


def _concatenate(columns: list[Array]) -> Array:
    # A rule set without facts has no columns.
    return np.concatenate([np.empty(0, np.int64), *columns])


def divide(numbers: Array, by: int) -> tuple[Array, Array]:
    """Return (quotients, remainders). np.divmod divides twice, and is several times slower."""
    quotients = numbers // by
    return quotients, numbers - quotients * by
