"""Count the answers that change, by holder and by bucket: a rule with a namespace, or a rule alone.

The counts of a user are the sum of three parts:

- The answers that change for every user, also without a grant, are counted once, for everyone.
- At a target where at most one group holds facts, the answer is evaluated once for that group, and once for
  each user with direct grants. The counts of a group apply to each of its members; `merge` expands them to
  users.
- Targets with an overlap are evaluated with bits by user: two groups hold a fact there, or a principal holds
  a fact on the whole subtree.

The counts of groups are differences from those of everyone. The counts of users are differences from those of
everyone and of the user's groups.
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
    changed_targets,
    group_rules,
    read_units,
    user_chunks,
)
from analytics.spark.engine.facts import FactBits, FactEntries, find_entries
from analytics.spark.engine.layout import WORD_BITS, Unit, WordLayout, concatenated_ranges
from analytics.spark.engine.members import EVERYONE, Directory, DirectoryBroadcast, group_indexes
from analytics.spark.engine.rows import NONE, Array

cloudpickle.register_pickle_by_value(sys.modules[__name__])

# The counts of everyone have no user.
COUNTS = "is_everyone boolean, user_id bigint, subtree bigint, rule int, gained bigint, lost bigint"


class HolderKind(IntEnum):
    """The users that a count applies to: one user, each member of a group, or every user."""

    USER = 0
    GROUP = 1
    EVERYONE = 2


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """How many answers change, for one type of holder.

    holders: the user index or group index of each count; zeros for everyone.
    segments: the segment of each count. If counts are not by subtree, one segment stands for all segments of
    its kind.
    lost: None if no permission can be lost.
    """

    holder: HolderKind
    unit: Unit
    holders: Array
    segments: Array
    rules: Array
    gained: Array
    lost: Array | None


def count_changes(rules: CompiledRules, broadcast: DirectoryBroadcast) -> BatchFunction:
    """Return a function that turns tenant rows into COUNTS by user.

    The counts of groups are expanded to their members.
    """

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        directory = Directory.load(broadcast)
        for counts in count_units(batches, rules, directory, by_subtree=True):
            users, rows = expand_holders(counts, directory)
            lost = (
                np.zeros(len(users), np.int64) if counts.lost is None else counts.lost[rows].astype(np.int64)
            )
            is_everyone = counts.holder == HolderKind.EVERYONE
            yield pa.record_batch(
                {
                    "is_everyone": np.full(len(users), is_everyone),
                    "user_id": users if is_everyone else directory.user_ids[users],
                    "subtree": counts.unit.segment_subtree[counts.segments[rows]],
                    "rule": counts.rules[rows].astype(np.int32),
                    "gained": counts.gained[rows].astype(np.int64),
                    "lost": lost,
                }
            )

    return count


def expand_holders(counts: Counts, directory: Directory) -> tuple[Array, Array]:
    """Return (user indexes, rows of `counts`).

    Each count of a group is repeated for the members of the group.
    """
    if counts.holder != HolderKind.GROUP:
        return counts.holders, np.arange(len(counts.holders))
    members, bounds = directory.members_by_group
    sizes = bounds[counts.holders + 1] - bounds[counts.holders]
    return members[concatenated_ranges(bounds[counts.holders], sizes)], np.repeat(
        np.arange(len(sizes)), sizes
    )


def count_units(
    batches: Iterator[pa.RecordBatch], rules: CompiledRules, directory: Directory, *, by_subtree: bool
) -> Iterator[Counts]:
    """Yield the counts of every unit of a partition. by_subtree: by segment; otherwise over all subtrees of a
    unit.
    """
    for unit, rows in read_units(batches, directory):
        holdings = UnitHoldings(unit, find_entries(unit, rows, rules, directory), directory)
        groups = list(group_rules(unit, rules))
        for group in groups:
            yield from _RuleGroupCounter(unit, holdings, group, by_subtree).count_principals()
        yield from _count_overlaps(unit, holdings, groups, directory, by_subtree)


class UnitHoldings:
    """The facts that principals hold at the positions of a unit.

    has_overlap: by position, whether users may hold facts there through two groups, or on the whole subtree.
        These positions are evaluated by user; all other attributes are about the other positions.
    everyone_facts: by fact and position, whether all users hold the fact.
    principal, position, segment: those of each pair of a principal and a position where it holds a fact,
    sorted by both.
    baseline_facts: by fact and pair, the facts that the users of the pair hold without the grants of the
        pair: the facts of everyone, and for a pair of a user the facts of the user's groups.
    held_facts: by fact and pair, all facts of the pair, including the baseline.
    """

    def __init__(self, unit: Unit, entries: list[FactEntries], directory: Directory):
        self.entries = entries
        self._position_count = unit.word_count * WORD_BITS
        principal = _concatenate([fact_entries.principal for fact_entries in entries])
        position = _concatenate([fact_entries.position for fact_entries in entries])
        fact = np.repeat(np.arange(len(entries)), [len(fact_entries.principal) for fact_entries in entries])
        self.everyone_facts = self._fact_table(len(entries), fact, position, principal == EVERYONE)
        group_by_position = np.full(self._position_count, NONE)
        group_by_position[position[principal < EVERYONE]] = group_indexes(principal)
        self.has_overlap = self._find_overlaps(unit, principal, position, group_by_position)
        is_group = (principal < EVERYONE) & ~self.has_overlap[position]
        group_facts = self._fact_table(len(entries), fact, position, is_group)
        selected = ~self.has_overlap[position] & (principal != EVERYONE)
        self._set_pairs(
            principal[selected], position[selected], fact[selected], group_by_position, group_facts, directory
        )
        self.segment = unit.segments_at(self.position)

    def _fact_table(self, fact_count: int, fact: Array, position: Array, selected: Array) -> Array:
        """Return, for each fact and position, whether a selected entry has both."""
        table = np.zeros((fact_count, self._position_count), bool)
        table[fact[selected], position[selected]] = True
        return table

    def _find_overlaps(
        self, unit: Unit, principal: Array, position: Array, group_by_position: Array
    ) -> Array:
        has_subtree_holder = np.zeros(len(unit.segment_kind), bool)
        for fact_entries in self.entries:
            has_subtree_holder |= np.isin(
                unit.segment_subtree, [subtree for _, subtree in fact_entries.subtree_holders]
            )
        has_overlap = np.repeat(has_subtree_holder, (unit.segment_end - unit.segment_begin) * WORD_BITS)
        groups, group_positions = group_indexes(principal), position[principal < EVERYONE]
        has_overlap[group_positions[group_by_position[group_positions] != groups]] = True
        return has_overlap

    def _set_pairs(
        self,
        principal: Array,
        position: Array,
        fact: Array,
        group_by_position: Array,
        group_facts: Array,
        directory: Directory,
    ) -> None:
        # Principal numbers of groups are negative; keys are not.
        fact_count, offset = max(1, len(self.entries)), directory.group_count + 1
        # One sort of plain numbers takes a fraction of the time of a sort by three keys.
        keys = np.sort(((principal + offset) * self._position_count + position) * fact_count + fact)
        pair_key, fact = divide(keys, fact_count)
        is_first = np.diff(pair_key, prepend=NONE) != 0
        principal, self.position = divide(pair_key[is_first], max(1, self._position_count))
        self.principal = principal - offset
        self.baseline_facts = self.everyone_facts[:, self.position]
        user_pairs = np.nonzero(self.principal >= 0)[0]
        user_pairs = user_pairs[group_by_position[self.position[user_pairs]] != NONE]
        is_member = directory.are_members(
            self.principal[user_pairs], group_by_position[self.position[user_pairs]]
        )
        member_pairs = user_pairs[is_member]
        self.baseline_facts[:, member_pairs] |= group_facts[:, self.position[member_pairs]]
        self.held_facts = self.baseline_facts.copy()
        self.held_facts[fact, np.cumsum(is_first) - 1] = True


class _RuleGroupCounter:
    """Counts for one group of rules by holder and bucket.

    A bucket is a segment; if counts are not by subtree, it is all segments of a kind.
    """

    def __init__(self, unit: Unit, holdings: UnitHoldings, group: RuleGroup, by_subtree: bool):
        self._unit, self._holdings, self._group = unit, holdings, group
        kinds = unit.segment_kind[group.segments]
        is_first = np.ones(len(kinds), bool) if by_subtree else np.diff(kinds, prepend=NONE) != 0
        # by bucket: its first segment, which stands for it, and its rules
        self._segments, self._rules = group.segments[is_first], group.rules[:, is_first]
        self._bucket_by_segment = np.cumsum(is_first) - 1
        self.bucket_count = len(self._segments)

    def count_principals(self) -> Iterator[Counts]:
        """Yield the counts of everyone, and those of the principals at positions without overlap."""
        yield from self._count_everyone()
        holdings = self._holdings
        pairs, buckets = self._select_segments(holdings.segment)
        principals = holdings.principal[pairs]
        gained, lost = changed_targets(self._group, holdings.held_facts[:, pairs])
        baseline_gained, baseline_lost = changed_targets(self._group, holdings.baseline_facts[:, pairs])
        gained_difference = gained.astype(np.int64) - baseline_gained
        lost_difference = (
            None if lost is None or baseline_lost is None else lost.astype(np.int64) - baseline_lost
        )
        for holder, selected in (
            (HolderKind.GROUP, principals < EVERYONE),
            (HolderKind.USER, principals >= 0),
        ):
            # The pairs are sorted by principal and then by position, so pairs of one principal and bucket are
            # neighbours.
            begins = np.flatnonzero(
                (np.diff(principals[selected], prepend=np.iinfo(np.int64).min) != 0)
                | (np.diff(buckets[selected], prepend=NONE) != 0)
            )
            if len(begins):
                gained_counts = np.add.reduceat(gained_difference[selected], begins)
                lost_counts = (
                    None if lost_difference is None else np.add.reduceat(lost_difference[selected], begins)
                )
                holders = principals[selected][begins]
                yield from self._counts_by_rule(
                    holder,
                    group_indexes(holders) if holder == HolderKind.GROUP else holders,
                    buckets[selected][begins],
                    gained_counts,
                    lost_counts,
                )

    def _count_everyone(self) -> Iterator[Counts]:
        targets, buckets = self._select_segments(self._unit.segment)
        gained, lost = changed_targets(
            self._group, self._holdings.everyone_facts[:, self._unit.position[targets]]
        )
        gained_counts = np.bincount(buckets[gained], minlength=self.bucket_count)
        lost_counts = None if lost is None else np.bincount(buckets[lost], minlength=self.bucket_count)
        yield from self._counts_by_rule(
            HolderKind.EVERYONE,
            np.zeros(self.bucket_count, np.int64),
            np.arange(self.bucket_count),
            gained_counts,
            lost_counts,
        )

    def _select_segments(self, segments: Array) -> tuple[Array, Array]:
        """Return (the indexes of the segments that the group of rules covers, the bucket of each)."""
        first, last = int(self._group.segments[0]), int(self._group.segments[-1])
        indexes = np.nonzero((segments >= first) & (segments <= last))[0]
        return indexes, self._bucket_by_segment[segments[indexes] - first]

    def _counts_by_rule(
        self, holder: HolderKind, holders: Array, buckets: Array, gained: Array, lost: Array | None
    ) -> Iterator[Counts]:
        """Yield the counts that are not zero, once for each rule of the group."""
        for rule_by_bucket in self._rules:
            rules = rule_by_bucket[buckets]
            is_counted = (rules != NONE) & (gained != 0 if lost is None else (gained != 0) | (lost != 0))
            if is_counted.any():
                yield Counts(
                    holder,
                    self._unit,
                    holders[is_counted],
                    self._segments[buckets[is_counted]],
                    rules[is_counted],
                    gained[is_counted],
                    None if lost is None else lost[is_counted],
                )

    def prepare_overlaps(self, layout: WordLayout, facts: list[FactBits]) -> None:
        """Prepare to count the positions with overlap. layout: contains only these positions."""
        self._layout, self._facts = layout, facts
        words = np.append(layout.segment_begin[self._segments], layout.segment_end[self._group.segments[-1]])
        words -= layout.segment_begin[self._group.segments[0]]
        self._has_words = np.diff(words) > 0
        self._last_word = words[1:][self._has_words] - 1
        gained, lost = changed_bits(
            layout, facts, [fact.everyone_bits[None, :] for fact in facts], 1, self._group
        )
        self._everyone_gained = self._count_bits(gained)
        self._everyone_lost = None if lost is None else self._count_bits(lost)

    def count_overlaps(self, users: Array, fact_bits: list[Array]) -> Iterator[Counts]:
        """Yield the counts of these users at positions with overlap. fact_bits: by fact, a row of bits for
        each user.
        """
        gained_bits, lost_bits = changed_bits(self._layout, self._facts, fact_bits, len(users), self._group)
        gained = (self._count_bits(gained_bits) - self._everyone_gained).reshape(-1)
        lost = None if lost_bits is None else (self._count_bits(lost_bits) - self._everyone_lost).reshape(-1)
        nonzero = np.flatnonzero(gained if lost is None else (gained != 0) | (lost != 0))
        rows, buckets = divide(nonzero, self.bucket_count)
        if len(nonzero):
            yield from self._counts_by_rule(
                HolderKind.USER,
                users[rows],
                buckets,
                gained[nonzero],
                None if lost is None else lost[nonzero],
            )

    def _count_bits(self, bits: Array) -> Array:
        """Return the number of bits by row and bucket."""
        counts = np.zeros((len(bits), self.bucket_count), np.int32)
        # Subtracting running sums takes as long for many short segments as for a few long segments.
        running_sum = np.cumsum(np.bitwise_count(bits), axis=1, dtype=np.int32)
        counts[:, self._has_words] = np.diff(running_sum[:, self._last_word], axis=1, prepend=0)
        return counts


def _count_overlaps(
    unit: Unit, holdings: UnitHoldings, groups: list[RuleGroup], directory: Directory, by_subtree: bool
) -> Iterator[Counts]:
    """Yield the counts of users at the positions with overlap."""
    if not holdings.has_overlap.any():
        return
    layout, new_position = unit.subset(holdings.has_overlap)
    facts = [
        FactBits(directory, layout, fact_entries.subset(holdings.has_overlap, new_position))
        for fact_entries in holdings.entries
    ]
    counters = [_RuleGroupCounter(unit, holdings, group, by_subtree) for group in groups]
    for counter in counters:
        counter.prepare_overlaps(layout, facts)
    is_evaluated = np.zeros(directory.user_count, bool)
    for fact in facts:
        fact.mark_holders(is_evaluated)
    words_per_user = sum(fact.word_count for fact in facts) + sum(
        counter.bucket_count for counter in counters
    )
    for users in user_chunks(np.nonzero(is_evaluated)[0], words_per_user):
        fact_bits = [fact.user_bits(users) for fact in facts]
        for counter in counters:
            yield from counter.count_overlaps(users, fact_bits)


def _concatenate(columns: list[Array]) -> Array:
    # A rule set without facts has no columns.
    return np.concatenate([np.empty(0, np.int64), *columns])


def divide(numbers: Array, divisor: int) -> tuple[Array, Array]:
    """Return (quotients, remainders). np.divmod divides twice, and is several times slower."""
    quotients = numbers // divisor
    return quotients, numbers - quotients * divisor
