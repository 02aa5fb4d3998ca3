"""Read a report: a page of rows, all rows in order, or sums. A whole table is never in memory."""

from collections.abc import Iterator, Sequence
from itertools import chain

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileType

from analytics.analyses import AnalysisError, analysis_by_name
from analytics.models import AnalysisRun
from analytics.results.database import first_value, translate_read_errors
from analytics.results.files import (
    ResultsGone,
    raise_results_gone,
    table_file_paths,
    table_files,
    table_path,
)
from analytics.results.manifest import ReportChanged, ReportManifest, load_manifest
from analytics.results.query import (
    EVERYTHING,
    ResultFilter,
    column_list,
    filter_condition,
    namespace_expression,
    open_database,
    quoted_column,
    row_order,
)
from analytics.storage import storage_root
from analytics.tables import ColumnType, Table
from entities.frozen import frozen
from grants.models import JobState

PAGE_ROWS = 50
# Rows in a batch that is read for a page or from a query.
QUERY_BATCH_ROWS = 10_000
# Rows in a batch when a whole table is read.
STREAM_BATCH_ROWS = 65_536


class TableLeftOut(AnalysisError):
    """The report does not contain this table."""

    status = 409


@frozen
class ResultPage:
    """A page of a result table.

    rows: one dict for each row, by column. total_rows: the number of rows that the filter selects, on all
    pages.
    """

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
    max_rows: int = PAGE_ROWS,
) -> ResultPage:
    """Return rows of a finished run's table, sorted by the column `sort` and then by the key.

    A page without `where` and `sort` opens only the index of the table and the files with the rows of the
    page. Raise AnalysisError for an unknown table or column, ResultsGone, TableLeftOut, and StorageError if a
    file cannot be read.
    """
    table, manifest = readable_table(run, table_name), report_manifest(run)
    condition, values = filter_condition(table, where)
    if not condition and not sort:
        return _page_in_key_order(table, run.result_path, manifest, first_row, max_rows)
    order = row_order(table, sort, descending)
    with open_database(table, run.result_path, where, manifest=manifest) as database:
        if condition:
            total_rows = first_value(
                database.execute(f"SELECT count(*) FROM {table.name}{condition}", values)
            )
        else:
            # DuckDB would read the rows to count them.
            total_rows = sum(file.rows for file in table_files(table, run.result_path, manifest))
        rows = database.execute(
            f"SELECT {column_list(table.column_names)} FROM {table.name}{condition} ORDER BY {order} LIMIT ? OFFSET ?",
            [*values, max_rows, first_row],
        ).fetchall()
    return ResultPage([dict(zip(table.column_names, row, strict=True)) for row in rows], total_rows)


def first_rows(run: AnalysisRun, table_name: str, where: ResultFilter, max_rows: int) -> list[dict]:
    """Return the first rows by the key. Raise the errors of `result_page`.

    Unlike `result_page`, it stops reading at the last of these rows.
    """
    table, manifest = readable_table(run, table_name), report_manifest(run)
    condition, values = filter_condition(table, where)
    with open_database(table, run.result_path, where, manifest=manifest) as database:
        # The files are in the order of the key, and DuckDB keeps the order of rows; ORDER BY would read all of them.
        rows = database.execute(
            f"SELECT {column_list(table.column_names)} FROM {table.name}{condition} LIMIT ?",
            [*values, max_rows],
        ).fetchall()
    return [dict(zip(table.column_names, row, strict=True)) for row in rows]


def row_counts(
    run: AnalysisRun, table_name: str, *, by: str, where: ResultFilter = EVERYTHING
) -> dict[str, int]:
    """Return the number of rows for each value of the text column `by`, without values that have no row.

    Raise the errors of `result_page`.
    """
    table, manifest = readable_table(run, table_name), report_manifest(run)
    column = quoted_column(table, by, ColumnType.TEXT)
    condition, values = filter_condition(table, where)
    with open_database(table, run.result_path, where, manifest=manifest) as database:
        counts = database.execute(
            f"SELECT {column}, count(*) FROM {table.name}{condition} GROUP BY ALL", values
        )
        return dict(counts.fetchall())


def namespace_counts(
    run: AnalysisRun, table_name: str, *, where: ResultFilter, max_rows: int
) -> dict[str, int]:
    """Return the number of rows for each namespace, the largest first; empty is outside of all namespaces.

    The table has a column `namespace` or `entity`. Raise the errors of `result_page`.
    """
    table, manifest = readable_table(run, table_name), report_manifest(run)
    condition, values = filter_condition(table, where)
    with open_database(table, run.result_path, where, manifest=manifest) as database:
        counts = database.execute(
            f"SELECT {namespace_expression(table)} AS name, count(*) AS rows FROM {table.name}{condition} GROUP BY name "
            "ORDER BY rows DESC, name LIMIT ?",
            [*values, max_rows],
        )
        return dict(counts.fetchall())


