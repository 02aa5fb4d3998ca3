"""Compare a report with the previous report of the same analysis and options, and write the table `changes`.

DuckDB joins both tables by their key, with temporary files if they exceed its memory.
"""

import logging
from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from analytics.analyses import AnalysisError, analysis_by_name
from analytics.arrow import arrow_schema
from analytics.models import AnalysisRun
from analytics.results.database import spilling_database
from analytics.results.files import table_dataset
from analytics.results.read import report_manifest
from analytics.storage import StorageError, discard_folder, storage_path, storage_problem, storage_root
from analytics.tables import Table
from grants.models import JobState

logger = logging.getLogger(__name__)

CHANGES = ("added", "removed", "changed")
ROWS_PER_BATCH = 100_000
# of DuckDB; the worker also has the memory of Spark
MEMORY_LIMIT = "300MB"


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

    `check` is called for each batch of changes; its exceptions are not caught.
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
    try:
        filesystem.create_dir(path)
        with pq.ParquetWriter(
            f"{path}/part-00000.parquet", schema, filesystem=filesystem, compression="zstd"
        ) as writer:
            for batch in _changes(analysis.rows, folder, earlier):
                check()
                writer.write_batch(pa.record_batch(batch.columns, schema=schema))
                for count in pc.value_counts(batch.column("change")).to_pylist():
                    counts[count["values"]] += count["counts"]
    except OSError as error:
        # errors of reading were converted
        raise StorageError(storage_problem(error)) from error
    return counts


def _changes(rows: Table, folder: str, earlier: AnalysisRun) -> Iterator[pa.RecordBatch]:
    """Yield the rows of `changes`, sorted by the key. Raise StorageError if one of the reports cannot be read."""
    before = report_manifest(earlier)
    with spilling_database(MEMORY_LIMIT) as database:
        # the names of the tables in the query
        database.register("rows_after", table_dataset(rows, folder))
        database.register("rows_before", table_dataset(rows, earlier.result_path, manifest=before))
        yield from database.sql(_query(rows)).to_arrow_reader(ROWS_PER_BATCH)


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
