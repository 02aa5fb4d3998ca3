"""Merge partial counts into the rows of a table, sorted by the key of the table."""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle

from analytics.spark.batches import TABLE_BATCH_ROWS, BatchFunction, group_rows, text_array, unpack_numbers
from analytics.spark.engine.compiled import CompiledRules
from analytics.spark.engine.count import divide
from analytics.spark.engine.evaluate import CHUNK_BYTES
from analytics.spark.engine.layout import concatenated_ranges
from analytics.spark.engine.members import Directory, DirectoryBroadcast, GroupRowIndex
from analytics.spark.engine.pack import BucketNumbers, UserParts, add_by_key, pack_counts, pack_holders
from analytics.spark.engine.rows import Array

cloudpickle.register_pickle_by_value(sys.modules[__name__])

# The number of counts that are sorted at once, after the counts of groups are expanded to their members.
MAX_SORTED_COUNTS = 1_000_000
# A part is merged as a dense table if the rows of the groups have at most this many cells (4 bytes each), and
# if the rows of the users have at most this many cells for each count.
MAX_TABLE_CELLS, MAX_CELLS_PER_COUNT = 64_000_000, 30
# (holders, buckets, gained, lost), sorted by holder
CountColumns = tuple[Array, Array, Array, Array]
# the columns of a result table: (name, content); the content is `user`, `namespace`, `gained`, `lost`, or a
# text for each rule
ColumnContents = tuple[tuple[str, str | tuple[str, ...]], ...]


def count_stages(
    rules: CompiledRules,
    order: tuple[int, ...],
    columns: ColumnContents,
    by_namespace: bool,
    part_count: int,
    broadcast: DirectoryBroadcast,
) -> tuple[BatchFunction, BatchFunction]:
    """Return two functions.

    The first turns tenant rows into PARTIAL_COUNTS; the second turns these into `columns`.
    """
    return (
        pack_counts(rules, order, part_count, broadcast, by_namespace=by_namespace),
        merge_counts(order, part_count, columns, broadcast, by_namespace=by_namespace),
    )


def holder_stages(
    rules: CompiledRules, candidate_rules: frozenset[int], part_count: int, broadcast: DirectoryBroadcast
) -> tuple[BatchFunction, BatchFunction]:
    """Return two functions.

    The first turns tenant rows into PARTIAL_HOLDERS; the second turns these into tables.READINESS.
    """
    return pack_holders(rules, candidate_rules, part_count, broadcast), merge_holders(broadcast)


def merge_counts(
    order: tuple[int, ...],
    part_count: int,
    columns: ColumnContents,
    broadcast: DirectoryBroadcast,
    *,
    by_namespace: bool,
) -> BatchFunction:
    """Return a function that turns PARTIAL_COUNTS of whole parts into `columns`: the nonzero sums by user,
    rule and namespace.
    """
    rule_by_position = np.argsort(np.asarray(order, np.int64))

    def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows_by_part = group_rows(batches, "part")
        if not rows_by_part:
            return
        directory = Directory.load(broadcast)
        buckets = BucketNumbers(order, len(directory.namespace_ids) if by_namespace else 1)
        for part in sorted(rows_by_part):
            merger = PartMerger(directory, UserParts(directory.user_count, part_count), buckets, part)
            for sums in merger.merge(rows_by_part.pop(part)):
                yield from _table_batches(sums, directory, columns, rule_by_position, buckets)

    return merge


