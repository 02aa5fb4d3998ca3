"""Merge partial counts into the rows of a table, sorted by the key of the table."""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle

from analytics.spark.batches import BatchFunction
from analytics.spark.engine.compiled import CompiledRules
from analytics.spark.engine.count import divide
from analytics.spark.engine.evaluate import CHUNK_BYTES
from analytics.spark.engine.layout import ranges
from analytics.spark.engine.members import Directory, GroupRows, Shared
from analytics.spark.engine.pack import CellNumbers, UserParts, add_by_key, from_bytes, pack_counts, pack_holders
from analytics.spark.engine.rows import Array

cloudpickle.register_pickle_by_value(sys.modules[__name__])

# Rows in a batch of a table.
TABLE_ROWS = 1 << 20
# Counts that are merged at once, after the counts of groups are expanded to their members.
MERGED_COUNTS = 1_000_000
# A part is merged as a dense table where the groups have at most so many counts in it (4 bytes each), and where it would have
# at most so many cells for each count.
TABLE_CELLS, SPARSE = 64_000_000, 30
# (holders, cells, gained, lost), sorted by holder
Sums = tuple[Array, Array, Array, Array]
# the columns of a table by name, each with what it shows: `user`, `namespace`, `gained`, `lost`, or a text by rule number
Columns = tuple[tuple[str, str | tuple[str, ...]], ...]


def count_stages(rules: CompiledRules, order: tuple[int, ...], columns: Columns, by_namespace: bool, parts: int,
                 shared: Shared) -> tuple[BatchFunction, BatchFunction]:
    """Return two functions: from tenant rows to PARTIAL_COUNTS, and from those to `columns`. Takes the arguments of both."""
    return (pack_counts(rules, order, parts, shared, by_namespace=by_namespace),
            merge_counts(order, parts, columns, shared, by_namespace=by_namespace))


def holder_stages(rules: CompiledRules, marking_rules: frozenset[int], parts: int,
                  shared: Shared) -> tuple[BatchFunction, BatchFunction]:
    """Return two functions: from tenant rows to PARTIAL_HOLDERS, and from those to tables.READINESS."""
    return pack_holders(rules, marking_rules, parts, shared), merge_holders(shared)


def merge_counts(order: tuple[int, ...], parts: int, columns: Columns, shared: Shared, *, by_namespace: bool) -> BatchFunction:
    """Return a function from PARTIAL_COUNTS of whole parts to `columns`: the nonzero sums by user, rule and namespace."""
    rules = np.argsort(np.asarray(order, np.int64))

    def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        by_part: dict[int, list[dict[str, Any]]] = {}
        for batch in batches:
            for row in batch.to_pylist():
                by_part.setdefault(row["part"], []).append(row)
        if not by_part:
            return
        directory = Directory.load(shared)
        cells = CellNumbers(order, len(directory.namespace_ids) if by_namespace else 1)
        for part in sorted(by_part):
            merger = PartMerger(directory, UserParts(directory.user_count, parts), cells, part)
            for sums in merger.merge(by_part.pop(part)):
                yield from _table_rows(sums, directory, columns, rules, cells)

    return merge


