"""Create finished runs with reports, as a worker would."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from django.utils import timezone

from analytics.analyses import analysis_by_name
from analytics.arrow import arrow_schema
from analytics.models import AnalysisRun
from analytics.results.database import figures
from analytics.results.manifest import write_report_manifest
from analytics.runs.figures import record_figures, report_figures
from analytics.storage import storage as storage_place
from analytics.storage_identity import storage_identity
from analytics.tables import Column, ColumnType
from grants.journal import current_revision
from grants.models import JobState

# Sample values of text columns, from the demo tenant.
SAMPLES = {
    "user": "sofia.lindqvist",
    "nearest_user": "sofia.lindqvist",
    "admin": "sofia.lindqvist",
    "principal": "group:contractors",
    "through": "group:contractors",
    "group": "contractors",
    "namespace": "logistics",
    "kind": "dataset",
    "entity": "dataset:finance.payroll.export",
    "privilege": "READ",
    "operation": "read",
    "state": "deleted",
    "reason": "quarterly close",
    "change": "changed",
}
FINAL = {"generation": "final", "namespace": ""}


def write_report(storage: Path, run: AnalysisRun, tables: Mapping[str, Iterable[tuple]]) -> None:
    """Write the tables of a report. storage: the folder of SNAPSHOT_URI."""
    for name, rows in tables.items():
        table = analysis_by_name(run.type).table(name)
        schema, folder = arrow_schema(table), storage / run.result_path / name
        folder.mkdir(parents=True)
        rows = [dict(zip(table.column_names, row, strict=True)) for row in rows]
        pq.write_table(pa.Table.from_pylist(rows, schema), folder / "part-0.parquet")


def sign_report(run: AnalysisRun) -> None:
    """Sign the report of a finished run, as a worker does."""
    run.result_hash = write_report_manifest(run, run.result_path, run.revision, check=lambda: None)
    run.save(update_fields=["result_hash"])


def create_report(
    storage: Path,
    tables: Mapping[str, Iterable[tuple]],
    *,
    analysis: str = "delete-readiness",
    options: dict | None = None,
    **fields,
) -> AnalysisRun:
    """Create a finished run with a report in a separate folder."""
    if options is None:
        # A real run has only the options of its analysis.
        options = {name: FINAL[name] for name in analysis_by_name(analysis).options if name in FINAL}
    run = AnalysisRun.objects.create(type=analysis, options=options, state=JobState.DONE, **fields)
    run.result_path = f"results/{storage_identity()}/by-hand-{run.pk}"
    run.save(update_fields=["result_path"])
    if run.finished_at is not None:
        record_figures(run, report_figures(run, run.summary), finished_at=run.finished_at)
    write_report(storage, run, tables)
    return run


def write_sample_report(storage: Path, run: AnalysisRun) -> None:
    """Finish the run with one row in each of its tables."""
    analysis, folder = analysis_by_name(run.type), f"results/samples-{run.pk}"
    run.state, run.result_path, run.revision, run.finished_at = (
        JobState.DONE,
        folder,
        current_revision(),
        timezone.now(),
    )
    write_report(
        storage, run, {table.name: [tuple(map(_sample, table.columns))] for table in analysis.tables}
    )
    run.summary = figures(
        analysis, {table.name: storage_place().child(folder).child(table.name) for table in analysis.tables}
    ) | {"detail_rows": 1, "detail_is_written": True}
    run.save()


def _sample(column: Column) -> str | int | bool:
    if column.type == ColumnType.TEXT:
        return SAMPLES.get(column.name.removesuffix("_before").removesuffix("_after"), "sample")
    return 3 if column.type == ColumnType.LONG else False
