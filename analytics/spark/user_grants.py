"""The grants of each user, directly and through groups, in the order of user, entity, privilege and holder.

There is a row for each grant and each user who has it, so a tenant with large groups has hundreds of millions. Therefore:

- The users are divided into parts of about the same number of rows. Spark sends a grant once to each part that has a
  user with it, and the worker of the part makes the rows.
- Spark sorts the grants, which are fewer. The worker keeps their order, and sorts the rows by the number of the user only.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.spark.batches import TABLE_BATCH_ROWS, BatchFunction, rows_by_part, table_bytes, table_of
from analytics.spark.engine.directory import Directory, DirectoryBroadcast, find_in
from analytics.spark.engine.encode import principal_type_number
from analytics.spark.engine.pairs import PairOrder
from analytics.spark.engine.rows import NONE, Array
from analytics.spark.engine.units import concatenated_ranges
from analytics.spark.schemas import Tables
from analytics.spark.sorted_table import SortedTable
from analytics.spark.temporary import release_later
from analytics.tables import Table

# One row for each part and source. source: the position of its grants among those of other sources, or NONE for uses.
# rows: grants in order, or uses, as an Arrow IPC stream.
PACKED_ROWS = "part int, source int, rows binary"
_NO_NAMESPACES = pa.table(
    {"id": pa.array([], pa.int64()), "name": pa.array([], pa.string()), "required": pa.array([], pa.int64())}
)


@dataclass(frozen=True, slots=True, eq=False)
class UserGrants:
    """Some rows of one part, in order.

    users: the rank of the user of each row. grants: the index of its grant in `table`, which has the columns entity_id,
    entity, privilege, principal and granted_at. last_uses: the index of the day on which the user last used the entity in
    `days`, where the first one is empty and stands for no use.
    """

    users: Array
    grants: Array
    last_uses: Array
    days: pa.Array
    table: pa.Table

    def select(self, selection: Any) -> "UserGrants":
        """Return the selected rows. selection: an array of indexes, a mask or a slice."""
        return replace(
            self,
            users=self.users[selection],
            grants=self.grants[selection],
            last_uses=self.last_uses[selection],
        )

    def batches(self) -> Iterator["UserGrants"]:
        """Yield the rows in pieces for the batches of a table."""
        for first in range(0, len(self.users), TABLE_BATCH_ROWS):
            yield self.select(slice(first, first + TABLE_BATCH_ROWS))


# Returns rows of a table from rows of users and grants. They are all the rows of some users.
RowBuilder = Callable[[Directory, UserGrants], Iterator[pa.RecordBatch]]


def user_grants(
    tables: Tables, grants: DataFrame, uses: DataFrame, table: Table, build: RowBuilder
) -> SortedTable:
    """Return a table that a function builds from the grants of each active user. Collects users, memberships and the
    number of grants of each principal.

    grants: principal_type, principal_id, entity_id, entity, privilege, principal (the written form) and granted_at.
    uses: user_id, entity_id and last_day.
    """
    spark = tables.users.sparkSession
    directory = Directory.build(
        tables.users.select("id", "name").toArrow(),
        tables.memberships.select("user_id", "group_id").toArrow(),
        _NO_NAMESPACES,
    )
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    order = PairOrder.split(("user",), _row_counts(tables, directory), 1, partitions)
    broadcast = spark.sparkContext.broadcast(directory.to_dict())
    release_later(broadcast.destroy)
    columns = (
        principal_type_number(),
        "principal_id",
        "entity_id",
        "entity",
        "privilege",
        "principal",
        "granted_at",
    )
    in_order = grants.select(*columns)
    if not tables.is_small:
        # The numbers of the partitions have the order of the entities, and are the sources of PACKED_ROWS.
        in_order = in_order.repartitionByRange(partitions, "entity")
    packed = in_order.mapInArrow(_pack_grants(order, broadcast), PACKED_ROWS).unionByName(
        uses.select("user_id", "entity_id", "last_day").mapInArrow(_pack_uses(order, broadcast), PACKED_ROWS)
    )
    if tables.is_small:
        packed = packed.coalesce(1)
    else:
        packed = packed.repartitionById(order.part_count, "part")
    return SortedTable(table, packed, _merge(order, broadcast, build))


def _row_counts(tables: Tables, directory: Directory) -> Array:
    """Return by user rank about how many rows each user has."""
    counts = (
        tables.grants.groupBy(principal_type_number(), "principal_id")
        .agg(F.count("*").alias("grants"))
        .toArrow()
    )
    holders = directory.principal_numbers(
        counts["principal_type"].to_numpy(), counts["principal_id"].to_numpy()
    )
    grants = np.zeros(directory.user_count + directory.group_count, np.int64)
    is_active = holders != NONE
    np.add.at(grants, holders[is_active], counts["grants"].to_numpy()[is_active])
    rows = grants[: directory.user_count].copy()
    np.add.at(rows, directory.member_users, grants[directory.user_count + directory.member_groups])
    by_rank = np.empty_like(rows)
    by_rank[directory.user_ranks] = rows
    return by_rank


@dataclass(frozen=True, slots=True, eq=False)
class _Holders:
    """The users of each principal, by rank: those of the principal number n are users[begins[n]:ends[n]]."""

    users: Array
    begins: Array
    ends: Array

    @staticmethod
    def of(directory: Directory, first: int = 0, end: int | None = None) -> "_Holders":
        """Return the holders among the users of these ranks: of the first, and those before the end."""
        users = np.append(directory.user_ranks, directory.user_ranks[directory.member_users])
        holders = np.append(np.arange(directory.user_count), directory.user_count + directory.member_groups)
        is_inside = (users >= first) & (users < (directory.user_count if end is None else end))
        users, holders = users[is_inside], holders[is_inside]
        by_holder = np.lexsort((users, holders))
        numbers = np.arange(directory.user_count + directory.group_count)
        begins, ends = (np.searchsorted(holders[by_holder], numbers, side=side) for side in ("left", "right"))
        return _Holders(users[by_holder], begins, ends)


def _pack_grants(order: PairOrder, broadcast: DirectoryBroadcast) -> BatchFunction:
    """Return a function that turns the grants on a range of entities into PACKED_ROWS."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        all_batches = list(batches)
        if not all_batches:
            return
        source = TaskContext.get().partitionId()
        directory = Directory.load(broadcast)
        grants = pa.Table.from_batches(all_batches).sort_by(
            [(name, "ascending") for name in ("entity", "privilege", "principal")]
        )
        holders = directory.principal_numbers(
            grants["principal_type"].to_numpy(), grants["principal_id"].to_numpy()
        )
        grants = grants.drop_columns(["principal_type", "principal_id"]).append_column(
            "holder", pa.array(holders)
        )
        # leave out the grants of inactive users, and of groups without active users
        grants, holders = grants.filter(pa.array(holders != NONE)), holders[holders != NONE]
        users = _Holders.of(directory)
        parts_of_users = np.searchsorted(order.first_keys, users.users, side="right") - 1
        is_in_part = np.zeros((len(users.begins), order.part_count), bool)
        is_in_part[np.repeat(np.arange(len(users.begins)), users.ends - users.begins), parts_of_users] = True
        for part in range(order.part_count):
            selected = np.flatnonzero(is_in_part[holders, part])
            if len(selected):
                yield _batch(part, source, grants.take(pa.array(selected)))

    return pack


