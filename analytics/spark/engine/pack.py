"""Pack partial counts for the exchange: combined first, and many counts to a row.

The users of a result are divided into parts by rank, and each part is merged alone. Every partition first
adds up its counts over all of its units. The counts of a group are sent once to each part with a member of
the group, not once for each member.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle

from analytics.spark.batches import BatchFunction, packed_column
from analytics.spark.engine.compiled import CompiledRules
from analytics.spark.engine.count import Counts, HolderKind, count_units, divide
from analytics.spark.engine.members import Directory, DirectoryBroadcast
from analytics.spark.engine.rows import Array

cloudpickle.register_pickle_by_value(sys.modules[__name__])

# A row has counts of users (`users` is set), of groups (`groups` is set), or of everyone (neither is set).
# part: the number of the part of the result. users: ranks, relative to the first of the part. groups: group
# indexes.
# buckets: see BucketNumbers. The binary columns contain one number for each count, see batches.packed_column.
PARTIAL_COUNTS = "part int, users binary, groups binary, buckets binary, gained binary, lost binary"
# users: ranks. held: by user or group, how many entities of the namespace are held.
PARTIAL_HOLDERS = "namespace_rank bigint, part int, users binary, groups binary, held binary"
# A partition sends its counts when it has more than these.
MAX_BUFFERED_COUNTS = 2_000_000


@dataclass(frozen=True, slots=True)
class BucketNumbers:
    """Numbers the buckets of a result. A bucket is a rule and a namespace, or a rule alone.

    order: the position of each rule in the result. namespace_count: the number of namespace ranks; 1 if
    counts are not by namespace.
    """

    order: tuple[int, ...]
    namespace_count: int

    @property
    def count(self) -> int:
        return len(self.order) * self.namespace_count

    def number(self, rules: Array, namespace_ranks: Array) -> Array:
        rule_positions = np.asarray(self.order, np.int64)[rules]
        return rule_positions * self.namespace_count + (namespace_ranks if self.namespace_count > 1 else 0)


@dataclass(frozen=True, slots=True)
class UserParts:
    """The parts into which the users of a result are divided. Each part is a range of user ranks."""

    user_count: int
    part_count: int

    @property
    def size(self) -> int:
        return max(1, -(-self.user_count // self.part_count))

    @property
    def bounds(self) -> Array:
        """The first rank of each part, followed by the number of users."""
        return np.minimum(np.arange(self.part_count + 1) * self.size, self.user_count)


@dataclass(slots=True)
class CountSums:
    """A buffer that adds up the counts of one type of holder by holder and bucket."""

    bucket_count: int
    keys: list[Array] = field(default_factory=list)
    gained: list[Array] = field(default_factory=list)
    lost: list[Array] = field(default_factory=list)
    size: int = 0
    is_combined: bool = False

    def add(self, holders: Array, buckets: Array, gained: Array, lost: Array | None) -> None:
        self.keys.append(holders * self.bucket_count + buckets)
        self.gained.append(gained)
        self.lost.append(np.zeros(len(holders), np.int8) if lost is None else lost)
        self.size += len(holders)
        self.is_combined = False

    def combine(self) -> None:
        """Add up the counts of equal holders and buckets.

        Counts that are added up already are not sorted again.
        """
        if self.size and not self.is_combined:
            keys, gained, lost = add_by_key(
                np.concatenate(self.keys), np.concatenate(self.gained), np.concatenate(self.lost)
            )
            self.keys, self.gained, self.lost, self.size = [keys], [gained], [lost], len(keys)
            self.is_combined = True

    def pop_all(self) -> tuple[Array, Array, Array, Array]:
        """Return (holders, buckets, gained, lost), sorted, each holder and bucket once. Clear the buffer."""
        self.combine()
        if not self.size:
            return (np.empty(0, np.int64),) * 4
        holders, buckets = divide(self.keys[0], self.bucket_count)
        columns = holders, buckets, self.gained[0], self.lost[0]
        self.keys, self.gained, self.lost, self.size = [], [], [], 0
        return columns


def pack_counts(
    rules: CompiledRules,
    order: tuple[int, ...],
    part_count: int,
    broadcast: DirectoryBroadcast,
    *,
    by_namespace: bool,
) -> BatchFunction:
    """Return a function that turns tenant rows into PARTIAL_COUNTS. order: the position of each rule in the
    result.
    """

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        directory = Directory.load(broadcast)
        buckets = BucketNumbers(order, len(directory.namespace_ids) if by_namespace else 1)
        packer = CountPacker(directory, UserParts(directory.user_count, part_count), buckets)
        for counts in count_units(batches, rules, directory, by_subtree=by_namespace):
            yield from packer.add(counts)
        yield from packer.flush()

    return pack


class CountPacker:
    """A buffer that adds up the counts of a partition, and packs them by part of the result."""

    def __init__(self, directory: Directory, parts: UserParts, buckets: BucketNumbers):
        self._directory, self._parts, self._buckets = directory, parts, buckets
        self._sums = {holder: CountSums(buckets.count) for holder in HolderKind}
        part_by_membership = directory.user_ranks[directory.member_users] // parts.size
        # by group and part, whether the group has a member in the part
        self._has_member = np.zeros((directory.group_count, parts.part_count), bool)
        self._has_member[directory.member_groups, part_by_membership] = True

    def add(self, counts: Counts) -> Iterator[pa.RecordBatch]:
        """Add counts to the buffer.

        If it is full even after adding up equal keys, yield its sums and clear it.
        """
        holders = (
            self._directory.user_ranks[counts.holders] if counts.holder == HolderKind.USER else counts.holders
        )
        buckets = self._buckets.number(counts.rules, counts.unit.segment_namespace_rank[counts.segments])
        self._sums[counts.holder].add(holders, buckets, counts.gained, counts.lost)
        if self._size > MAX_BUFFERED_COUNTS:
            for sums in self._sums.values():
                sums.combine()
            if 2 * self._size > MAX_BUFFERED_COUNTS:
                yield from self.flush()

    @property
    def _size(self) -> int:
        return sum(sums.size for sums in self._sums.values())

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Pack the sums and clear them."""
        bounds = self._parts.bounds
        _, *counts = self._sums[HolderKind.EVERYONE].pop_all()
        if len(counts[0]):
            for part in np.nonzero(np.diff(bounds))[0].tolist():
                yield _partial_counts(part, None, None, counts)
        groups, *counts = self._sums[HolderKind.GROUP].pop_all()
        for part in range(self._parts.part_count if len(groups) else 0):
            rows = np.flatnonzero(self._has_member[groups, part])
            if len(rows):
                yield _partial_counts(part, None, groups[rows], [column[rows] for column in counts])
        ranks, *counts = self._sums[HolderKind.USER].pop_all()
        begins = np.searchsorted(ranks, bounds)
        for part in np.nonzero(np.diff(begins))[0].tolist():
            part_rows = slice(begins[part], begins[part + 1])
            yield _partial_counts(
                part, ranks[part_rows] - bounds[part], None, [column[part_rows] for column in counts]
            )


