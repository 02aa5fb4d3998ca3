"""Compute a report: one analysis, from the snapshot to its tables.

Used by the worker and by `manage.py analyze`.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from importlib import import_module

from analytics.analyses import Analysis, Output
from analytics.java import java_problem
from analytics.models import RunStage
from analytics.report import ComputedReport, Progress
from analytics.results.files import write_index
from analytics.results.read import figures, sum_of_rows
from analytics.runs.database_retry import retry_database
from analytics.snapshots.snapshot import lease_snapshot
from analytics.snapshots.spark_tables import tables_of_snapshot
from analytics.spark.analysis_input import AnalysisInput
from analytics.spark.engine import release_broadcasts
from analytics.spark.schemas import read_table, write_table
from analytics.spark.session import SparkUnavailable
from analytics.storage import spark_uri, storage_path
from grants.policies.times import format_time


def compute_report(
    *,
    analysis: Analysis,
    options: Mapping[str, str],
    folder: str,
    max_detail_rows: int | None,
    progress: Progress,
) -> ComputedReport:
    """Write the tables of the analysis into `folder`, below SNAPSHOT_URI.

    max_detail_rows: the detail table is only written if it has at most this many rows; with None, always.
    Raise StorageError, SparkUnavailable (SparkExited if Java ended), the exceptions of Spark and those of
    `progress.check`.
    """
    if problem := java_problem():
        raise SparkUnavailable(problem)
    progress.begin_stage(RunStage.SNAPSHOT)
    with ExitStack() as stack:
        snapshot = retry_database(
            lambda: stack.enter_context(lease_snapshot(check=progress.check)), check=progress.check
        )
        tables = tables_of_snapshot(snapshot, progress)
        progress.begin_stage(RunStage.COMPUTING)
        analysis_input = AnalysisInput(
            tables,
            options.get("generation", ""),
            options.get("to_generation", ""),
            options.get("namespace", ""),
        )
        for output in analysis.outputs:
            progress.check()
            _write_output(output, analysis_input, folder)
        progress.check()
        progress.begin_stage(RunStage.WRITING)
        detail_rows = sum_of_rows(analysis.detail_rows, analysis.rows, folder)
        detail_is_written = analysis.detail is not None and (
            max_detail_rows is None or detail_rows <= max_detail_rows
        )
        if detail_is_written and analysis.detail is not None:
            _write_output(analysis.detail, analysis_input, folder)
    summary = figures(analysis, folder) | {
        "detail_rows": detail_rows,
        "detail_is_written": detail_is_written,
        "at": format_time(snapshot.at),
    }
    if snapshot.replaced_fault:
        summary["snapshot_fault"] = snapshot.replaced_fault
    return ComputedReport(snapshot.revision, summary)


def _write_output(output: Output, analysis_input: AnalysisInput, folder: str) -> None:
    """Write one table and its index.

    Tables that are built later can read it from `analysis_input.earlier`.
    """
    module, _, function = output.build.partition(":")
    uri = spark_uri(storage_path(f"{folder}/{output.table.name}"))
    with release_broadcasts():
        write_table(getattr(import_module(module), function)(analysis_input), output.table, uri)
    write_index(output.table, folder)
    analysis_input.earlier[output.table.name] = read_table(
        analysis_input.tables.users.sparkSession, output.table, uri
    )
