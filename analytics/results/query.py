"""Queries on a report's tables: a filter as SQL, and a DuckDB database that reads the tables' files."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field

import duckdb

from analytics.analyses import AnalysisError
from analytics.results.database import spilling_database
from analytics.results.files import table_dataset
from analytics.results.manifest import ReportManifest
from analytics.tables import ColumnType, Table
from entities.frozen import frozen
from entities.vocabulary import KINDS


@frozen
class ResultFilter:
    """Conditions on rows. A row is selected if it meets all of them.

    equal: by column, the exact value. among: by column, the possible values. containing: by text column, a
    part of the text, ignoring case. namespace: the name of the namespace of the row; empty is outside of all namespaces.
    """

    equal: Mapping[str, str | int | bool] = field(default_factory=dict)
    among: Mapping[str, Sequence[str | int]] = field(default_factory=dict)
    containing: Mapping[str, str] = field(default_factory=dict)
    namespace: str | None = None


EVERYTHING = ResultFilter()


@contextmanager
def open_database(
    table: Table, folder: str, where: ResultFilter = EVERYTHING, *, manifest: ReportManifest | None = None
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database in which the table has its own name. DuckDB reads only the columns and row groups that
    a query needs.

    where: the filter of all queries in this database; files without matching rows are not read.
    manifest: the manifest of a signed report. Raise StorageError, ResultsGone or ReportChanged if the table
    cannot be read.
    """
    with spilling_database() as database:
        database.register(table.name, table_dataset(table, folder, _first_key_values(table, where), manifest))
        yield database


def _first_key_values(table: Table, where: ResultFilter) -> list[str] | None:
    """Return the values that the filter allows in the first key column; None if it allows all."""
    first = table.key[0]
    if first in where.equal:
        return [str(where.equal[first])]
    return [str(value) for value in where.among[first]] if first in where.among else None


def filter_condition(table: Table, where: ResultFilter) -> tuple[str, list]:
    """Return the WHERE clause of a filter and its parameters. Empty if the filter selects all rows.

    Raise AnalysisError if the table does not have one of the columns.
    """
    parts: list[str] = []
    values: list = []
    for name, value in where.equal.items():
        parts.append(f"{quoted_column(table, name)} = ?")
        values.append(value)
    for name, among in where.among.items():
        parts.append(f"list_contains(?, {quoted_column(table, name)})")
        values.append(list(among))
    for name, value in where.containing.items():
        parts.append(f"contains(lower({quoted_column(table, name, ColumnType.TEXT)}), lower(?))")
        values.append(value)
    if where.namespace is not None:
        parts.append(f"{namespace_expression(table)} = ?")
        values.append(where.namespace)
    return (" WHERE " + " AND ".join(parts) if parts else ""), values


def namespace_expression(table: Table) -> str:
    """Return the SQL for the name of the namespace of a row. The table has a column `namespace` or `entity`."""
    if "namespace" in table.column_names:
        return quoted_column(table, "namespace", ColumnType.TEXT)
    entity = quoted_column(table, "entity", ColumnType.TEXT)
    outside = ", ".join(
        f"'{kind.name}'"
        for kind in KINDS.values()
        if kind.name != "namespace" and kind.parent in (None, "instance")
    )
    key = f"substr({entity}, strpos({entity}, ':') + 1)"
    return f"CASE WHEN split_part({entity}, ':', 1) IN ({outside}) THEN '' ELSE split_part({key}, '.', 1) END"


def row_order(table: Table, sort: str, descending: bool) -> str:
    """Return the ORDER BY expressions: the column `sort` if there is one, then the key.

    Raise AnalysisError if the table has no such column.
    """
    first = (
        [quoted_column(table, sort) + (" DESC NULLS LAST" if descending else " ASC NULLS LAST")]
        if sort
        else []
    )
    return ", ".join([*first, *(quoted_column(table, name) for name in table.key)])


def quoted_column(table: Table, name: str, type_: ColumnType | None = None) -> str:
    """Return the name of a column in quotation marks. Raise AnalysisError if the table has no such column of
    this type.

    All column names from requests are checked here, so a request cannot inject SQL.
    """
    names = [column.name for column in table.columns if type_ in (None, column.type)]
    if name not in names:
        raise AnalysisError(
            f"the column `{name}` cannot be used here; the possible columns are {', '.join(names)}"
        )
    return f'"{name}"'


def column_list(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
