"""The typed rows that describe a tenant to the engine.

Every row type has its own columns, and every column has one meaning. All types travel through one exchange,
so they share one wide schema, `COLUMNS`. The column `row_type` says which columns of a row are filled; the
others contain NONE and are never read.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle

cloudpickle.register_pickle_by_value(sys.modules[__name__])

Array = np.ndarray
# No number: the subtree of an entity outside namespaces, the application of an entity outside applications,
# an unused column.
NONE = -1
USER, GROUP, EVERYONE = range(3)
IN_APPLICATION, IN_NAMESPACE = range(2)

# subtree: the id of the namespace (or application) that contains the entity; all entities of a subtree are evaluated together
# block: the number of a piece of a subtree that is too large for one unit; 0 in subtrees that are not split
# kind: the number of the entity's kind in the rule set; of a grant, NONE if its entity is not a target or has a target row
# entity: the id of the target, or of the granted entity
# application: the id of the application that contains the entity; an application contains itself
# container: the id of a container of targets
# principal_type: USER, GROUP or EVERYONE
# principal: the id of the user or group
# privilege: the number of the privilege
# fact: the number of a fact in the rule set
# scope: IN_APPLICATION or IN_NAMESPACE, the kind of the container of a container grant
COLUMNS: dict[str, str] = {
    "row_type": "tinyint",
    "subtree": "bigint",
    "block": "int",
    "kind": "int",
    "entity": "bigint",
    "application": "bigint",
    "container": "bigint",
    "principal_type": "tinyint",
    "principal": "bigint",
    "privilege": "tinyint",
    "fact": "int",
    "scope": "tinyint",
}
_NUMPY_TYPES = {"tinyint": np.int8, "int": np.int32, "bigint": np.int64}


@dataclass(frozen=True, slots=True, eq=False)
class TargetRows:
    """Entities for which rules are evaluated."""

    subtree: Array
    block: Array
    kind: Array
    entity: Array
    application: Array


@dataclass(frozen=True, slots=True, eq=False)
class GrantRows:
    """Grants, each in the block of the granted entity.

    kind: set if the entity is a target without a target row.
    """

    subtree: Array
    block: Array
    kind: Array
    entity: Array
    application: Array
    principal_type: Array
    principal: Array
    privilege: Array


@dataclass(frozen=True, slots=True, eq=False)
class ContainerGrantRows:
    """Grants on a container in another block, which count for the targets inside the container in this block."""

    subtree: Array
    block: Array
    scope: Array
    container: Array
    principal_type: Array
    principal: Array
    privilege: Array


@dataclass(frozen=True, slots=True, eq=False)
class DescendantGrantRows:
    """Grants inside `container`, on entities in another block: they count for the container, or for its whole
    subtree.
    """

    subtree: Array
    block: Array
    container: Array
    principal_type: Array
    principal: Array
    privilege: Array


@dataclass(frozen=True, slots=True, eq=False)
class PrecomputedFactRows:
    """Facts that are known to be true of a principal on an entity."""

    subtree: Array
    block: Array
    entity: Array
    principal_type: Array
    principal: Array
    fact: Array


Rows = TargetRows | GrantRows | ContainerGrantRows | DescendantGrantRows | PrecomputedFactRows
RowsT = TypeVar("RowsT", TargetRows, GrantRows, ContainerGrantRows, DescendantGrantRows, PrecomputedFactRows)
ROW_TYPES: tuple[type[Rows], ...] = (
    TargetRows,
    GrantRows,
    ContainerGrantRows,
    DescendantGrantRows,
    PrecomputedFactRows,
)


@dataclass(frozen=True, slots=True, eq=False)
class TenantRows:
    """The rows of one partition, by type. names: the addresses of the targets, if they were encoded; else
    None.
    """

    targets: TargetRows
    grants: GrantRows
    container_grants: ContainerGrantRows
    descendant_grants: DescendantGrantRows
    precomputed_facts: PrecomputedFactRows
    names: pa.Array | None = None


def row_type_number(row_type: type[Rows]) -> int:
    """Return the value of the column `row_type`."""
    return ROW_TYPES.index(row_type)


def column_names(row_type: type[Rows]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(row_type))


def check_columns(row_type: type[Rows], columns: Mapping[str, object]) -> None:
    """Raise TypeError unless `columns` are those of the row type."""
    if set(columns) != set(column_names(row_type)):
        raise TypeError(f"{row_type.__name__} has the columns {column_names(row_type)}, not {tuple(columns)}")


def select_rows(rows: RowsT, selection: Array) -> RowsT:
    """Return the selected rows. selection: an array of row indexes, or a mask."""
    return type(rows)(*(getattr(rows, name)[selection] for name in column_names(type(rows))))


def rows_from_columns(row_type: type[RowsT], mappings: Sequence[Mapping[str, Array]]) -> RowsT:
    """Return the rows of these mappings, one mapping after the other. Each maps column names to arrays."""
    for mapping in mappings:
        check_columns(row_type, mapping)

    def column(name: str) -> Array:
        return np.concatenate(
            [np.empty(0, np.int64), *(np.asarray(mapping[name], np.int64) for mapping in mappings)]
        )

    return row_type(*(column(name) for name in column_names(row_type)))


def decode_batches(batches: list[pa.RecordBatch]) -> TenantRows:
    """Return the rows in batches with the wide schema.

    If there is a column `name`, include the addresses of the targets.
    """
    table = pa.Table.from_batches(batches).combine_chunks()
    type_numbers = table.column("row_type").to_numpy()
    columns = {name: table.column(name).to_numpy() for name in COLUMNS if name != "row_type"}
    row_indexes = [np.nonzero(type_numbers == number)[0] for number in range(len(ROW_TYPES))]
    rows = [
        row_type(*(columns[name][indexes].astype(np.int64, copy=False) for name in column_names(row_type)))
        for row_type, indexes in zip(ROW_TYPES, row_indexes, strict=True)
    ]
    target_indexes = pa.array(row_indexes[row_type_number(TargetRows)])
    names = (
        table.column("name").combine_chunks().take(target_indexes) if "name" in table.column_names else None
    )
    return TenantRows(*rows, names=names)  # type: ignore[arg-type, misc]


def encode_batch(rows: TenantRows) -> pa.RecordBatch:
    """Return the rows as a batch with the wide schema; the inverse of `decode_batches`."""
    all_rows: list[Rows] = [
        rows.targets,
        rows.grants,
        rows.container_grants,
        rows.descendant_grants,
        rows.precomputed_facts,
    ]
    counts = [len(typed_rows.subtree) for typed_rows in all_rows]
    columns: dict[str, object] = {"row_type": np.repeat(np.arange(len(all_rows), dtype=np.int8), counts)}
    for name, sql_type in list(COLUMNS.items())[1:]:
        values = [
            getattr(typed_rows, name, np.full(count, NONE))
            for typed_rows, count in zip(all_rows, counts, strict=True)
        ]
        columns[name] = np.concatenate(values).astype(_NUMPY_TYPES[sql_type])
    if rows.names is not None:
        columns["name"] = pa.concat_arrays([rows.names, pa.nulls(sum(counts[1:]), pa.string())])
    return pa.record_batch(columns)
