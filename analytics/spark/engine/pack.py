"""Pack partial counts for the exchange: many counts to a row, combined first.

Counts go to the part of the result that needs them. A part is a range of users by place, so each part of a result is sorted and
merged alone. Every partition first adds up its counts over all of its units. The counts of a group are sent once to each part
that has a member of the group, not once for each member.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle

from analytics.spark.batches import BatchFunction
from analytics.spark.engine.compiled import CompiledRules
from analytics.spark.engine.count import Counts, Holder, count_units, divide
from analytics.spark.engine.members import Directory, Shared
from analytics.spark.engine.rows import Array

cloudpickle.register_pickle_by_value(sys.modules[__name__])

# part: of the result. users: places within the part. groups: group indexes. A row has counts of users, of groups, or with
# neither of everyone. cells: see CellNumbers. All four hold one number for each count.
PARTIAL_COUNTS = "part int, users binary, groups binary, cells binary, gained binary, lost binary"
# rank: of a namespace. users: places. held: how many of its entities each of them holds.
PARTIAL_HOLDERS = "rank bigint, part int, users binary, groups binary, held binary"
# Counts that a partition keeps before it sends them.
KEPT_COUNTS = 2_000_000


@dataclass(frozen=True, slots=True)
class CellNumbers:
    """Numbers the cells of a result: (rule, namespace), or rules alone.

    order: the position of each rule in the result. namespaces: how many ranks there are; 1 where counts are not by namespace.
    """

    order: tuple[int, ...]
    namespaces: int

    @property
    def count(self) -> int:
        return len(self.order) * self.namespaces

    def number(self, rules: Array, ranks: Array) -> Array:
        return np.asarray(self.order, np.int64)[rules] * self.namespaces + (ranks if self.namespaces > 1 else 0)


@dataclass(frozen=True, slots=True)
class UserParts:
    """Ranges of users by place: the parts of a result."""

    users: int
    parts: int

    @property
    def size(self) -> int:
        return max(1, -(-self.users // self.parts))

    @property
    def bounds(self) -> Array:
        return np.minimum(np.arange(self.parts + 1) * self.size, self.users)


@dataclass(slots=True)
class Sums:
    """Counts of one type of holder, added up by holder and cell."""

    cells: int
    keys: list[Array] = field(default_factory=list)
    gained: list[Array] = field(default_factory=list)
    lost: list[Array] = field(default_factory=list)
    size: int = 0

    def add(self, holders: Array, cells: Array, gained: Array, lost: Array | None) -> None:
        self.keys.append(holders * self.cells + cells)
        self.gained.append(gained)
        self.lost.append(np.zeros(len(holders), np.int8) if lost is None else lost)
        self.size += len(holders)

    def combine(self) -> None:
        """Add up the counts of equal holders and cells."""
        if self.size:
            key, gained, lost = add_by_key(np.concatenate(self.keys), np.concatenate(self.gained), np.concatenate(self.lost))
            self.keys, self.gained, self.lost, self.size = [key], [gained], [lost], len(key)

    def take(self) -> tuple[Array, Array, Array, Array]:
        """Return (holders, cells, gained, lost), sorted, each holder and cell once. Clear the sums."""
        self.combine()
        if not self.size:
            return (np.empty(0, np.int64),) * 4
        holders, cells = divide(self.keys[0], self.cells)
        found = holders, cells, self.gained[0], self.lost[0]
        self.keys, self.gained, self.lost, self.size = [], [], [], 0
        return found


def pack_counts(rules: CompiledRules, order: tuple[int, ...], parts: int, shared: Shared, *, by_namespace: bool) -> BatchFunction:
    """Return a function from tenant rows to PARTIAL_COUNTS. order: the position of each rule in the result."""
    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        directory = Directory.load(shared)
        cells = CellNumbers(order, len(directory.namespace_ids) if by_namespace else 1)
        packer = CountPacker(directory, UserParts(directory.user_count, parts), cells)
        for counts in count_units(batches, rules, directory, by_family=by_namespace):
            yield from packer.add(counts)
        yield from packer.flush()

    return pack


class CountPacker:
    """A buffer that adds up the counts of a partition, and packs them by part of the result."""

    def __init__(self, directory: Directory, parts: UserParts, cells: CellNumbers):
        self._directory, self._parts, self._cells = directory, parts, cells
        self._sums = {holder: Sums(cells.count) for holder in Holder}
        part_of_member = directory.user_places[directory.member_users] // parts.size
        # by group and part, whether the group has a member in the part
        self._has_member = np.zeros((directory.group_count, parts.parts), bool)
        self._has_member[directory.member_groups, part_of_member] = True

    def add(self, counts: Counts) -> Iterator[pa.RecordBatch]:
        """Add counts. Yield the sums if they become too large to keep."""
        holders = self._directory.user_places[counts.holders] if counts.holder == Holder.USER else counts.holders
        cells = self._cells.number(counts.rules, counts.unit.run_rank[counts.runs])
        self._sums[counts.holder].add(holders, cells, counts.gained, counts.lost)
        if self._size > KEPT_COUNTS:
            for sums in self._sums.values():
                sums.combine()
            if 2 * self._size > KEPT_COUNTS:
                yield from self.flush()

    @property
    def _size(self) -> int:
        return sum(sums.size for sums in self._sums.values())

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Pack the sums and clear them."""
        bounds = self._parts.bounds
        _, *counts = self._sums[Holder.EVERYONE].take()
        if len(counts[0]):
            for part in np.nonzero(np.diff(bounds))[0].tolist():
                yield _partial_counts(part, None, None, counts)
        groups, *counts = self._sums[Holder.GROUP].take()
        for part in range(self._parts.parts if len(groups) else 0):
            which = np.flatnonzero(self._has_member[groups, part])
            if len(which):
                yield _partial_counts(part, None, groups[which], [column[which] for column in counts])
        places, *counts = self._sums[Holder.USER].take()
        begins = np.searchsorted(places, bounds)
        for part in np.nonzero(np.diff(begins))[0].tolist():
            users = slice(begins[part], begins[part + 1])
            yield _partial_counts(part, places[users] - bounds[part], None, [column[users] for column in counts])


