"""Units of work and their layout: the targets of some subtrees as positions in words of bits.

A unit has several subtrees, or one block of a subtree that is too large for one unit. Its targets are ordered
by kind and subtree. The targets of one kind and subtree are a segment. Each segment starts with a new word,
and the segments of a kind are neighbours.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from analytics.spark.engine.directory import Directory, find_in
from analytics.spark.engine.rows import NONE, TARGET, Array, Rows

WORD_BITS = 64
# The number of targets in a unit. A larger subtree is split into blocks of about this size.
UNIT_ENTITIES = 32_768
ALL_BITS, NO_BITS = np.uint64(2**64 - 1), np.uint64(0)


class Unit:
    """The targets of one unit, and the holdings that count for them.

    target_row: the row of each target in the partition, in the order of positions. position: the position of
        each target.
    segment_kind, segment_subtree: by segment.
    segment_begin, segment_end: the first word of each segment, and the word after its last.
    mask: by word, the bits that stand for a target.
    holdings: the rows of active principals.
    """

    def __init__(self, partition: Rows, indexes: Array):
        """partition: its rows have principal numbers. indexes: the rows that belong to the unit."""
        rows = partition.select(indexes)
        is_target = rows.form == TARGET
        self.holdings = rows.select(~is_target & (rows.principal != NONE))
        targets = rows.select(is_target)
        order = np.lexsort((targets.subtree, targets.kind))
        targets, self.target_row = targets.select(order), indexes[is_target][order]
        is_first = np.append(True, (np.diff(targets.kind) != 0) | (np.diff(targets.subtree) != 0))
        begins = np.flatnonzero(is_first[: len(order)])
        target_counts = np.diff(np.append(begins, len(order)))
        word_counts = -(-target_counts // WORD_BITS)
        self.segment_kind, self.segment_subtree = targets.kind[begins], targets.subtree[begins]
        self.segment_end = np.cumsum(word_counts)
        self.segment_begin = self.segment_end - word_counts
        self.mask = np.full(word_counts.sum(), ALL_BITS)
        self.mask[self.segment_end - 1] >>= (word_counts * WORD_BITS - target_counts).astype(np.uint64)
        self.position = concatenated_ranges(self.segment_begin * WORD_BITS, target_counts)
        self._entity = targets.entity
        by_application = np.argsort(targets.application, kind="stable")
        self._applications = targets.application[by_application]
        self._application_positions = self.position[by_application]

    def segments_of(self, kinds: frozenset[int]) -> tuple[int, int]:
        """Return the first segment of these kinds and the segment after their last; equal if there is none."""
        segments = np.flatnonzero(np.isin(self.segment_kind, list(kinds)))
        return (int(segments[0]), int(segments[-1]) + 1) if len(segments) else (0, 0)

    def words_of(self, segments: tuple[int, int]) -> tuple[int, int]:
        """Return the first word of these segments and the word after their last."""
        first, end = segments
        return (int(self.segment_begin[first]), int(self.segment_end[end - 1])) if first < end else (0, 0)

    def entity_positions(self, entities: Array) -> Array:
        """Return the position of each entity; NONE for entities that are not targets of the unit."""
        targets = find_in(self._entity, entities)
        return np.where(targets == NONE, NONE, np.append(self.position, NONE)[targets])

    def application_positions(self, applications: Array) -> tuple[Array, Array]:
        """Return (counts, positions) of the targets in each application, including the application itself."""
        begins = np.searchsorted(self._applications, applications)
        counts = np.searchsorted(self._applications, applications, side="right") - begins
        return counts, self._application_positions[concatenated_ranges(begins, counts)]


def split_into_units(rows: Rows, directory: Directory) -> Iterator[Unit]:
    """Yield the units of a partition. A unit takes blocks until it has UNIT_ENTITIES targets."""
    if not len(rows.form):
        return
    rows = replace(rows, principal=directory.principal_numbers(rows.principal_type, rows.principal))
    order = np.lexsort((rows.block, rows.subtree))
    is_first = (np.diff(rows.subtree[order]) != 0) | (np.diff(rows.block[order]) != 0)
    begins = np.flatnonzero(np.append(True, is_first))
    target_counts = np.add.reduceat((rows.form[order] == TARGET).astype(np.int64), begins)
    cuts, size = [], 0
    for begin, count in zip(begins.tolist(), target_counts.tolist(), strict=True):
        if size and size + count > UNIT_ENTITIES:
            cuts.append(begin)
            size = 0
        size += count
    for indexes in np.split(order, cuts):
        unit = Unit(rows, indexes)
        if len(unit.position):
            yield unit


def concatenated_ranges(begins: Array, counts: Array) -> Array:
    """Return the numbers begin, begin + 1, ... of each range, one range after the other."""
    return np.repeat(begins - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
