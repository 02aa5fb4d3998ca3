"""Reading what a run wrote: a page of rows, or all of them in order, never the whole table in memory."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from analytics.analyses import Analysis, AnalysisError, analysis_named
from analytics.models import AnalysisRun, RunState
from analytics.storage import StorageError, file_paths, storage_path, storage_root
from analytics.tables import ColumnType, Table

ROWS_A_PAGE = 50
MOST_CHARACTERS_OF_A_CAUSE = 200


@dataclass(frozen=True, slots=True)
class ResultFilter:
    """Which rows to show. equal: column and exact value. among: column and the values of which it has one.

    containing: text column and a part of it, in any case.
    """

    equal: Mapping[str, str | int | bool] = field(default_factory=dict)
    among: Mapping[str, Sequence[str | int]] = field(default_factory=dict)
    containing: Mapping[str, str] = field(default_factory=dict)


EVERYTHING = ResultFilter()


@dataclass(frozen=True, slots=True)
class ResultPage:
    """rows: each a dict by column. total_rows: of all that the filter lets through."""

    rows: list[dict]
    total_rows: int


def result_page(
    run: AnalysisRun,
    table_name: str = "rows",
    *,
    where: ResultFilter = EVERYTHING,
    sort: str = "",
    descending: bool = False,
    first_row: int = 0,
    most_rows: int = ROWS_A_PAGE,
) -> ResultPage:
    """Rows of a finished run's table, by `sort`, then by its key.

    Raises AnalysisError naming the columns or tables there are, and StorageError where the files cannot be read.
    """
    table = _readable(run, table_name)
    condition, values = _condition(table, where)
    order = _order(table, sort, descending)
    with _open(table, run.result_folder) as database:
        (total_rows,) = database.execute(f"SELECT count(*) FROM {table.name}{condition}", values).fetchone()
        found = database.execute(
            f"SELECT {_list(table.column_names)} FROM {table.name}{condition} ORDER BY {order} LIMIT ? OFFSET ?",
            [*values, most_rows, first_row],
        ).fetchall()
    return ResultPage([dict(zip(table.column_names, row, strict=True)) for row in found], total_rows)


def result_batches(table: Table, folder: str) -> Iterator[pa.RecordBatch]:
    """All rows of a written table in the order of its key. Raises StorageError where a file cannot be read."""
    filesystem, _ = storage_root()
    with _reading():
        for path in file_paths(filesystem, storage_path(f"{folder}/{table.name}"), ".parquet"):
            with filesystem.open_input_file(path) as file:
                yield from pq.ParquetFile(file).iter_batches(columns=list(table.column_names))


def figures(analysis: Analysis, folder: str) -> dict[str, int]:
    """What the head of the report shows."""
    return {name: _one(analysis.table(table_name), folder, aggregate)
            for name, (table_name, aggregate) in analysis.figures.items()}


def sum_of(expression: str, table: Table, folder: str) -> int:
    """expression: SQL over the columns of the table, from the list of analyses."""
    return _one(table, folder, f"coalesce(sum({expression}), 0)::BIGINT")


def _one(table: Table, folder: str, aggregate: str) -> int:
    with _open(table, folder) as database:
        (value,) = database.execute(f"SELECT {aggregate} FROM {table.name}").fetchone()
    return value


def _readable(run: AnalysisRun, table_name: str) -> Table:
    table = analysis_named(run.analysis).table(table_name)
    if run.state != RunState.DONE:
        raise AnalysisError(f"run {run.pk} is {run.state}: it has no report")
    return table


@contextmanager
def _open(table: Table, folder: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database that knows the table by its name. DuckDB reads only the columns and row groups that a query needs."""
    filesystem, _ = storage_root()
    with _reading():
        paths = file_paths(filesystem, storage_path(f"{folder}/{table.name}"), ".parquet")
        if not paths:
            raise AnalysisError("the report's files are gone from the folder of snapshots and results; run the analysis again")
        with duckdb.connect() as database:
            database.register(table.name, ds.dataset(paths, filesystem=filesystem, format="parquet"))
            yield database


@contextmanager
def _reading() -> Iterator[None]:
    """A file that is cut off or damaged shows when it is opened, or only when its rows are read."""
    try:
        yield
    except (OSError, pa.ArrowException, duckdb.Error) as error:
        cause = (str(error).splitlines() or [type(error).__name__])[0][:MOST_CHARACTERS_OF_A_CAUSE].rstrip(". ")
        raise StorageError(f"the report's files are damaged or out of reach ({cause}); run the analysis again") from error


def _condition(table: Table, where: ResultFilter) -> tuple[str, list]:
    parts, values = [], []
    for name, value in where.equal.items():
        parts.append(f"{_column(table, name)} = ?")
        values.append(value)
    for name, among in where.among.items():
        parts.append(f"list_contains(?, {_column(table, name)})")
        values.append(list(among))
    for name, value in where.containing.items():
        parts.append(f"contains(lower({_column(table, name, ColumnType.TEXT)}), lower(?))")
        values.append(value)
    return (" WHERE " + " AND ".join(parts) if parts else ""), values


def _order(table: Table, sort: str, descending: bool) -> str:
    chosen = [_column(table, sort) + (" DESC NULLS LAST" if descending else " ASC NULLS LAST")] if sort else []
    return ", ".join([*chosen, *(_column(table, name) for name in table.key)])


def _column(table: Table, name: str, type_: ColumnType | None = None) -> str:
    """The quoted name of a column; only names that the table has reach the query."""
    names = [c.name for c in table.columns if type_ in (None, c.type)]
    if name not in names:
        raise AnalysisError(f"`{name}` is not a column that can be used so; there is {', '.join(names)}")
    return f'"{name}"'


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(f'"{name}"' for name in names)
