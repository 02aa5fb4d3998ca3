"""What a run finds otherwise than the run before it: the table `changes`, written from the Parquet files of both.

DuckDB joins the two and goes on in files where they do not fit its memory; nothing of them is held here but a batch.
"""

import logging
from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from analytics.analyses import AnalysisError, analysis_named
from analytics.arrow import arrow_schema
from analytics.models import AnalysisRun, RunState
from analytics.results.read import ROWS_AT_ONCE, results_reading, tables_open
from analytics.storage import StorageError, storage_path, storage_root
from analytics.tables import Table

logger = logging.getLogger(__name__)

CHANGES = ("added", "removed", "changed")


def previous_report(run: AnalysisRun) -> AnalysisRun | None:
    """The newest earlier run of the same analysis with the same options whose report is kept."""
    earlier = AnalysisRun.objects.filter(analysis=run.analysis, options=run.options, state=RunState.DONE, pk__lt=run.pk,
                                         results_removed_at=None)
    return earlier.order_by("-pk").first()


def changes_since(run: AnalysisRun, folder: str, *, check: Callable[[], None]) -> dict | None:
    """Write the changes of the report in `folder` since the run before. None where there is none to compare with.

    Returns the `run` and `revision` that it was compared with, and how many rows were added, removed and changed. A report
    before this one that cannot be read is no reason to lose this one. Raises what `check` raises, between batches of rows.
    """
    earlier = previous_report(run)
    if earlier is None:
        return None
    try:
        counts = _changes_write(run, folder, earlier.result_folder, check)
    except (AnalysisError, StorageError) as error:
        logger.warning("%s could not be compared with run %s: %s", run, earlier.pk, error)
        return None
    return {"run": earlier.pk, "revision": earlier.revision, **counts}


def _changes_write(run: AnalysisRun, folder: str, folder_before: str, check: Callable[[], None]) -> dict[str, int]:
    analysis = analysis_named(run.analysis)
    schema, counts = arrow_schema(analysis.changes), dict.fromkeys(CHANGES, 0)
    filesystem, _ = storage_root()
    path = storage_path(f"{folder}/{analysis.changes.name}")
    with results_reading():
        filesystem.create_dir(path)
        with pq.ParquetWriter(f"{path}/part-00000.parquet", schema, filesystem=filesystem, compression="zstd") as writer:
            for batch in _batches(analysis.rows, folder, folder_before):
                check()
                writer.write_batch(pa.record_batch(batch.columns, schema=schema))
                for found in pc.value_counts(batch.column("change")).to_pylist():
                    counts[found["values"]] += found["counts"]
    return counts


def _batches(rows: Table, folder: str, folder_before: str) -> Iterator[pa.RecordBatch]:
    with tables_open(rows, {"rows_after": folder, "rows_before": folder_before}) as database:
        yield from database.sql(_query(rows)).to_arrow_reader(ROWS_AT_ONCE)


def _query(rows: Table) -> str:
    """The columns of `changes`, by key. No column of a key is ever null, so a null one says that there is no such row."""
    others = [name for name in rows.column_names if name not in rows.key]
    keys = ", ".join(f'coalesce(a."{name}", b."{name}")' for name in rows.key)
    versions = "".join(f', {version}."{name}"' for name in others for version in ("b", "a"))
    same = " AND ".join(f'a."{name}" = b."{name}"' for name in rows.key)
    differs = " OR ".join(f'a."{name}" IS DISTINCT FROM b."{name}"' for name in others) or "false"
    first = rows.key[0]
    places = ", ".join(str(place) for place in range(1, len(rows.key) + 1))
    return (f"""SELECT {keys}, CASE WHEN b."{first}" IS NULL THEN 'added' WHEN a."{first}" IS NULL THEN 'removed' """
            f"""ELSE 'changed' END AS change{versions} FROM rows_after a FULL OUTER JOIN rows_before b ON {same} """
            f"""WHERE a."{first}" IS NULL OR b."{first}" IS NULL OR {differs} ORDER BY {places}""")
