"""Reading what a run wrote: a page of rows, or all of them in order, never the whole table in memory."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import NoReturn

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow.fs import FileType

from analytics.analyses import Analysis, AnalysisError, analysis_named
from analytics.arrow import arrow_schema
from analytics.models import AnalysisRun, RunState
from analytics.results.index import INDEX_NAME, IndexedFile, files_by_footers, read_file_index, write_file_index
from analytics.storage import StorageError, file_paths, storage_path, storage_root
from analytics.tables import ColumnType, Table

ROWS_A_PAGE = 50
ROWS_AT_ONCE = 10_000
# of a whole table
ROWS_A_BATCH = 65_536
# beyond this DuckDB goes on in files
MOST_MEMORY = "1GB"
MOST_CHARACTERS_OF_A_CAUSE = 200


class ResultsGone(AnalysisError):
    """The report was there once."""


class TableLeftOut(AnalysisError):
    """The report was made without this table."""


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

    Raises AnalysisError naming the columns or tables there are, ResultsGone, TableLeftOut, and StorageError where the files
    cannot be read.
    """
    table = table_readable(run, table_name)
    condition, values = _condition(table, where)
    if not condition and not sort:
        return _page_as_written(table, run.result_folder, first_row, most_rows)
    order = _order(table, sort, descending)
    with tables_open(table, {table.name: run.result_folder}, where) as database:
        total_rows = _matching(database, table, run.result_folder, condition, values)
        found = database.execute(
            f"SELECT {_list(table.column_names)} FROM {table.name}{condition} ORDER BY {order} LIMIT ? OFFSET ?",
            [*values, most_rows, first_row],
        ).fetchall()
    return ResultPage([dict(zip(table.column_names, row, strict=True)) for row in found], total_rows)


def row_counts(run: AnalysisRun, table_name: str, *, by: str, where: ResultFilter = EVERYTHING) -> dict[str, int]:
    """How many rows each value of the text column `by` has; values without a row are left out. Raises as `result_page` does."""
    table = table_readable(run, table_name)
    column = _column(table, by, ColumnType.TEXT)
    condition, values = _condition(table, where)
    with tables_open(table, {table.name: run.result_folder}, where) as database:
        counted = database.execute(f"SELECT {column}, count(*) FROM {table.name}{condition} GROUP BY ALL", values)
        return dict(counted.fetchall())


def _matching(database: duckdb.DuckDBPyConnection, table: Table, folder: str, condition: str, values: list) -> int:
    if not condition:
        # DuckDB would read the rows to count them
        return sum(file.rows for file in _files(table, folder))
    return database.execute(f"SELECT count(*) FROM {table.name}{condition}", values).fetchone()[0]


def _page_as_written(table: Table, folder: str, first_row: int, most_rows: int) -> ResultPage:
    """Return a page in the order of the key, which is the order of the files. Opens only the files that hold its rows."""
    rows: list[dict] = []
    rows_before = 0
    with results_reading():
        for file in _files(table, folder):
            start = max(0, first_row - rows_before)
            wanted = min(most_rows - len(rows), file.rows - start)
            if wanted > 0:
                rows += _rows_of_file(table, folder, file, start, wanted)
            rows_before += file.rows
    return ResultPage(rows, rows_before)


def _rows_of_file(table: Table, folder: str, file: IndexedFile, start: int, wanted: int) -> list[dict]:
    """Return `wanted` rows from row `start` on. Reads only the row groups that hold them."""
    filesystem, _ = storage_root()
    rows: list[dict] = []
    rows_before = 0
    with filesystem.open_input_file(_file_path(table, folder, file)) as opened:
        parquet = pq.ParquetFile(opened)
        for group in range(parquet.num_row_groups):
            group_rows = parquet.metadata.row_group(group).num_rows
            first = max(0, start - rows_before)
            if first < group_rows and len(rows) < wanted:
                rows += _rows_of_group(parquet, group, table.column_names, first, min(wanted - len(rows), group_rows - first))
            rows_before += group_rows
    return rows


def _rows_of_group(parquet: pq.ParquetFile, group: int, columns: Sequence[str], start: int, wanted: int) -> list[dict]:
    found: list[dict] = []
    for batch in parquet.iter_batches(ROWS_AT_ONCE, row_groups=[group], columns=list(columns)):
        if start < batch.num_rows:
            found += batch.slice(start, wanted - len(found)).to_pylist()
        if len(found) == wanted:
            break
        start = max(0, start - batch.num_rows)
    return found


def result_stream(run: AnalysisRun, table_name: str, *, where: ResultFilter = EVERYTHING) -> Iterator[pa.RecordBatch]:
    """All rows of a finished run's table that the filter lets through, by its key. Raises as `result_page`, at the call."""
    batches = result_batches(table_readable(run, table_name), run.result_folder, where=where)
    first = next(batches, None)
    return batches if first is None else chain([first], batches)


def result_batches(table: Table, folder: str, *, where: ResultFilter = EVERYTHING) -> Iterator[pa.RecordBatch]:
    """Rows of a written table in the order of its key. Raises ResultsGone, StorageError where a file cannot be read."""
    if where != EVERYTHING:
        yield from _chosen_batches(table, folder, where)
        return
    filesystem, _ = storage_root()
    with results_reading():
        for path in _paths(table, folder):
            with filesystem.open_input_file(path) as file:
                yield from pq.ParquetFile(file).iter_batches(ROWS_A_BATCH, columns=list(table.column_names))


