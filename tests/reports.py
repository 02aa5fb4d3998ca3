"""Reports written by hand, as a worker would have written them."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from analytics.analyses import analysis_named
from analytics.models import AnalysisRun, RunState
from analytics.snapshot import arrow_schema

FINAL = {"generation": "final", "namespace": ""}


def report_write(place: Path, run: AnalysisRun, tables: Mapping[str, Iterable[tuple]]) -> None:
    """place: the folder that SNAPSHOT_URI names."""
    for name, rows in tables.items():
        table = analysis_named(run.analysis).table(name)
        schema, folder = arrow_schema(table), place / run.result_folder / name
        folder.mkdir(parents=True)
        rows = [dict(zip(table.column_names, row, strict=True)) for row in rows]
        pq.write_table(pa.Table.from_pylist(rows, schema), folder / "part-0.parquet")


def done_run(place: Path, tables: Mapping[str, Iterable[tuple]], *, analysis: str = "delete-readiness",
             options: dict | None = None, **facts) -> AnalysisRun:
    """A finished run whose report lies in a folder of its own."""
    options = FINAL if options is None else options
    run = AnalysisRun.objects.create(analysis=analysis, options=options, state=RunState.DONE, **facts)
    run.result_folder = f"results/by-hand-{run.pk}"
    run.save(update_fields=["result_folder"])
    report_write(place, run, tables)
    return run