class PartMerger:
    """The merge of the partial counts of one part of the users."""

    def __init__(self, directory: Directory, parts: UserParts, cells: CellNumbers, part: int):
        self._cells = cells.count
        self._first, end = int(parts.bounds[part]), int(parts.bounds[part + 1])
        self._users = end - self._first
        place = directory.user_places[directory.member_users] - self._first
        which = np.nonzero((place >= 0) & (place < self._users))[0]
        which = which[np.argsort(place[which], kind="stable")]
        # the memberships of the users of the part, by place within it
        self._member_place, self._member_group = place[which], directory.member_groups[which]
        self._group_count = directory.group_count

    def merge(self, rows: list[dict[str, Any]]) -> Iterator[Sums]:
        """Yield the nonzero sums by place and cell, in slices of users."""
        own, groups, everyone = (_unpack(some) for some in (
            [row for row in rows if row["users"]], [row for row in rows if row["groups"]],
            [row for row in rows if not row["users"] and not row["groups"]]))
        own, groups = _sorted_by_holder(own), _sorted_by_holder(groups)
        bounds = np.searchsorted(groups[0], np.arange(self._group_count + 1))
        sizes = np.diff(bounds)[self._member_group]
        expanded = len(own[0]) + int(sizes.sum()) + len(everyone[0]) * self._users
        used = np.zeros(self._cells, bool)
        for counts in (own, groups, everyone):
            used[counts[1]] = True
        used = np.flatnonzero(used)
        if len(used) * len(np.unique(groups[0])) > TABLE_CELLS or len(used) * self._users > SPARSE * expanded:
            yield from self._merge_sparse(own, groups, everyone, bounds, sizes, expanded)
        else:
            yield from self._merge_dense(own, groups, everyone, used)

    def _merge_dense(self, own: Sums, groups: Sums, everyone: Sums, used: Array) -> Iterator[Sums]:
        """Add up tables with a row for each group or user, and a column for each used cell."""
        column_of = np.zeros(self._cells, np.int64)
        column_of[used] = np.arange(len(used))
        own, groups, everyone = ((one[0], column_of[one[1]], *one[2:]) for one in (own, groups, everyone))
        members = GroupRows(self._group_count, self._member_place, self._member_group, [groups[0]])
        group_tables = [_add_to_table(members.rows, len(used), members.row_of[groups[0]], groups[1], counts)
                        for counts in groups[2:]]
        step = max(1, CHUNK_BYTES // (4 * max(1, len(used))))
        for first in range(0, self._users, step):
            users = np.arange(first, min(first + step, self._users))
            begin, end = np.searchsorted(own[0], [users[0], users[-1] + 1])
            place, column = own[0][begin:end] - first, own[1][begin:end]
            gained, lost = (
                self._add_tables(members, table, users, len(used), place, column, counts[begin:end], everyone[1], of_everyone)
                for table, counts, of_everyone in zip(group_tables, own[2:], everyone[2:], strict=True))
            differs = gained if lost is None else lost if gained is None else (gained != 0) | (lost != 0)
            if differs is None:
                continue
            where = np.flatnonzero(differs)
            place, column = divide(where, len(used))
            counts = [np.zeros(len(where), np.int64) if table is None else table.reshape(-1)[where].astype(np.int64)
                      for table in (gained, lost)]
            yield place + first + self._first, used[column], counts[0], counts[1]

    @staticmethod
    def _add_tables(members: GroupRows, group_table: Array | None, users: Array, columns: int, place: Array, column: Array,
                    counts: Array, everyone_column: Array, everyone: Array) -> Array | None:
        """Return the counts of these users by column; None if all are zero."""
        if group_table is None and not counts.any() and not everyone.any():
            return None
        if group_table is None:
            table = np.zeros((len(users), columns), np.int32)
        else:
            table = members.combine(group_table, np.add, users)
        np.add.at(table.reshape(-1), place * columns + column, counts.astype(np.int32))
        everyone_table = _add_to_table(1, columns, np.zeros(len(everyone), np.int64), everyone_column, everyone)
        if everyone_table is not None:
            table += everyone_table[0]
        return table

    def _merge_sparse(self, own: Sums, groups: Sums, everyone: Sums, bounds: Array, sizes: Array,
                      expanded: int) -> Iterator[Sums]:
        """Sort the counts of all users; those of groups once for each member. For results that use few of very many cells."""
        step = -(-self._users // max(1, -(-expanded // MERGED_COUNTS)))
        for first in range(0, self._users, step):
            last = min(first + step, self._users)
            found = [_slice(own, first, last), self._expand_groups(groups, bounds, sizes, first, last),
                     _for_each(np.arange(first, last), everyone)]
            place, cell, gained, lost = (np.concatenate(column) for column in zip(*found, strict=True))
            yield self._sum(place, cell, gained, lost)

    def _expand_groups(self, groups: Sums, bounds: Array, sizes: Array, first: int, last: int) -> list[Array]:
        """Return the counts of the groups, for each member among the users from `first` to `last`."""
        begin, end = np.searchsorted(self._member_place, [first, last])
        which = ranges(bounds[self._member_group[begin:end]], sizes[begin:end])
        return [np.repeat(self._member_place[begin:end], sizes[begin:end]), *(column[which] for column in groups[1:])]

    def _sum(self, place: Array, cell: Array, gained: Array, lost: Array) -> Sums:
        key, gained, lost = add_by_key(place * self._cells + cell, gained, lost)
        differs = (gained != 0) | (lost != 0)
        if not differs.all():
            key, gained, lost = key[differs], gained[differs], lost[differs]
        place, cell = divide(key, self._cells)
        return place + self._first, cell, gained, lost


def _add_to_table(rows: int, columns: int, row: Array, column: Array, counts: Array) -> Array | None:
    """Return a table with these counts added; None if all are zero."""
    if not counts.any():
        return None
    table = np.zeros((rows, columns), np.int32)
    np.add.at(table.reshape(-1), row * columns + column, counts.astype(np.int32))
    return table


def _unpack(rows: list[dict[str, Any]]) -> Sums:
    """Return (holders, cells, gained, lost) of rows of one type of holder. The holders of everyone's counts are zeros."""
    empty = np.empty(0, np.int64)
    cells, gained, lost = (np.concatenate([empty, *(from_bytes(row[name]) for row in rows)])
                           for name in ("cells", "gained", "lost"))
    packed = [row["users"] or row["groups"] for row in rows]
    holders = np.concatenate([empty, *map(from_bytes, packed)]) if all(packed) else np.zeros(len(cells), np.int64)
    return holders, cells, gained, lost


def _sorted_by_holder(counts: Sums) -> Sums:
    holders = counts[0]
    if not len(holders) or (holders[1:] >= holders[:-1]).all():
        return counts
    # numpy sorts small integer types by radix.
    order = np.argsort(holders.astype(np.min_scalar_type(int(holders.max()))), kind="stable")
    return tuple(column[order] for column in counts)  # type: ignore[return-value]


def _slice(counts: tuple[Array, ...], first: int, last: int) -> list[Array]:
    begin, end = np.searchsorted(counts[0], [first, last])
    return [column[begin:end] for column in counts]


def _for_each(users: Array, counts: tuple[Array, ...]) -> list[Array]:
    return [np.repeat(users, len(counts[0])), *(np.tile(column, len(users)) for column in counts[1:])]


def _table_rows(sums: tuple[Array, ...], directory: Directory, columns: Columns, rules: Array,
                cells: CellNumbers) -> Iterator[pa.RecordBatch]:
    for first in range(0, len(sums[0]), TABLE_ROWS):
        place, cell, gained, lost = (column[first : first + TABLE_ROWS] for column in sums)
        rule, rank = divide(cell, cells.namespaces)
        values: dict[str, Callable[[], pa.Array]] = {
            "user": partial(dictionary_array, place, directory.user_names),
            "namespace": partial(dictionary_array, rank, directory.namespace_names),
            "gained": partial(pa.array, gained), "lost": partial(pa.array, lost)}
        yield pa.record_batch({name: dictionary_array(rules[rule], pa.array(shown)) if isinstance(shown, tuple)
                               else values[shown]() for name, shown in columns})


def dictionary_array(numbers: Array, texts: pa.Array) -> pa.DictionaryArray:
    """Return the text of each number. The dictionary contains only the texts that occur."""
    least = int(numbers.min())
    occurs = np.zeros(int(numbers.max()) - least + 1, bool)
    occurs[numbers - least] = True
    index = np.cumsum(occurs, dtype=np.int32) - np.int32(1)
    return pa.DictionaryArray.from_arrays(index[numbers - least], texts.take(pa.array(np.nonzero(occurs)[0] + least)))


def merge_holders(shared: Shared) -> BatchFunction:
    """Return a function from PARTIAL_HOLDERS of whole namespaces to tables.READINESS, sorted."""
    def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        by_rank: dict[int, list[dict[str, Any]]] = {}
        for batch in batches:
            for row in batch.to_pylist():
                by_rank.setdefault(row["rank"], []).append(row)
        if not by_rank:
            return
        directory = Directory.load(shared)
        kept, size = [], 0
        for rank in sorted(by_rank):
            place, held = _holders_of(by_rank.pop(rank), directory)
            kept.append((np.full(len(place), rank), place, held))
            size += len(place)
            if size > TABLE_ROWS:
                yield _readiness_rows(kept, directory)
                kept, size = [], 0
        if kept:
            yield _readiness_rows(kept, directory)

    return merge


def _holders_of(rows: list[dict[str, Any]], directory: Directory) -> tuple[Array, Array]:
    """Return (places, held) of the holders in one namespace, by place. The counts of groups are expanded to their members."""
    members, bounds = directory.members_by_group
    places, held = [], []
    for row in rows:
        counts = from_bytes(row["held"])
        if row["users"]:
            places.append(from_bytes(row["users"]).astype(np.int64))
            held.append(counts)
        else:
            groups = from_bytes(row["groups"]).astype(np.int64)
            sizes = bounds[groups + 1] - bounds[groups]
            places.append(directory.user_places[members[ranges(bounds[groups], sizes)]])
            held.append(np.repeat(counts, sizes))
    place, sums, _ = add_by_key(np.concatenate(places), np.concatenate(held).astype(np.int64), np.zeros(1, np.int8))
    return place, sums


def _readiness_rows(kept: list[tuple[Array, Array, Array]], directory: Directory) -> pa.RecordBatch:
    rank, place, held = (np.concatenate(column) for column in zip(*kept, strict=True))
    required = directory.required[rank]
    return pa.record_batch({
        "namespace": dictionary_array(rank, directory.namespace_names),
        "user": dictionary_array(place, directory.user_names), "required": required, "held": held,
        "missing": required - held, "ready": required == held})
