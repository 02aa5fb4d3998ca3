"""Units of work and their layout: the targets of some subtrees as positions in words of bits.

A unit has several subtrees, or one block of a subtree that is too large for one unit. Its targets are ordered
by kind and subtree. The targets of one kind and subtree are a segment. Each segment starts with a new word,
and the segments of a kind are neighbours.
"""

import sys
from collections.abc import Iterator

import numpy as np
from pyspark import cloudpickle

from analytics.spark.engine.members import Directory, lookup
from analytics.spark.engine.rows import (
    NONE,
    Array,
    RowsT,
    TargetRows,
    TenantRows,
    rows_from_columns,
    select_rows,
)

cloudpickle.register_pickle_by_value(sys.modules[__name__])

WORD_BITS = 64
# The number of targets in a unit. A larger subtree or application is split into blocks of about this size.
UNIT_ENTITIES = 32_768
ALL_BITS, NO_BITS = np.uint64(2**64 - 1), np.uint64(0)


class WordLayout:
    """Words of bits in segments, one segment for each kind and subtree; a segment may be empty.

    segment_kind, segment_subtree: by segment.
    segment_begin, segment_end: the first word of each segment, and the word after its last.
    word_count: of all segments.
    mask: by word, the bits that stand for a target.
    """

    def __init__(self, segment_kind: Array, segment_subtree: Array, target_counts: Array):
        """target_counts: the number of targets in each segment."""
        word_counts = -(-target_counts // WORD_BITS)
        self.segment_kind, self.segment_subtree = segment_kind, segment_subtree
        self.segment_end = np.cumsum(word_counts)
        self.segment_begin = self.segment_end - word_counts
        self.word_count = int(self.segment_end[-1])
        self.mask = np.full(self.word_count, ALL_BITS)
        has_words = word_counts > 0
        unused_bits = (word_counts * WORD_BITS - target_counts)[has_words].astype(np.uint64)
        self.mask[self.segment_end[has_words] - 1] >>= unused_bits

    def word_span(self, kinds: frozenset[int]) -> tuple[int, int]:
        """Return the first word of these kinds and the word after their last; equal if the unit has none of
        these kinds.
        """
        segments = np.nonzero(np.isin(self.segment_kind, list(kinds)))[0]
        return (
            (int(self.segment_begin[segments[0]]), int(self.segment_end[segments[-1]]))
            if len(segments)
            else (0, 0)
        )

    def first_positions(self, counts: Array) -> Array:
        """Return the first `counts` positions of each segment, one segment after the other."""
        return concatenated_ranges(self.segment_begin * WORD_BITS, counts)


class Unit(WordLayout):
    """The targets of one unit.

    entity, position, segment: those of each target, in the order of positions.
    target_row: the row of each target among the targets of the partition.
    segment_namespace_rank: the rank of the namespace of each segment.
    """

    def __init__(self, targets: TargetRows, rows: Array, directory: Directory):
        """rows: the rows of `targets` that belong to the unit."""
        targets = select_rows(targets, rows)
        order = np.lexsort((targets.entity, targets.subtree, targets.kind))
        targets = select_rows(targets, order)
        self.target_row, self.entity, self.application = rows[order], targets.entity, targets.application
        is_first = np.ones(len(order), bool)
        is_first[1:] = (targets.kind[1:] != targets.kind[:-1]) | (targets.subtree[1:] != targets.subtree[:-1])
        begins = np.nonzero(is_first)[0]
        target_counts = np.diff(np.append(begins, len(order)))
        super().__init__(targets.kind[begins], targets.subtree[begins], target_counts)
        self.segment_namespace_rank = directory.namespace_ranks(self.segment_subtree)
        self.segment = np.cumsum(is_first) - 1
        self.position = self.first_positions(target_counts)
        self._by_entity = np.argsort(self.entity)
        self._by_application = np.argsort(self.application, kind="stable")

    def segments_at(self, positions: Array) -> Array:
        """Return the segment of each position."""
        segment_by_word = np.repeat(np.arange(len(self.segment_kind)), self.segment_end - self.segment_begin)
        return segment_by_word[positions // WORD_BITS]

    def subset(self, is_kept: Array) -> tuple[WordLayout, Array]:
        """Return (a layout with only the kept positions, by old position the new position or NONE). is_kept:
        by position.
        """
        is_target_kept = is_kept[self.position]
        target_counts = np.bincount(self.segment[is_target_kept], minlength=len(self.segment_kind))
        layout = WordLayout(self.segment_kind, self.segment_subtree, target_counts)
        new_position = np.full(self.word_count * WORD_BITS, NONE)
        new_position[self.position[is_target_kept]] = layout.first_positions(target_counts)
        return layout, new_position

    def entity_positions(self, entities: Array) -> tuple[Array, Array]:
        """Return (positions, mask). The mask is true for entities that are targets of the unit."""
        targets, is_target = lookup(self.entity[self._by_entity], entities)
        return self.position[self._by_entity[targets]], is_target

    def application_positions(self, applications: Array) -> tuple[Array, Array]:
        """Return (counts, positions) of the targets in each application, including the application itself."""
        sorted_applications = self.application[self._by_application]
        begins = np.searchsorted(sorted_applications, applications)
        counts = np.searchsorted(sorted_applications, applications, side="right") - begins
        return counts, self.position[self._by_application[concatenated_ranges(begins, counts)]]


def split_into_units(rows: TenantRows, directory: Directory) -> Iterator[tuple[Unit, TenantRows]]:
    """Yield each unit of the partition with the rows that belong to it, without target rows."""
    targets = _all_targets(rows)
    evaluated = np.arange(len(targets.entity))
    if directory.is_restricted:
        evaluated = np.nonzero(directory.namespace_ranks(targets.subtree) > 0)[0]
    if not len(evaluated):
        return
    other_rows = (rows.grants, rows.container_grants, rows.descendant_grants, rows.precomputed_facts)
    block_count = 1 + int(max(typed_rows.block.max(initial=0) for typed_rows in (targets, *other_rows)))
    block_key = targets.subtree[evaluated] * block_count + targets.block[evaluated]
    sorted_keys, key_index, target_counts = np.unique(block_key, return_inverse=True, return_counts=True)
    unit_by_key = _assign_blocks_to_units(target_counts)
    unit_count = int(unit_by_key[-1]) + 1

    def split(typed_rows: RowsT) -> list[RowsT]:
        block_key = typed_rows.subtree * block_count + typed_rows.block
        key_index = np.minimum(np.searchsorted(sorted_keys, block_key), len(sorted_keys) - 1)
        unit = np.where(sorted_keys[key_index] == block_key, unit_by_key[key_index], NONE)
        return [select_rows(typed_rows, indexes) for indexes in _rows_by_number(unit, unit_count)]

    no_targets = rows_from_columns(TargetRows, [])
    rows_by_unit = zip(
        split(rows.grants),
        split(rows.container_grants),
        split(rows.descendant_grants),
        split(rows.precomputed_facts),
        strict=True,
    )
    for target_indexes, unit_rows in zip(
        _rows_by_number(unit_by_key[key_index], unit_count), rows_by_unit, strict=True
    ):
        yield Unit(targets, evaluated[target_indexes], directory), TenantRows(no_targets, *unit_rows)


def _all_targets(rows: TenantRows) -> TargetRows:
    """Return the target rows, and a row for each target that occurs only in grants."""
    grants = rows.grants
    grant_indexes = np.nonzero(grants.kind != NONE)[0]
    grant_indexes = grant_indexes[np.unique(grants.entity[grant_indexes], return_index=True)[1]]
    return TargetRows(
        *(
            np.concatenate([getattr(rows.targets, name), getattr(grants, name)[grant_indexes]])
            for name in ("subtree", "block", "kind", "entity", "application")
        )
    )


def _assign_blocks_to_units(target_counts: Array) -> Array:
    """Return the unit number of each block, ascending.

    A unit takes blocks until it has UNIT_ENTITIES targets.
    """
    units, unit, size = np.empty(len(target_counts), np.int64), 0, 0
    for block, count in enumerate(target_counts.tolist()):
        if size and size + count > UNIT_ENTITIES:
            unit, size = unit + 1, 0
        units[block], size = unit, size + count
    return units


def _rows_by_number(numbers: Array, count: int) -> list[Array]:
    """Return the row indexes of each number below `count`. Rows with NONE are skipped."""
    # numpy sorts small integer types by radix, which is several times faster.
    numbers = np.where(numbers == NONE, count, numbers).astype(np.min_scalar_type(count))
    order = np.argsort(numbers, kind="stable")
    bounds = np.searchsorted(numbers[order], np.arange(count + 1))
    return [order[begin:end] for begin, end in zip(bounds[:-1], bounds[1:], strict=True)]


def concatenated_ranges(begins: Array, counts: Array) -> Array:
    """Return the numbers begin, begin + 1, ... of each range, one range after the other."""
    return np.repeat(begins - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
