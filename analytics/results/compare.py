"""Compare a report with the previous report of the same analysis and options, and write the table `changes`.

Both tables are sorted by the same key, so they are merged as two streams. In each step, DuckDB compares the
rows of both tables up to the same key. A step keeps at most ROWS_PER_STEP rows and one batch of each table in
memory, for tables of any size.
"""

import logging
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from django.conf import settings

from analytics.analyses import AnalysisError, analysis_by_name
from analytics.arrow import arrow_schema
from analytics.folders import ScratchError, scratch_folder
from analytics.interrupts import interruptible_database
from analytics.models import AnalysisRun
from analytics.results.files import scratch_problem
from analytics.results.query import MEMORY_LIMIT
from analytics.results.read import report_manifest, result_batches
from analytics.storage import StorageError, discard_folder, storage_path, storage_problem, storage_root
from analytics.tables import Table
from grants.models import JobState

logger = logging.getLogger(__name__)

CHANGES = ("added", "removed", "changed")
ROWS_PER_STEP = 100_000

Key = tuple[str, ...]


def previous_report(run: AnalysisRun) -> AnalysisRun | None:
    """Return the newest earlier run of the same analysis and options that still has a report."""
    earlier = AnalysisRun.objects.filter(
        type=run.type,
        options=run.options,
        state=JobState.DONE,
        pk__lt=run.pk,
        result_removed_at=None,
    )
    return earlier.order_by("-pk").first()


def compare_with_previous(run: AnalysisRun, folder: str, *, check: Callable[[], None]) -> dict[str, dict]:
    """Write the changes from the previous report to the report in `folder`, and return the members for the
    summary of the run.

    - Without a previous report: none.
    - `changes`: `run` and `revision` of the previous report, and the number of rows `added`, `removed` and
    `changed`.
    - `comparison_fault`, if the comparison failed: `run` and the `reason`. The report is complete except for
    its changes.

    `check` is called in each step; its exceptions are not caught.
    """
    earlier = previous_report(run)
    if earlier is None:
        return {}
    try:
        counts = _write_changes(run, folder, earlier, check)
    except (AnalysisError, StorageError) as error:
        # an end of the run that was requested also interrupts the comparison
        check()
        logger.warning("%s could not be compared with run %s: %s", run, earlier.pk, error)
        discard_folder(f"{folder}/{analysis_by_name(run.type).changes.name}")
        # running the analysis again would not help, because the next run is compared with this one
        reason = str(error).rstrip(".").removesuffix("; run the analysis again")
        return {"comparison_fault": {"run": earlier.pk, "reason": reason}}
    return {"changes": {"run": earlier.pk, "revision": earlier.revision, **counts}}


def _write_changes(
    run: AnalysisRun, folder: str, earlier: AnalysisRun, check: Callable[[], None]
) -> dict[str, int]:
    analysis = analysis_by_name(run.type)
    schema, counts = arrow_schema(analysis.changes), dict.fromkeys(CHANGES, 0)
    filesystem, _ = storage_root()
    path = storage_path(f"{folder}/{analysis.changes.name}")
    with _translate_errors():
        filesystem.create_dir(path)
        with pq.ParquetWriter(
            f"{path}/part-00000.parquet", schema, filesystem=filesystem, compression="zstd"
        ) as writer:
            for changes in _collect_steps(_changes(analysis.rows, folder, earlier, check), schema):
                writer.write_table(changes)
                for count in pc.value_counts(changes.column("change")).to_pylist():
                    counts[count["values"]] += count["counts"]
    return counts


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Convert errors into StorageError.

    Errors of reading are converted where the rows are read, so others are about writing.
    """
    try:
        yield
    except OSError as error:
        raise StorageError(storage_problem(error)) from error
    except ScratchError as error:
        raise StorageError(str(error)) from error
    except (pa.ArrowException, duckdb.Error) as error:
        raise StorageError(
            scratch_problem(error) or f"the comparison failed: {str(error).splitlines()[0]}"
        ) from error


def _collect_steps(steps: Iterator[pa.Table], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the rows of several steps together.

    A step may have few changes, and row groups should be large.
    """
    buffered: list[pa.Table] = []
    for step in steps:
        buffered.append(pa.Table.from_arrays(step.columns, schema=schema))
        if sum(table.num_rows for table in buffered) >= ROWS_PER_STEP:
            yield pa.concat_tables(buffered)
            buffered = []
    if buffered:
        yield pa.concat_tables(buffered)