def _partial_counts(
    part: int, users: Array | None, groups: Array | None, counts: list[Array]
) -> pa.RecordBatch:
    """Return a batch with one row of PARTIAL_COUNTS. counts: buckets, gained and lost."""
    columns = {
        "users": users,
        "groups": groups,
        **dict(zip(("buckets", "gained", "lost"), counts, strict=True)),
    }
    return pa.record_batch(
        {
            "part": pa.array([part], pa.int32()),
            **{name: packed_column(numbers) for name, numbers in columns.items()},
        }
    )


def pack_holders(
    rules: CompiledRules, candidate_rules: frozenset[int], part_count: int, broadcast: DirectoryBroadcast
) -> BatchFunction:
    """Return a function that turns tenant rows into PARTIAL_HOLDERS.

    candidate_rules: rules that make a user a holder, but add nothing to the counts.
    """

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        directory = Directory.load(broadcast)
        namespace_count = len(directory.namespace_ids)
        sums_by_holder = {
            HolderKind.USER: CountSums(namespace_count),
            HolderKind.GROUP: CountSums(namespace_count),
        }
        for counts in count_units(batches, rules, directory, by_subtree=True):
            if counts.holder != HolderKind.EVERYONE:
                held = np.where(np.isin(counts.rules, list(candidate_rules)), 0, counts.gained)
                namespace_ranks = counts.unit.segment_namespace_rank[counts.segments]
                sums_by_holder[counts.holder].add(counts.holders, namespace_ranks, held, None)
        for holder, sums in sums_by_holder.items():
            holders, namespace_ranks, held, _ = sums.pop_all()
            if holder == HolderKind.USER:
                holders = directory.user_ranks[holders]
            yield from _partial_holders(holder, namespace_ranks, holders, held, part_count, namespace_count)

    return pack


def _partial_holders(
    holder: HolderKind,
    namespace_ranks: Array,
    holders: Array,
    held: Array,
    part_count: int,
    namespace_count: int,
) -> Iterator[pa.RecordBatch]:
    """Yield a batch with one row of PARTIAL_HOLDERS for each namespace."""
    # numpy sorts small integer types by radix.
    order = np.argsort(namespace_ranks.astype(np.min_scalar_type(namespace_count)), kind="stable")
    distinct_ranks, begins = np.unique(namespace_ranks[order], return_index=True)
    for rank, rows in zip(distinct_ranks.tolist(), np.split(order, begins[1:]), strict=False):
        yield pa.record_batch(
            {
                "namespace_rank": pa.array([rank], pa.int64()),
                "part": pa.array([rank * part_count // namespace_count], pa.int32()),
                "users": packed_column(holders[rows] if holder == HolderKind.USER else None),
                "groups": packed_column(holders[rows] if holder == HolderKind.GROUP else None),
                "held": packed_column(held[rows]),
            }
        )


def add_by_key(keys: Array, gained: Array, lost: Array) -> tuple[Array, Array, Array]:
    """Return (keys, gained, lost): each key once, ascending, with the sums of its counts."""
    columns = [column for column in (gained, lost) if column.any()]
    count_bits = int(columns[0].max()).bit_length() if len(columns) == 1 and columns[0].min() >= 0 else 64
    if len(keys) and int(keys.max()).bit_length() + count_bits < 64:
        # Key and count fit into one number. Plain numbers sort in a fraction of the time of an argsort.
        combined = keys << count_bits
        combined |= columns[0]
        combined.sort()
        keys, columns = combined >> count_bits, [combined & (1 << count_bits) - 1]
    else:
        order = np.argsort(keys, kind="stable")
        keys, columns = keys[order], [column[order] for column in columns]
    begins = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])) if len(keys) else np.empty(0, np.int64)
    sums = iter([np.add.reduceat(column, begins, dtype=np.int64) for column in columns])
    gained, lost = (
        next(sums) if column.any() else np.zeros(len(begins), np.int64) for column in (gained, lost)
    )
    return keys[begins], gained, lost