class PartMerger:
    """The merge of the partial counts of one part of the users.

    The users of the part are numbered from 0, by rank.
    """

    def __init__(self, directory: Directory, parts: UserParts, buckets: BucketNumbers, part: int):
        self._bucket_count = buckets.count
        self._first_rank, end = int(parts.bounds[part]), int(parts.bounds[part + 1])
        self._user_count = end - self._first_rank
        user_by_membership = directory.user_ranks[directory.member_users] - self._first_rank
        memberships = np.nonzero((user_by_membership >= 0) & (user_by_membership < self._user_count))[0]
        memberships = memberships[np.argsort(user_by_membership[memberships], kind="stable")]
        # the memberships of the users of the part, by user
        self._member_users, self._member_groups = (
            user_by_membership[memberships],
            directory.member_groups[memberships],
        )
        self._group_count = directory.group_count

    def merge(self, rows: list[dict[str, Any]]) -> Iterator[CountColumns]:
        """Yield the nonzero sums by user rank and bucket, for some users at a time."""
        own, groups, everyone = (
            _unpack_counts(some_rows)
            for some_rows in (
                [row for row in rows if row["users"]],
                [row for row in rows if row["groups"]],
                [row for row in rows if not row["users"] and not row["groups"]],
            )
        )
        own, groups = _sort_by_holder(own), _sort_by_holder(groups)
        bounds = np.searchsorted(groups[0], np.arange(self._group_count + 1))
        # by membership, the number of counts of the group
        sizes = np.diff(bounds)[self._member_groups]
        expanded_count = len(own[0]) + int(sizes.sum()) + len(everyone[0]) * self._user_count
        is_used = np.zeros(self._bucket_count, bool)
        for counts in (own, groups, everyone):
            is_used[counts[1]] = True
        used_buckets = np.flatnonzero(is_used)
        is_too_large = len(used_buckets) * len(np.unique(groups[0])) > MAX_TABLE_CELLS
        is_too_empty = len(used_buckets) * self._user_count > MAX_CELLS_PER_COUNT * expanded_count
        if is_too_large or is_too_empty:
            yield from self._merge_by_sorting(own, groups, everyone, bounds, sizes, expanded_count)
        else:
            yield from self._merge_in_table(own, groups, everyone, used_buckets)

    def _merge_in_table(
        self, own: CountColumns, groups: CountColumns, everyone: CountColumns, used_buckets: Array
    ) -> Iterator[CountColumns]:
        """Add up the counts in dense tables with a row for each group or user, and a column for each used
        bucket.
        """
        column_by_bucket = np.zeros(self._bucket_count, np.int64)
        column_by_bucket[used_buckets] = np.arange(len(used_buckets))
        own, groups, everyone = (
            (counts[0], column_by_bucket[counts[1]], *counts[2:]) for counts in (own, groups, everyone)
        )
        group_rows = GroupRowIndex(self._group_count, self._member_users, self._member_groups, [groups[0]])
        column_count = len(used_buckets)
        group_tables = [
            _build_table(
                group_rows.row_count, column_count, group_rows.row_by_group[groups[0]], groups[1], counts
            )
            for counts in groups[2:]
        ]
        step = max(1, CHUNK_BYTES // (4 * max(1, column_count)))
        for first in range(0, self._user_count, step):
            users = np.arange(first, min(first + step, self._user_count))
            begin, end = np.searchsorted(own[0], [users[0], users[-1] + 1])
            own_rows, own_columns = own[0][begin:end] - first, own[1][begin:end]
            gained, lost = (
                self._add_tables(
                    group_rows,
                    group_table,
                    users,
                    column_count,
                    own_rows,
                    own_columns,
                    own_counts[begin:end],
                    everyone[1],
                    everyone_counts,
                )
                for group_table, own_counts, everyone_counts in zip(
                    group_tables, own[2:], everyone[2:], strict=True
                )
            )
            is_nonzero = gained if lost is None else lost if gained is None else (gained != 0) | (lost != 0)
            if is_nonzero is None:
                continue
            cells = np.flatnonzero(is_nonzero)
            rows, columns = divide(cells, column_count)
            sums = [
                np.zeros(len(cells), np.int64) if table is None else table.reshape(-1)[cells].astype(np.int64)
                for table in (gained, lost)
            ]
            yield rows + first + self._first_rank, used_buckets[columns], sums[0], sums[1]

    @staticmethod
    def _add_tables(
        group_rows: GroupRowIndex,
        group_table: Array | None,
        users: Array,
        column_count: int,
        own_rows: Array,
        own_columns: Array,
        own_counts: Array,
        everyone_columns: Array,
        everyone_counts: Array,
    ) -> Array | None:
        """Return a table of these users by column: their own counts, those of their groups and those of
        everyone, added up.

        Return None if all of them are zero.
        """
        if group_table is None and not own_counts.any() and not everyone_counts.any():
            return None
        if group_table is None:
            table = np.zeros((len(users), column_count), np.int32)
        else:
            table = group_rows.combine(group_table, np.add, users)
        np.add.at(table.reshape(-1), own_rows * column_count + own_columns, own_counts.astype(np.int32))
        first_row = np.zeros(len(everyone_counts), np.int64)
        everyone_table = _build_table(1, column_count, first_row, everyone_columns, everyone_counts)
        if everyone_table is not None:
            table += everyone_table[0]
        return table

    def _merge_by_sorting(
        self,
        own: CountColumns,
        groups: CountColumns,
        everyone: CountColumns,
        bounds: Array,
        sizes: Array,
        expanded_count: int,
    ) -> Iterator[CountColumns]:
        """Sort the counts of all users, with those of groups repeated for each member.

        Used for results with many buckets but few counts for each user.
        """
        step = -(-self._user_count // max(1, -(-expanded_count // MAX_SORTED_COUNTS)))
        for first in range(0, self._user_count, step):
            end = min(first + step, self._user_count)
            counts = [
                _slice_by_holder(own, first, end),
                self._expand_groups(groups, bounds, sizes, first, end),
                _repeat_for_each(np.arange(first, end), everyone),
            ]
            users, buckets, gained, lost = (np.concatenate(column) for column in zip(*counts, strict=True))
            yield self._sum(users, buckets, gained, lost)

    def _expand_groups(
        self, groups: CountColumns, bounds: Array, sizes: Array, first: int, end: int
    ) -> list[Array]:
        """Repeat the counts of each group for each of its members among the users from `first` up to, not
        including, `end`.
        """
        begin, stop = np.searchsorted(self._member_users, [first, end])
        rows = concatenated_ranges(bounds[self._member_groups[begin:stop]], sizes[begin:stop])
        return [
            np.repeat(self._member_users[begin:stop], sizes[begin:stop]),
            *(column[rows] for column in groups[1:]),
        ]

    def _sum(self, users: Array, buckets: Array, gained: Array, lost: Array) -> CountColumns:
        keys, gained, lost = add_by_key(users * self._bucket_count + buckets, gained, lost)
        is_nonzero = (gained != 0) | (lost != 0)
        if not is_nonzero.all():
            keys, gained, lost = keys[is_nonzero], gained[is_nonzero], lost[is_nonzero]
        users, buckets = divide(keys, self._bucket_count)
        return users + self._first_rank, buckets, gained, lost


def _build_table(
    row_count: int, column_count: int, rows: Array, columns: Array, counts: Array
) -> Array | None:
    """Return a table of the sums of these counts; None if all counts are zero."""
    if not counts.any():
        return None
    table = np.zeros((row_count, column_count), np.int32)
    np.add.at(table.reshape(-1), rows * column_count + columns, counts.astype(np.int32))
    return table


def _unpack_counts(rows: list[dict[str, Any]]) -> CountColumns:
    """Return the counts for one type of holder, not sorted. For counts of everyone, the holders are zeros."""
    empty = np.empty(0, np.int64)
    buckets, gained, lost = (
        np.concatenate([empty, *(unpack_numbers(row[name]) for row in rows)])
        for name in ("buckets", "gained", "lost")
    )
    packed_holders = [row["users"] or row["groups"] for row in rows]
    if all(packed_holders):
        holders = np.concatenate([empty, *map(unpack_numbers, packed_holders)])
    else:
        holders = np.zeros(len(buckets), np.int64)
    return holders, buckets, gained, lost


def _sort_by_holder(counts: CountColumns) -> CountColumns:
    holders = counts[0]
    if not len(holders) or (holders[1:] >= holders[:-1]).all():
        return counts
    # numpy sorts small integer types by radix.
    order = np.argsort(holders.astype(np.min_scalar_type(int(holders.max()))), kind="stable")
    return tuple(column[order] for column in counts)  # type: ignore[return-value]


def _slice_by_holder(counts: CountColumns, first: int, end: int) -> list[Array]:
    begin, stop = np.searchsorted(counts[0], [first, end])
    return [column[begin:stop] for column in counts]


def _repeat_for_each(users: Array, counts: CountColumns) -> list[Array]:
    return [np.repeat(users, len(counts[0])), *(np.tile(column, len(users)) for column in counts[1:])]


def _table_batches(
    sums: CountColumns,
    directory: Directory,
    columns: ColumnContents,
    rule_by_position: Array,
    buckets: BucketNumbers,
) -> Iterator[pa.RecordBatch]:
    for first in range(0, len(sums[0]), TABLE_BATCH_ROWS):
        user_ranks, bucket_numbers, gained, lost = (
            column[first : first + TABLE_BATCH_ROWS] for column in sums
        )
        rule_positions, namespace_ranks = divide(bucket_numbers, buckets.namespace_count)
        arrays: dict[str, Callable[[], pa.Array]] = {
            "user": partial(text_array, user_ranks, directory.user_names),
            "namespace": partial(text_array, namespace_ranks, directory.namespace_names),
            "gained": partial(pa.array, gained),
            "lost": partial(pa.array, lost),
        }
        yield pa.record_batch(
            {
                name: text_array(rule_by_position[rule_positions], pa.array(content))
                if isinstance(content, tuple)
                else arrays[content]()
                for name, content in columns
            }
        )


def merge_holders(broadcast: DirectoryBroadcast) -> BatchFunction:
    """Return a function that turns PARTIAL_HOLDERS of whole namespaces into tables.READINESS, sorted."""

    def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows_by_rank = group_rows(batches, "namespace_rank")
        if not rows_by_rank:
            return
        directory = Directory.load(broadcast)
        buffered, size = [], 0
        for rank in sorted(rows_by_rank):
            user_ranks, held = _sum_holders(rows_by_rank.pop(rank), directory)
            buffered.append((np.full(len(user_ranks), rank), user_ranks, held))
            size += len(user_ranks)
            if size > TABLE_BATCH_ROWS:
                yield _readiness_batch(buffered, directory)
                buffered, size = [], 0
        if buffered:
            yield _readiness_batch(buffered, directory)

    return merge


def _sum_holders(rows: list[dict[str, Any]], directory: Directory) -> tuple[Array, Array]:
    """Return (user ranks, held) of the holders in one namespace, by rank.

    The counts of groups are expanded to their members.
    """
    members, bounds = directory.members_by_group
    user_ranks, held = [], []
    for row in rows:
        counts = unpack_numbers(row["held"])
        if row["users"]:
            user_ranks.append(unpack_numbers(row["users"]).astype(np.int64))
            held.append(counts)
        else:
            groups = unpack_numbers(row["groups"]).astype(np.int64)
            sizes = bounds[groups + 1] - bounds[groups]
            user_ranks.append(directory.user_ranks[members[concatenated_ranges(bounds[groups], sizes)]])
            held.append(np.repeat(counts, sizes))
    keys, sums, _ = add_by_key(
        np.concatenate(user_ranks), np.concatenate(held).astype(np.int64), np.zeros(1, np.int8)
    )
    return keys, sums


def _readiness_batch(buffered: list[tuple[Array, Array, Array]], directory: Directory) -> pa.RecordBatch:
    namespace_ranks, user_ranks, held = (np.concatenate(column) for column in zip(*buffered, strict=True))
    required = directory.required[namespace_ranks]
    return pa.record_batch(
        {
            "namespace": text_array(namespace_ranks, directory.namespace_names),
            "user": text_array(user_ranks, directory.user_names),
            "required": required,
            "held": held,
            "missing": required - held,
            "ready": required == held,
        }
    )