def _changes(rows: Table, folder: str, earlier: AnalysisRun, check: Callable[[], None]) -> Iterator[pa.Table]:
    """Yield the changes of each step, in the order of the key."""
    query = _query(rows)
    after = SortedRows(rows, result_batches(rows, folder))
    before = SortedRows(rows, result_batches(rows, earlier.result_path, manifest=report_manifest(earlier)))
    with (
        scratch_folder(settings.TEMP_DIR) as spill_folder,
        interruptible_database({"memory_limit": MEMORY_LIMIT, "temp_directory": spill_folder}) as database,
    ):
        for rows_after, rows_before in merge_steps(after, before):
            check()
            # the names of the tables in the query
            database.register("rows_after", rows_after)
            database.register("rows_before", rows_before)
            yield database.sql(query).to_arrow_table()


def merge_steps(after: "SortedRows", before: "SortedRows") -> Iterator[tuple[pa.Table, pa.Table]]:
    """Yield the rows of both tables step by step. Rows with the same key are in the same step."""
    while True:
        last_keys = [key for key in (after.fill(), before.fill()) if key is not None]
        if not last_keys:
            return
        yield after.pop_until(min(last_keys)), before.pop_until(min(last_keys))


class SortedRows:
    """A stream of the rows of a table, in the order of its key, with a buffer of the next rows."""

    def __init__(self, table: Table, batches: Iterator[pa.RecordBatch]) -> None:
        self._key, self._schema, self._batches = table.key, arrow_schema(table), batches
        self._buffered = self._schema.empty_table()

    @property
    def buffered_rows(self) -> int:
        return self._buffered.num_rows

    def fill(self) -> Key | None:
        """Read until ROWS_PER_STEP rows are buffered. Return the key of the last buffered row; None at the
        end of the table.

        Raise AnalysisError if a batch is not sorted after the previous batch, because the merge would report
        wrong changes.
        """
        rows, tables = self.buffered_rows, [self._buffered]
        last = self._key_at(self._buffered, rows - 1) if rows else None
        while rows < ROWS_PER_STEP and (batch := next(self._batches, None)) is not None:
            if not batch.num_rows:
                continue
            table = pa.Table.from_arrays(batch.columns, schema=self._schema)
            if last is not None and self._key_at(table, 0) < last:
                raise AnalysisError(f"its rows are not sorted by {', '.join(self._key)}")
            last = self._key_at(table, table.num_rows - 1)
            tables.append(table)
            rows += table.num_rows
        self._buffered = pa.concat_tables(tables)
        return last

    def pop_until(self, last: Key) -> pa.Table:
        """Remove and return the buffered rows up to and including this key."""
        count = bisect_right(
            range(self.buffered_rows), last, key=lambda number: self._key_at(self._buffered, number)
        )
        removed, self._buffered = self._buffered.slice(0, count), self._buffered.slice(count)
        return removed

    def _key_at(self, rows: pa.Table, number: int) -> Key:
        return tuple(rows.column(name)[number].as_py() for name in self._key)


def _query(rows: Table) -> str:
    """Return a query for the rows of `changes`, sorted by key.

    Key columns are never null in a table. A null key in the join means that the table has no such row.
    """
    others = [name for name in rows.column_names if name not in rows.key]
    keys = ", ".join(f'coalesce(a."{name}", b."{name}")' for name in rows.key)
    versions = "".join(f', {version}."{name}"' for name in others for version in ("b", "a"))
    has_same_key = " AND ".join(f'a."{name}" = b."{name}"' for name in rows.key)
    differs = " OR ".join(f'a."{name}" IS DISTINCT FROM b."{name}"' for name in others) or "false"
    first = rows.key[0]
    key_positions = ", ".join(str(position) for position in range(1, len(rows.key) + 1))
    return (
        f"""SELECT {keys}, CASE WHEN b."{first}" IS NULL THEN 'added' WHEN a."{first}" IS NULL THEN 'removed' """
        f"""ELSE 'changed' END AS change{versions} FROM rows_after a FULL OUTER JOIN rows_before b ON {has_same_key} """
        f"""WHERE a."{first}" IS NULL OR b."{first}" IS NULL OR {differs} ORDER BY {key_positions}"""
    )
