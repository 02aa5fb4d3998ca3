"""Advance a result table: replace the rows of the areas that changed, and keep all others.

The rows of an area are computed again by the same functions, from the part of the tenant that they depend on
(`analytics.spark.area_input`). A file of the older result in which no row differs is linked or copied.
"""

import os
from bisect import bisect_left
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from analytics.arrow import arrow_schema
from analytics.results.index import read_file_index
from analytics.spark.area_input import Area, dictionary_of
from analytics.spark.sorted_table import result_writer
from analytics.storage import Place, link_or_copy, parquet_paths
from analytics.tables import ColumnType, Table

FILES_AT_ONCE = os.cpu_count() or 1


def advance_table(
    table: Table, base: Place, place: Place, fresh: pa.Table, areas: Sequence[Area]
) -> frozenset[str]:
    """Write a table: the rows of an older one outside of the areas, and the fresh rows inside. Return the namespaces of rows that
    differ.

    base, place: the folders of the older and of the new table, on this machine. fresh: all rows of the areas now, in any
    order. Memory depends on the fresh rows, and on the largest file.
    """
    place.filesystem.create_dir(place.path)
    fresh = _in_key_order(
        with_dictionaries(fresh.select(table.column_names).cast(arrow_schema(table))), table
    )
    paths = parquet_paths(base.filesystem, base.path)
    indexed = {file.name: file for file in read_file_index(base.filesystem, base.path) or ()}
    users = _users_of(areas) if table.key[0] == "user" else None

    def advance(path: str, share: pa.Table) -> set[str]:
        name = path.rpartition("/")[2]
        is_outside = users is not None and name in indexed and not indexed[name].may_contain(users)
        rows, namespaces = (
            (None, set()) if is_outside and not share.num_rows else _advanced_rows(path, share, table, areas)
        )
        if rows is None:
            link_or_copy(place.filesystem, path, f"{place.path}/{name}")
        else:
            _write(rows, table, f"{place.path}/{name}", pq.read_metadata(path).metadata)
        return namespaces

    with ThreadPoolExecutor(FILES_AT_ONCE) as threads:
        shares = _shares(fresh, [_first_key(path, table) for path in paths], table)
        return frozenset().union(*threads.map(advance, paths, shares))


def _users_of(areas: Sequence[Area]) -> Collection[str] | None:
    """Return the users of all areas; None if an area has all users."""
    users: set[str] = set()
    for area in areas:
        if area.users is None:
            return None
        users |= area.users
    return users


def _first_key(path: str, table: Table) -> tuple:
    """Return the key of the first row of a file; empty for a file without rows."""
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(1, columns=list(table.key)):
            return tuple(batch.column(name)[0].as_py() for name in table.key)
    return ()


def _shares(fresh: pa.Table, first_keys: Sequence[tuple], table: Table) -> list[pa.Table]:
    """Return the fresh rows that belong into each file. first_keys: of the files, in their order; empty for a file without
    rows, which gets none unless it is the first.
    """
    keys = list(zip(*(fresh[name].to_pylist() for name in table.key), strict=True))
    limits = [len(keys)]
    for key in reversed(first_keys[1:]):
        limits.append(bisect_left(keys, key) if key else limits[-1])
    # rows before the first key of all files belong into the first one
    limits.append(0)
    return [fresh.slice(begin, end - begin) for begin, end in pairwise(reversed(limits))]


def _advanced_rows(
    path: str, share: pa.Table, table: Table, areas: Sequence[Area]
) -> tuple[pa.Table | None, set[str]]:
    """Return the rows of a file with other rows in the areas, and the namespaces of rows that differ. The rows are None if none
    differs.
    """
    rows = pq.read_table(path, read_dictionary=_texts(table)).select(table.column_names).unify_dictionaries()
    mask = reduce(np.logical_or, (area.mask(rows) for area in areas), np.zeros(rows.num_rows, bool))
    if not mask.any() and not share.num_rows:
        return None, set()
    schema = arrow_schema(table)
    older, newer = rows.filter(pa.array(mask)).cast(schema), share.cast(schema)
    if older.equals(newer):
        return None, set()
    advanced = _in_key_order(
        pa.concat_tables([rows.filter(pa.array(~mask)), share.cast(rows.schema)]).unify_dictionaries(), table
    )
    different = (
        one.join(other, table.column_names, join_type="left anti")
        for one, other in ((older, newer), (newer, older))
    )
    return advanced, {name for part in different for name in part["namespace"].unique().to_pylist()}


def _in_key_order(rows: pa.Table, table: Table) -> pa.Table:
    """Return the rows in the order of the key. rows: with one dictionary for each text."""
    codes = np.zeros(rows.num_rows, np.int64)
    for name in table.key:
        texts = dictionary_of(rows[name])
        ranks = np.empty(len(texts.dictionary), np.int64)
        ranks[pc.sort_indices(texts.dictionary).to_numpy()] = np.arange(len(ranks))
        codes = codes * max(1, len(ranks)) + ranks[texts.indices.to_numpy()]
    return rows.take(pa.array(np.argsort(codes, kind="stable")))


def with_dictionaries(rows: pa.Table) -> pa.Table:
    """Return the rows with one dictionary for each text."""
    encoded = [
        column.dictionary_encode() if pa.types.is_string(column.type) else column for column in rows.columns
    ]
    return pa.table(encoded, names=rows.column_names).unify_dictionaries()


def _texts(table: Table) -> list[str]:
    return [column.name for column in table.columns if column.type == ColumnType.TEXT]


def _write(rows: pa.Table, table: Table, path: str, metadata: dict[bytes, bytes]) -> None:
    with result_writer(path, rows.schema, [table.column_names.index(name) for name in table.key]) as writer:
        writer.write_table(rows, row_group_size=max(1, rows.num_rows))
        writer.add_key_value_metadata(metadata)
