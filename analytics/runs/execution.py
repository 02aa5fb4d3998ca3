"""Compute a report: in the worker as a job, or in the process of `manage.py analyze`."""

import logging
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module

from django.conf import settings
from py4j.protocol import Py4JError
from pyspark import SparkContext

from analytics.analyses import (
    Analysis,
    AnalysisError,
    Output,
    analysis_by_name,
)
from analytics.interrupts import interrupt_queries
from analytics.java import java_problem
from analytics.models import RunStage
from analytics.results.compare import compare_with_previous
from analytics.results.files import write_index
from analytics.results.manifest import write_report_manifest
from analytics.results.read import figures, sum_of_rows
from analytics.runs.failure import failure_message, interruption_message
from analytics.snapshots.snapshot import Snapshot, lease_snapshot
from analytics.spark.analysis_input import AnalysisInput
from analytics.spark.engine import release_broadcasts
from analytics.spark.schemas import Tables, read_snapshot, read_table, write_table
from analytics.spark.session import (
    SparkUnavailable,
    kill_java,
    session_for_small_tenant,
    spark_session,
    stop_spark,
)
from analytics.storage import discard_folder, spark_uri, storage_path
from analytics.storage_identity import storage_identity
from grants.jobs import JobContext, JobFailed, JobInterrupted, JobResult, retry_database
from grants.policies.times import format_time

logger = logging.getLogger(__name__)

POLL_SECONDS = 1.0
# Spark normally cancels its jobs at once; after this time its process is killed
END_SECONDS = 20
# a snapshot of at most this size has some hundred thousand rows, which one core reads in well under a second
SMALL_SNAPSHOT_BYTES = 1_000_000


@dataclass(slots=True)
class Progress:
    """Functions that receive the progress of an analysis, and can end it; by default they do nothing.

    begin_stage: records that the analysis begins this stage. check: raises the exception that ends the analysis,
    if its end was requested. track_jobs: treats all Spark jobs that this thread starts later as jobs of this
    analysis.
    """

    begin_stage: Callable[[RunStage], None] = lambda stage: None
    check: Callable[[], None] = lambda: None
    track_jobs: Callable[[SparkContext], None] = lambda context: None


@dataclass(frozen=True, slots=True)
class ComputedReport:
    """A report that was computed from a snapshot.

    revision: the revision of the snapshot.
    summary: the figures of the report, `detail_rows` and `detail_is_written`, and `snapshot_fault` if an
    earlier snapshot of the revision was damaged.
    """

    revision: int
    summary: dict


def execute_run(context: JobContext) -> JobResult:
    """Compute the report of a run, compare it with the previous one, and sign it.

    Each attempt has a separate folder, so that the process of a requeued attempt cannot write into the next
    attempt's folder. The folder is deleted if the attempt fails.
    """
    run = context.job
    folder = retry_database(lambda: f"results/{storage_identity()}/run-{run.pk}-{run.attempt}")
    try:
        with RunProgress(context) as progress:
            report = compute_report(
                analysis=analysis_by_name(run.type),
                options=run.options,
                folder=folder,
                max_detail_rows=settings.RUN_DETAIL_ROWS_MOST,
                progress=progress,
            )
            summary = report.summary | retry_database(
                lambda: compare_with_previous(run, folder, check=context.check), check=context.check
            )
            # the comparison treats an interrupted query as an unreadable report
            context.check()
            manifest_hash = write_report_manifest(run, folder, report.revision, check=context.check)
    except Exception as error:
        discard_folder(folder)
        # the end of the job caused the error
        context.check()
        if message := interruption_message(error, run.attempt):
            raise JobInterrupted(message) from error
        raise JobFailed(failure_message(error)) from error
    return JobResult(summary, report.revision, folder, manifest_hash)