def _partial_counts(part: int, users: Array | None, groups: Array | None, counts: list[Array]) -> pa.RecordBatch:
    cells, gained, lost = (pa.array([to_bytes(column)], pa.binary()) for column in counts)
    users_and_groups = (pa.array([None if column is None else to_bytes(column)], pa.binary()) for column in (users, groups))
    return pa.record_batch([pa.array([part], pa.int32()), *users_and_groups, cells, gained, lost],
                           names=["part", "users", "groups", "cells", "gained", "lost"])


def pack_holders(rules: CompiledRules, marking_rules: frozenset[int], parts: int, shared: Shared) -> BatchFunction:
    """Return a function from tenant rows to PARTIAL_HOLDERS.

    marking_rules: rules that make a user a holder, but add nothing to the counts.
    """
    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        directory = Directory.load(shared)
        ranks = len(directory.namespace_ids)
        sums = {Holder.USER: Sums(ranks), Holder.GROUP: Sums(ranks)}
        for counts in count_units(batches, rules, directory, by_family=True):
            if counts.holder != Holder.EVERYONE:
                held = np.where(np.isin(counts.rules, list(marking_rules)), 0, counts.gained)
                sums[counts.holder].add(counts.holders, counts.unit.run_rank[counts.runs], held, None)
        for holder, some in sums.items():
            holders, rank, held, _ = some.take()
            yield from _by_rank(holder, rank, directory.user_places[holders] if holder == Holder.USER else holders, held,
                                parts, ranks)

    return pack


def _by_rank(holder: Holder, rank: Array, holders: Array, held: Array, parts: int, ranks: int) -> Iterator[pa.RecordBatch]:
    # numpy sorts small integer types by radix.
    rows = np.argsort(rank.astype(np.min_scalar_type(ranks)), kind="stable")
    numbers, begins = np.unique(rank[rows], return_index=True)
    for number, mine in zip(numbers.tolist(), np.split(rows, begins[1:]), strict=False):
        users_and_groups = [to_bytes(holders[mine]) if holder == one else None for one in (Holder.USER, Holder.GROUP)]
        yield pa.record_batch(
            [pa.array([number], pa.int64()), pa.array([number * parts // ranks], pa.int32()),
             *(pa.array([column], pa.binary()) for column in users_and_groups), pa.array([to_bytes(held[mine])], pa.binary())],
            names=["rank", "part", "users", "groups", "held"])


def add_by_key(key: Array, gained: Array, lost: Array) -> tuple[Array, Array, Array]:
    """Return (keys, gained, lost): each key once, ascending, with the sums of its counts."""
    columns = [column for column in (gained, lost) if column.any()]
    bits = int(columns[0].max()).bit_length() if len(columns) == 1 and columns[0].min() >= 0 else 64
    if len(key) and int(key.max()).bit_length() + bits < 64:
        # Plain numbers sort in a fraction of the time of an argsort.
        both = key << bits
        both |= columns[0]
        both.sort()
        key, columns = both >> bits, [both & (1 << bits) - 1]
    else:
        order = np.argsort(key, kind="stable")
        key, columns = key[order], [column[order] for column in columns]
    begins = np.flatnonzero(np.append(True, key[1:] != key[:-1])) if len(key) else np.empty(0, np.int64)
    sums = iter([np.add.reduceat(column, begins, dtype=np.int64) for column in columns])
    gained, lost = (next(sums) if column.any() else np.zeros(len(begins), np.int64) for column in (gained, lost))
    return key[begins], gained, lost


def to_bytes(numbers: Array) -> bytes:
    """Return the letter of the smallest sufficient type, and the numbers in that type."""
    small = numbers.astype(np.result_type(*map(np.min_scalar_type, (numbers.min(), numbers.max()))))
    return small.dtype.char.encode() + small.tobytes()


def from_bytes(packed: bytes) -> Array:
    return np.frombuffer(packed, packed[:1].decode(), offset=1)
