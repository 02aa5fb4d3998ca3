"""Compute a report: one analysis, from the snapshot to its tables. Used by the worker and by `manage.py analyze`."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol

from django.conf import settings
from pyspark import SparkContext
from pyspark.sql import SparkSession

from analytics.analyses import Analysis, Output
from analytics.java import java_problem
from analytics.models import RunStage
from analytics.results.files import write_index
from analytics.results.read import figures, sum_of_rows
from analytics.runs.database_retry import retry_database
from analytics.snapshots.snapshot import Snapshot, lease_snapshot
from analytics.spark.analysis_input import AnalysisInput
from analytics.spark.engine import release_broadcasts
from analytics.spark.schemas import read_snapshot, read_table, write_table
from analytics.spark.session import SparkUnavailable, session_for_small_tenant, spark_session
from analytics.storage import spark_uri, storage_path

# A snapshot of at most this size has some hundred thousand rows, which one core reads in well under a second.
SMALL_SNAPSHOT_BYTES = 1_000_000


class Progress(Protocol):
    """Receives the progress of an analysis, and can end it."""

    def begin_stage(self, stage: RunStage) -> None:
        """Record that the analysis begins this stage."""

    def check(self) -> None:
        """Raise the exception that ends the analysis, if its end was requested."""

    def track_jobs(self, context: SparkContext) -> None:
        """Treat all Spark jobs that this thread starts after this call as jobs of this analysis."""


@dataclass(frozen=True, slots=True)
class ComputedReport:
    """A report that was computed from a snapshot.

    revision: the revision of the snapshot.
    summary: the figures of the report, `detail_rows` and `detail_is_written`, and `snapshot_fault` if an earlier snapshot of the
    revision was damaged.
    """

    revision: int
    summary: dict


def compute_report(
    *, analysis: Analysis, options: Mapping[str, str], folder: str, max_detail_rows: int | None, progress: Progress
) -> ComputedReport:
    """Write the tables of the analysis into `folder`, below SNAPSHOT_URI.

    max_detail_rows: the detail table is only written if it has at most this many rows; with None, always.
    Raise StorageError, SparkUnavailable (SparkExited if Java ended), the exceptions of Spark and those of `progress.check`.
    """
    if problem := java_problem():
        raise SparkUnavailable(problem)
    progress.begin_stage(RunStage.SNAPSHOT)
    with ExitStack() as stack:
        snapshot = retry_database(lambda: stack.enter_context(lease_snapshot(check=progress.check)), check=progress.check)
        progress.begin_stage(RunStage.SPARK)
        spark = spark_session(master=settings.SPARK_MASTER, memory=settings.SPARK_DRIVER_MEMORY, settings=settings.SPARK_CONF,
                              patience_seconds=min(settings.SPARK_START_SECONDS, settings.RUN_TIMEOUT_SECONDS),
                              scratch_parent=settings.TEMP_DIR)
        progress.track_jobs(spark.sparkContext)
        progress.begin_stage(RunStage.COMPUTING)
        analysis_input = _analysis_input(spark, snapshot, options)
        for output in analysis.outputs:
            progress.check()
            _write_output(output, analysis_input, folder)
        progress.check()
        progress.begin_stage(RunStage.WRITING)
        detail_rows = sum_of_rows(analysis.detail_rows, analysis.rows, folder)
        detail_is_written = analysis.detail is not None and (max_detail_rows is None or detail_rows <= max_detail_rows)
        if detail_is_written and analysis.detail is not None:
            _write_output(analysis.detail, analysis_input, folder)
    summary = figures(analysis, folder) | {"detail_rows": detail_rows, "detail_is_written": detail_is_written}
    if snapshot.replaced_fault:
        summary["snapshot_fault"] = snapshot.replaced_fault
    return ComputedReport(snapshot.revision, summary)


def _analysis_input(spark: SparkSession, snapshot: Snapshot, options: Mapping[str, str]) -> AnalysisInput:
    is_small = snapshot.size_bytes <= SMALL_SNAPSHOT_BYTES
    return AnalysisInput(
        tables=read_snapshot(session_for_small_tenant(spark) if is_small else spark, snapshot.uri, is_small=is_small),
        generation=options.get("generation", ""),
        to_generation=options.get("to_generation", ""),
        namespace=options.get("namespace", ""),
    )


def _write_output(output: Output, analysis_input: AnalysisInput, folder: str) -> None:
    """Write one table and its index. Tables that are built later can read it from `analysis_input.earlier`."""
    module, _, function = output.build.partition(":")
    uri = spark_uri(storage_path(f"{folder}/{output.table.name}"))
    with release_broadcasts():
        write_table(getattr(import_module(module), function)(analysis_input), output.table, uri)
    write_index(output.table, folder)
    analysis_input.earlier[output.table.name] = read_table(analysis_input.tables.users.sparkSession, output.table, uri)