def _page_in_key_order(
    table: Table, folder: str, manifest: ReportManifest | None, first_row: int, max_rows: int
) -> ResultPage:
    """Return a page in the order of the key, which is the order of the files.

    Opens only the files with the rows of the page.
    """
    rows: list[dict] = []
    rows_before = 0
    with translate_read_errors():
        for file in table_files(table, folder, manifest):
            start = max(0, first_row - rows_before)
            count = min(max_rows - len(rows), file.rows - start)
            if count > 0:
                path = f"{table_path(table, folder)}/{file.name}"
                if manifest is not None:
                    manifest.check_files(storage_root()[0], [path])
                rows += _file_rows(path, table.column_names, start, count)
            rows_before += file.rows
    return ResultPage(rows, rows_before)


def _file_rows(path: str, columns: Sequence[str], start: int, count: int) -> list[dict]:
    """Return `count` rows of a file, beginning with the row `start`. The file has all of these rows.

    Reads only the row groups with these rows.
    """
    filesystem, _ = storage_root()
    rows: list[dict] = []
    with filesystem.open_input_file(path) as opened:
        parquet, group = pq.ParquetFile(opened), 0
        while start >= (group_rows := parquet.metadata.row_group(group).num_rows):
            start, group = start - group_rows, group + 1
        groups = range(group, parquet.num_row_groups)
        for batch in parquet.iter_batches(QUERY_BATCH_ROWS, row_groups=groups, columns=list(columns)):
            if start < batch.num_rows:
                rows += batch.slice(start, count - len(rows)).to_pylist()
            if len(rows) == count:
                break
            start = max(0, start - batch.num_rows)
    return rows


def result_stream(
    run: AnalysisRun, table_name: str, *, where: ResultFilter = EVERYTHING
) -> Iterator[pa.RecordBatch]:
    """Return all rows of a finished run's table that the filter selects, by key.

    Raise the errors of `result_page` at once, not when the first batch is requested.
    """
    batches = result_batches(
        readable_table(run, table_name), run.result_path, where=where, manifest=report_manifest(run)
    )
    first = next(batches, None)
    return batches if first is None else chain([first], batches)


def result_batches(
    table: Table, folder: str, *, where: ResultFilter = EVERYTHING, manifest: ReportManifest | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a written table by key. Raise ResultsGone, and StorageError if a file cannot be read.

    manifest: the manifest of a signed report; all files are verified before the first batch.
    """
    if where != EVERYTHING:
        yield from _filtered_batches(table, folder, where, manifest)
        return
    filesystem, _ = storage_root()
    with translate_read_errors():
        paths = table_file_paths(table, folder, manifest)
        if manifest is not None:
            manifest.check_files(filesystem, paths)
        for path in paths:
            with filesystem.open_input_file(path) as file:
                yield from pq.ParquetFile(file).iter_batches(
                    STREAM_BATCH_ROWS, columns=list(table.column_names)
                )


def _filtered_batches(
    table: Table, folder: str, where: ResultFilter, manifest: ReportManifest | None
) -> Iterator[pa.RecordBatch]:
    condition, values = filter_condition(table, where)
    query = f"SELECT {column_list(table.column_names)} FROM {table.name}{condition} ORDER BY {column_list(table.key)}"
    with open_database(table, folder, where, manifest=manifest) as database:
        yield from database.sql(query, params=values).to_arrow_reader(QUERY_BATCH_ROWS)


def readable_table(run: AnalysisRun, table_name: str) -> Table:
    """Return a table of the run's report.

    Raise AnalysisError, ResultsGone or TableLeftOut if it cannot be read.
    """
    table = analysis_by_name(run.type).table(table_name)
    if run.state != JobState.DONE:
        raise AnalysisError(f"run {run.pk} is {run.state}: it has no report")
    if run.result_removed_at is not None:
        raise ResultsGone(
            f"the report of run {run.pk} was removed on {run.result_removed_at:%d %B %Y}, because newer "
            f"reports replaced it or it was too old; run the analysis again"
        )
    if table.name == "detail" and not run.summary.get("detail_is_written", True):
        raise TableLeftOut(
            f"the report of run {run.pk} has no detail table: its {run.summary.get('detail_rows', 0):,} "
            f"rows are more than the console keeps; `manage.py analyze` with --detail writes them to a file"
        )
    if table.name == "changes" and (fault := run.summary.get("comparison_fault")):
        raise TableLeftOut(
            f"the comparison of run {run.pk} with run {fault['run']} failed: {fault['reason']}"
        )
    if table.name == "changes" and not run.summary.get("changes"):
        raise TableLeftOut(
            f"run {run.pk} was not compared: there was no earlier report of the same analysis with the same "
            f"options"
        )
    return table


def report_manifest(run: AnalysisRun) -> ReportManifest | None:
    """Return the verified manifest of a run's report; None if the report is not signed.

    Pass it to the functions that read the report. Each process opens the manifest once.
    Raise ResultsGone, ReportChanged or StorageError if the manifest cannot be read or is not valid.
    """
    if not run.result_hash:
        return None
    with translate_read_errors():
        try:
            return load_manifest(run)
        except FileNotFoundError:
            filesystem, root = storage_root()
            if filesystem.get_file_info(f"{root}/{run.result_path}").type == FileType.NotFound:
                raise_results_gone()
            raise ReportChanged("its manifest is missing") from None
