"""The typed rows that describe a tenant to the engine.

Every row type has its own columns, and every column has one meaning. All types travel through one exchange, so they share one
wide schema, `ROWS`; `row_type` says which columns of a row are filled. The others hold NONE and are never read.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle

if TYPE_CHECKING:
    pass

cloudpickle.register_pickle_by_value(sys.modules[__name__])

Array = np.ndarray
# An absent number: the family of an entity in no container, the application of an entity in none, an unused column.
NONE = -1
USER, GROUP, EVERYONE = range(3)
IN_APPLICATION, IN_NAMESPACE = range(2)

# family: the id of the namespace (or application) whose contents are evaluated together; NONE for entities in none
# block: the number of a piece of a family that is too large for one unit; 0 in families that are not split
# kind: the number of the entity's kind in the rule set; on a grant NONE where the entity is no target or has a target row
# entity: the id of the target, or of the granted entity. application: the id of the application that contains it
# container: the id of a container of targets
# principal_type: USER, GROUP or EVERYONE. principal: the id of the user or group
# privilege: its number. fact: the number of a fact in the rule set
# scope: IN_APPLICATION or IN_NAMESPACE, the kind of the container of a container grant
COLUMNS: dict[str, str] = {
    "row_type": "tinyint", "family": "bigint", "block": "int", "kind": "int", "entity": "bigint", "application": "bigint",
    "container": "bigint", "principal_type": "tinyint", "principal": "bigint", "privilege": "tinyint", "fact": "int",
    "scope": "tinyint",
}
_NUMPY = {"tinyint": np.int8, "int": np.int32, "bigint": np.int64}


@dataclass(frozen=True, slots=True, eq=False)
class TargetRows:
    """Entities whose rules are evaluated."""

    family: Array
    block: Array
    kind: Array
    entity: Array
    application: Array


@dataclass(frozen=True, slots=True, eq=False)
class GrantRows:
    """Grants, each in the block of the granted entity. kind: set where the grant alone lists the entity as a target."""

    family: Array
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

    family: Array
    block: Array
    scope: Array
    container: Array
    principal_type: Array
    principal: Array
    privilege: Array


@dataclass(frozen=True, slots=True, eq=False)
class DescendantGrantRows:
    """Grants inside `container`, on entities in another block: they count for the container, or for all of its family."""

    family: Array
    block: Array
    container: Array
    principal_type: Array
    principal: Array
    privilege: Array


@dataclass(frozen=True, slots=True, eq=False)
class PrecomputedFactRows:
    """Facts that are known to be true of a principal on an entity."""

    family: Array
    block: Array
    entity: Array
    principal_type: Array
    principal: Array
    fact: Array


RowArrays = TargetRows | GrantRows | ContainerGrantRows | DescendantGrantRows | PrecomputedFactRows
Rows = TypeVar("Rows", TargetRows, GrantRows, ContainerGrantRows, DescendantGrantRows, PrecomputedFactRows)
ROW_TYPES: tuple[type[RowArrays], ...] = (TargetRows, GrantRows, ContainerGrantRows, DescendantGrantRows, PrecomputedFactRows)


@dataclass(frozen=True, slots=True, eq=False)
class TenantRows:
    """The rows of one partition, by type. names: the addresses of the targets, if encoded with names."""

    targets: TargetRows
    grants: GrantRows
    container_grants: ContainerGrantRows
    descendant_grants: DescendantGrantRows
    precomputed_facts: PrecomputedFactRows
    names: pa.Array | None = None


def row_number(row_type: type[RowArrays]) -> int:
    """Return the value of the column `row_type`."""
    return ROW_TYPES.index(row_type)


def column_names(row_type: type[RowArrays]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(row_type))


def checked(row_type: type[RowArrays], columns: Mapping[str, object]) -> None:
    """Raise TypeError unless `columns` are those of the row type."""
    if set(columns) != set(column_names(row_type)):
        raise TypeError(f"{row_type.__name__} has the columns {column_names(row_type)}, not {tuple(columns)}")


def take(rows: Rows, which: Array) -> Rows:
    """Return the rows that an index array or a mask selects."""
    return type(rows)(*(getattr(rows, name)[which] for name in column_names(type(rows))))


def concatenate(row_type: type[Rows], parts: Sequence[Mapping[str, Array]]) -> Rows:
    """Return the rows of these column mappings, one after the other."""
    for part in parts:
        checked(row_type, part)

    def column(name: str) -> Array:
        return np.concatenate([np.empty(0, np.int64), *(np.asarray(part[name], np.int64) for part in parts)])

    return row_type(*(column(name) for name in column_names(row_type)))


def decode(batches: list[pa.RecordBatch]) -> TenantRows:
    """Return the rows in these batches of the wide schema. If there is a column `name`, include the addresses of the targets."""
    table = pa.Table.from_batches(batches).combine_chunks()
    row_type = table.column("row_type").to_numpy()
    columns = {name: table.column(name).to_numpy() for name in COLUMNS if name != "row_type"}
    where = [np.nonzero(row_type == number)[0] for number in range(len(ROW_TYPES))]
    rows = [kind(*(columns[name][at].astype(np.int64, copy=False) for name in column_names(kind)))
            for kind, at in zip(ROW_TYPES, where, strict=True)]
    names = table.column("name").combine_chunks().take(pa.array(where[0])) if "name" in table.column_names else None
    return TenantRows(*rows, names=names)  # type: ignore[arg-type, misc]


def to_batch(rows: TenantRows) -> pa.RecordBatch:
    """Return the rows in the wide schema; the inverse of `decode`."""
    parts: list[RowArrays] = [rows.targets, rows.grants, rows.container_grants, rows.descendant_grants, rows.precomputed_facts]
    counts = [len(part.family) for part in parts]
    columns: dict[str, object] = {"row_type": np.repeat(np.arange(len(parts), dtype=np.int8), counts)}
    for name, sql_type in list(COLUMNS.items())[1:]:
        filled = [getattr(part, name, np.full(count, NONE)) for part, count in zip(parts, counts, strict=True)]
        columns[name] = np.concatenate(filled).astype(_NUMPY[sql_type])
    if rows.names is not None:
        columns["name"] = pa.concat_arrays([rows.names, pa.nulls(sum(counts[1:]), pa.string())])
    return pa.record_batch(columns)