class RunProgress(Progress):
    """The progress of a job: shows the tasks of Spark in the job, and ends Spark jobs and DuckDB queries with it.

    A context manager around the computation in this thread. A second thread talks to Spark; the thread of
    the job works without Spark, and kills a Java process that does not answer.
    """

    def __init__(self, context: JobContext):
        super().__init__(context.begin_stage, context.check, self._track_jobs)
        self.context = context
        self._group = f"run-{context.job.pk}-{context.job.attempt}-{context.job.claim}"
        self._spark: SparkContext | None = None
        self._stop = threading.Event()
        self._executing_thread = threading.get_ident()
        self._thread = threading.Thread(
            target=self._poll_until_stopped, name=f"Spark jobs of {context.job}", daemon=True
        )

    def __enter__(self) -> "RunProgress":
        self.context.interruption = self._interrupt
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        # if Java does not answer, the thread ends with the Java process
        self._thread.join(POLL_SECONDS)

    def _track_jobs(self, context: SparkContext) -> None:
        context.setJobGroup(self._group, str(self.context.job), interruptOnCancel=True)
        self._spark = context

    def _interrupt(self, seconds: float) -> None:
        interrupt_queries(self._executing_thread)
        if seconds > END_SECONDS:
            kill_java()

    def _poll_until_stopped(self) -> None:
        while not self._stop.wait(POLL_SECONDS):
            if self._spark is None:
                continue
            try:
                if self.context.ending is not None:
                    # repeated at every poll, because a query may have started its next job
                    self._spark.cancelJobGroup(self._group)
                self.context.show_progress(*self._count_tasks(self._spark))
            except (Py4JError, OSError, AttributeError) as error:
                # a dead Java process raises an error in the executing thread too, which ends the run
                logger.warning("The progress of %s is unknown: %s", self.context.job, error)

    def _count_tasks(self, context: SparkContext) -> tuple[int, int]:
        """Return (finished tasks, known tasks) of all jobs so far.

        Spark adds tasks when it plans later stages.
        """
        tracker = context.statusTracker()
        done = total = 0
        for job_id in tracker.getJobIdsForGroup(self._group):
            job = tracker.getJobInfo(job_id)
            stages = [tracker.getStageInfo(stage_id) for stage_id in job.stageIds] if job else []
            finished = sum(stage.numCompletedTasks for stage in stages if stage)
            done += finished
            # a stage that a finished job skipped was computed by an earlier job
            total += finished if job and job.status == "SUCCEEDED" else sum(s.numTasks for s in stages if s)
        return done, total


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
        tables = _tables_of_snapshot(snapshot, progress)
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


def _tables_of_snapshot(snapshot: Snapshot, progress: Progress) -> Tables:
    """Start or reuse the Spark session, and return the tables of the snapshot. All later Spark jobs of this
    thread are tracked.

    Raise SparkUnavailable, or SparkExited if Java ended.
    """
    progress.begin_stage(RunStage.SPARK)
    spark = spark_session(
        master=settings.SPARK_MASTER,
        memory=settings.SPARK_DRIVER_MEMORY,
        settings=settings.SPARK_CONF,
        patience_seconds=min(settings.SPARK_START_SECONDS, settings.RUN_TIMEOUT_SECONDS),
        scratch_parent=settings.TEMP_DIR,
    )
    progress.track_jobs(spark.sparkContext)
    is_small = snapshot.size_bytes <= SMALL_SNAPSHOT_BYTES
    return read_snapshot(
        session_for_small_tenant(spark) if is_small else spark, snapshot.uri, is_small=is_small
    )


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


@contextmanager
def analysis_in_foreground(
    analysis: Analysis, options: Mapping[str, str], *, with_detail: bool, on_stage: Callable[[RunStage], None]
) -> Iterator[str]:
    """Run the analysis in this process, yield the folder of its tables (below SNAPSHOT_URI), and discard it
    afterwards.

    on_stage: called at each stage. Raise AnalysisError if the analysis fails.
    """
    folder = f"results/{storage_identity()}/command-{secrets.token_hex(8)}"
    try:
        try:
            compute_report(
                analysis=analysis,
                options=options,
                folder=folder,
                max_detail_rows=None if with_detail else 0,
                progress=Progress(on_stage),
            )
        except Exception as error:
            logger.debug("%s failed", analysis.name, exc_info=error)
            raise AnalysisError(failure_message(error, details="set LOG_LEVEL=DEBUG for details")) from error
        yield folder
    finally:
        stop_spark()
        discard_folder(folder)
