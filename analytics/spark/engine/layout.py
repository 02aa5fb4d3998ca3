"""Units of work and their layout: the targets of some families as positions in words of bits.

A unit holds several families, or one block of a family that is too large for one unit. Its targets are ordered by kind and
family. The targets of one kind and family are a run; each run starts with a new word, so a kind is one stretch of words.
"""

import sys
from collections.abc import Iterator

import numpy as np
from pyspark import cloudpickle

from analytics.spark.engine.members import Directory, lookup
from analytics.spark.engine.rows import NONE, Array, Rows, TargetRows, TenantRows, concatenate, take

cloudpickle.register_pickle_by_value(sys.modules[__name__])

WORD_BITS = 64
# Targets in a unit; a larger family or application is split into blocks of about this size.
UNIT_ENTITIES = 32_768
ALL_BITS, NO_BITS = np.uint64(2**64 - 1), np.uint64(0)


class WordLayout:
    """Words of bits in runs, one run for each kind and family; a run may be empty.

    run_kind, run_family: by run. run_begin, run_end: its first word, and the word after its last.
    mask: by word, the bits that stand for a target.
    """

    def __init__(self, run_kind: Array, run_family: Array, counts: Array):
        """counts: the number of targets in each run."""
        words = -(-counts // WORD_BITS)
        self.run_kind, self.run_family = run_kind, run_family
        self.run_end = np.cumsum(words)
        self.run_begin = self.run_end - words
        self.words = int(self.run_end[-1])
        self.mask = np.full(self.words, ALL_BITS)
        has_words = words > 0
        unused = (words * WORD_BITS - counts)[has_words].astype(np.uint64)
        self.mask[self.run_end[has_words] - 1] >>= unused

    def word_span(self, kinds: frozenset[int]) -> tuple[int, int]:
        """Return the first word of these kinds and the word after their last; equal if the unit has none of these kinds."""
        runs = np.nonzero(np.isin(self.run_kind, list(kinds)))[0]
        return (int(self.run_begin[runs[0]]), int(self.run_end[runs[-1]])) if len(runs) else (0, 0)

    def positions(self, counts: Array) -> Array:
        """Return the first `counts` positions of each run, one run after the other."""
        return ranges(self.run_begin * WORD_BITS, counts)


class Unit(WordLayout):
    """The targets of one unit.

    entity, position, run: of each target, in the order of positions. target_row: its row among the targets of the partition.
    run_rank: the rank of each run's namespace.
    """

    def __init__(self, targets: TargetRows, rows: Array, directory: Directory):
        """rows: which of the targets belong to the unit."""
        mine = take(targets, rows)
        order = np.lexsort((mine.entity, mine.family, mine.kind))
        mine = take(mine, order)
        self.target_row, self.entity, self.application = rows[order], mine.entity, mine.application
        starts = np.ones(len(order), bool)
        starts[1:] = (mine.kind[1:] != mine.kind[:-1]) | (mine.family[1:] != mine.family[:-1])
        begins = np.nonzero(starts)[0]
        counts = np.diff(np.append(begins, len(order)))
        super().__init__(mine.kind[begins], mine.family[begins], counts)
        self.run_rank = directory.ranks(self.run_family)
        self.run = np.cumsum(starts) - 1
        self.position = self.positions(counts)
        self._by_entity = np.argsort(self.entity)
        self._by_application = np.argsort(self.application, kind="stable")

    def runs_at(self, position: Array) -> Array:
        """Return the run of each position."""
        return np.repeat(np.arange(len(self.run_kind)), self.run_end - self.run_begin)[position // WORD_BITS]

    def subset(self, is_kept: Array) -> tuple[WordLayout, Array]:
        """Return a layout with only the kept positions, and by old position the new position or NONE. is_kept: by position."""
        kept = is_kept[self.position]
        counts = np.bincount(self.run[kept], minlength=len(self.run_kind))
        layout, moved = WordLayout(self.run_kind, self.run_family, counts), np.full(self.words * WORD_BITS, NONE)
        moved[self.position[kept]] = layout.positions(counts)
        return layout, moved

    def positions_of(self, entities: Array) -> tuple[Array, Array]:
        """Return (positions, mask). The mask is true for entities that are targets of the unit."""
        at, is_here = lookup(self.entity[self._by_entity], entities)
        return self.position[self._by_entity[at]], is_here

    def positions_inside(self, applications: Array) -> tuple[Array, Array]:
        """Return (counts, positions) of the targets in each application, including the application itself."""
        known = self.application[self._by_application]
        begins = np.searchsorted(known, applications)
        counts = np.searchsorted(known, applications, side="right") - begins
        return counts, self.position[self._by_application[ranges(begins, counts)]]


def split_into_units(rows: TenantRows, directory: Directory) -> Iterator[tuple[Unit, TenantRows]]:
    """Yield each unit of the partition with its rows other than targets."""
    targets = _with_targets_of_grants(rows)
    evaluated = np.arange(len(targets.entity))
    if directory.is_selection:
        evaluated = np.nonzero(directory.ranks(targets.family) > 0)[0]
    if not len(evaluated):
        return
    others = (rows.grants, rows.container_grants, rows.descendant_grants, rows.precomputed_facts)
    block_count = 1 + int(max(some.block.max(initial=0) for some in (targets, *others)))
    block = targets.family[evaluated] * block_count + targets.block[evaluated]
    blocks, block_of, counts = np.unique(block, return_inverse=True, return_counts=True)
    unit_of_block = _units_of_blocks(counts)
    unit_count = int(unit_of_block[-1]) + 1

    def by_unit(some: Rows) -> list[Rows]:
        block = some.family * block_count + some.block
        at = np.minimum(np.searchsorted(blocks, block), len(blocks) - 1)
        return [take(some, which) for which in _group_rows(np.where(blocks[at] == block, unit_of_block[at], NONE), unit_count)]

    no_targets = concatenate(TargetRows, [])
    rows_by_unit = zip(by_unit(rows.grants), by_unit(rows.container_grants), by_unit(rows.descendant_grants),
                       by_unit(rows.precomputed_facts), strict=True)
    for target_rows, rows_of_unit in zip(_group_rows(unit_of_block[block_of], unit_count), rows_by_unit, strict=True):
        yield Unit(targets, evaluated[target_rows], directory), TenantRows(no_targets, *rows_of_unit)


def _with_targets_of_grants(rows: TenantRows) -> TargetRows:
    """Return the target rows, and rows for the targets that only grants list."""
    grants = rows.grants
    which = np.nonzero(grants.kind != NONE)[0]
    which = which[np.unique(grants.entity[which], return_index=True)[1]]
    return TargetRows(*(np.concatenate([getattr(rows.targets, name), getattr(grants, name)[which]])
                        for name in ("family", "block", "kind", "entity", "application")))


def _units_of_blocks(counts: Array) -> Array:
    """Return the unit number of each block, ascending. A unit takes blocks until it has UNIT_ENTITIES targets."""
    numbers, number, size = np.empty(len(counts), np.int64), 0, 0
    for block, count in enumerate(counts.tolist()):
        if size and size + count > UNIT_ENTITIES:
            number, size = number + 1, 0
        numbers[block], size = number, size + count
    return numbers


def _group_rows(numbers: Array, count: int) -> list[Array]:
    """Return the rows of each number below `count`. Rows with NONE are skipped."""
    # numpy sorts small integer types by radix, which is several times faster.
    numbers = np.where(numbers == NONE, count, numbers).astype(np.min_scalar_type(count))
    order = np.argsort(numbers, kind="stable")
    bounds = np.searchsorted(numbers[order], np.arange(count + 1))
    return [order[begin:end] for begin, end in zip(bounds[:-1], bounds[1:], strict=True)]


def ranges(begins: Array, counts: Array) -> Array:
    """Return the numbers begin, begin + 1, ... of each range, one range after the other."""
    return np.repeat(begins - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