def _chosen_batches(table: Table, folder: str, where: ResultFilter) -> Iterator[pa.RecordBatch]:
    condition, values = _condition(table, where)
    query = f"SELECT {_list(table.column_names)} FROM {table.name}{condition} ORDER BY {_list(table.key)}"
    with tables_open(table, {table.name: folder}, where) as database:
        yield from database.sql(query, params=values).to_arrow_reader(ROWS_AT_ONCE)


def figures(analysis: Analysis, folder: str) -> dict[str, int]:
    """What the head of the report shows."""
    return {name: _one(analysis.table(table_name), folder, aggregate)
            for name, (table_name, aggregate) in analysis.figures.items()}


def sum_of(expression: str, table: Table, folder: str) -> int:
    """expression: SQL over the columns of the table, from the list of analyses."""
    return _one(table, folder, f"coalesce(sum({expression}), 0)::BIGINT")


def _one(table: Table, folder: str, aggregate: str) -> int:
    with tables_open(table, {table.name: folder}) as database:
        (value,) = database.execute(f"SELECT {aggregate} FROM {table.name}").fetchone()
    return value


def table_readable(run: AnalysisRun, table_name: str) -> Table:
    """The table, where the run's report has it. Raises AnalysisError, ResultsGone, TableLeftOut."""
    table = analysis_named(run.analysis).table(table_name)
    if run.state != RunState.DONE:
        raise AnalysisError(f"run {run.pk} is {run.state}: it has no report")
    if run.results_removed_at is not None:
        raise ResultsGone(f"the report of run {run.pk} was removed on {run.results_removed_at:%d %B %Y}, because later ones took "
                          f"its place or it was too old; run the analysis again")
    if table.name == "detail" and not run.summary.get("detail_is_written", True):
        raise TableLeftOut(f"the detail was left out of the report of run {run.pk}: its {run.summary.get('detail_rows', 0):,} "
                           f"rows are more than the console keeps; `manage.py analyze` with --detail writes it")
    if table.name == "changes" and not run.summary.get("changes"):
        raise TableLeftOut(f"run {run.pk} was compared with nothing: there was no report of the same analysis with the same "
                           f"options before it")
    return table


def _folder_path(table: Table, folder: str) -> str:
    return storage_path(f"{folder}/{table.name}")


def _file_path(table: Table, folder: str, file: IndexedFile) -> str:
    return f"{_folder_path(table, folder)}/{file.name}"


def _files(table: Table, folder: str) -> list[IndexedFile]:
    """Return the table's files in the order of its key. Opens the index; every file if a report of an old version has none."""
    filesystem, _ = storage_root()
    files = read_file_index(filesystem, _folder_path(table, folder)) if folder else []
    if files is None:
        return files_by_footers(filesystem, _paths(table, folder), table.key[0])
    return files or _refuse_missing_files()


def _paths(table: Table, folder: str) -> list[str]:
    filesystem, _ = storage_root()
    paths = file_paths(filesystem, _folder_path(table, folder), ".parquet") if folder else []
    return paths or _refuse_missing_files()


def _refuse_missing_files() -> NoReturn:
    raise ResultsGone("the report's files are gone from the folder of snapshots and results; run the analysis again")


def _dataset(table: Table, folder: str, where: ResultFilter = EVERYTHING) -> ds.Dataset:
    """Return the table as a dataset without the files that, by the index, hold no row that the filter lets through."""
    filesystem, _ = storage_root()
    # with the schema given, no file is opened to learn it; Spark writes every column as nullable
    schema = pa.schema([field.with_nullable(True) for field in arrow_schema(table)])
    return ds.dataset(_paths_for(table, folder, where), schema=schema, filesystem=filesystem, format="parquet")


def _paths_for(table: Table, folder: str, where: ResultFilter) -> list[str]:
    filesystem, _ = storage_root()
    values = _first_key_values(table, where)
    files = read_file_index(filesystem, _folder_path(table, folder)) if folder and values is not None else None
    if files is None:
        return _paths(table, folder)
    return [_file_path(table, folder, file) for file in files if file.may_hold(values)]


def _first_key_values(table: Table, where: ResultFilter) -> list[str] | None:
    """Return the values that the filter lets through in the first key column; None if it lets all through."""
    if table.key[0] in where.equal:
        return [where.equal[table.key[0]]]
    return where.among.get(table.key[0])


def write_index(table: Table, folder: str) -> None:
    """Write the index of a written table, unless whoever wrote its files has written the index too."""
    filesystem, _ = storage_root()
    path = _folder_path(table, folder)
    if filesystem.get_file_info(f"{path}/{INDEX_NAME}").type != FileType.File:
        files = files_by_footers(filesystem, file_paths(filesystem, path, ".parquet"), table.key[0])
        write_file_index(filesystem, path, files)


@contextmanager
def tables_open(
    table: Table, folders: Mapping[str, str], where: ResultFilter = EVERYTHING
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database that knows the table of each folder by the name given to it.

    DuckDB reads only the columns and row groups that a query needs.
    """
    with results_reading(), tempfile.TemporaryDirectory(prefix="authzconsole-duckdb-") as beside:
        with duckdb.connect(config={"memory_limit": MOST_MEMORY, "temp_directory": beside}) as database:
            for name, folder in folders.items():
                database.register(name, _dataset(table, folder, where))
            yield database


@contextmanager
def results_reading() -> Iterator[None]:
    """A file that is cut off or damaged shows when it is opened, or only when its rows are read. Raises StorageError."""
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


def _list(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