def _pack_uses(order: PairOrder, broadcast: DirectoryBroadcast) -> BatchFunction:
    """Return a function that turns uses into PACKED_ROWS."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        directory = Directory.load(broadcast)
        for batch in batches:
            users = find_in(directory.user_ids, batch["user_id"].to_numpy())
            ranks = np.append(directory.user_ranks, NONE)[users]
            uses = pa.table({"user": ranks, "entity_id": batch["entity_id"], "last_day": batch["last_day"]})
            parts = np.where(users == NONE, NONE, np.searchsorted(order.first_keys, ranks, side="right") - 1)
            for part in np.unique(parts[parts != NONE]).tolist():
                yield _batch(part, NONE, uses.filter(pa.array(parts == part)))

    return pack


def _batch(part: int, source: int, rows: pa.Table) -> pa.RecordBatch:
    """Return a row of PACKED_ROWS."""
    return pa.record_batch(
        {
            "part": pa.array([part], pa.int32()),
            "source": pa.array([source], pa.int32()),
            "rows": pa.array([table_bytes(rows)], pa.binary()),
        }
    )


def _rows_of(packed: list[dict[str, Any]]) -> pa.Table | None:
    """Return the rows of all, by source; None if there are none."""
    if not packed:
        return None
    tables = [table_of(row["rows"]) for row in sorted(packed, key=lambda row: row["source"])]
    return pa.concat_tables(tables).combine_chunks()


def _merge(order: PairOrder, broadcast: DirectoryBroadcast, build: RowBuilder) -> BatchFunction:
    """Return a function that turns the PACKED_ROWS of whole parts into rows of a table."""

    def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = rows_by_part(batches)
        directory = Directory.load(broadcast)
        ends = np.append(order.first_keys[1:], directory.user_count)
        for part in sorted(parts):
            packed = parts.pop(part)
            table = _rows_of([row for row in packed if row["source"] != NONE])
            uses = _rows_of([row for row in packed if row["source"] == NONE])
            if table is None:
                continue
            holders = _Holders.of(directory, int(order.first_keys[part]), int(ends[part]))
            yield from build(directory, _rows_of_part(table, uses, holders))

    return merge


def _rows_of_part(table: pa.Table, uses: pa.Table | None, holders: _Holders) -> UserGrants:
    by_grant = table["holder"].to_numpy()
    begins, counts = holders.begins[by_grant], (holders.ends - holders.begins)[by_grant]
    users = holders.users[concatenated_ranges(begins, counts)]
    grants = np.repeat(np.arange(len(by_grant)), counts)
    # Stable, so the grants of a user stay in order; smaller numbers are sorted faster.
    by_user = np.argsort(users.astype(np.min_scalar_type(int(users.max(initial=0)))), kind="stable")
    users, grants = users[by_user], grants[by_user]
    return UserGrants(users, grants, *_last_uses(users, grants, table, uses), table)


def _last_uses(users: Array, grants: Array, table: pa.Table, uses: pa.Table | None) -> tuple[Array, pa.Array]:
    """Return last_uses and days of the rows, see UserGrants."""
    never, last_uses = pa.array([""], pa.string()), np.zeros(len(users), np.int32)
    if uses is None:
        return last_uses, never
    days = uses["last_day"].combine_chunks().dictionary_encode()
    day_by_use = np.append(days.indices.to_numpy() + 1, 0)
    used_entities, entity_by_use = np.unique(uses["entity_id"].to_numpy(), return_inverse=True)
    entity_by_grant = find_in(used_entities, table["entity_id"].to_numpy())
    # most rows are about entities that no user of the part used
    rows = np.flatnonzero(entity_by_grant[grants] != NONE)
    keys = users[rows] * len(used_entities) + entity_by_grant[grants[rows]]
    last_uses[rows] = day_by_use[find_in(uses["user"].to_numpy() * len(used_entities) + entity_by_use, keys)]
    return last_uses, pa.concat_arrays([never, days.dictionary])
