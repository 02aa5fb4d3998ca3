"""Compute a report: in the worker as a job, or in the process of `manage.py analyze`. A failure is
described in one sentence: what happened and what to do. The log has the traceback.
"""

import errno
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import field
from pathlib import Path

from django.conf import settings
from django.db import DatabaseError, connection
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from analytics.analyses import Analysis, AnalysisError, analysis_by_name
from analytics.computation import Progress, compute_tables, detail_choice, is_small_tenant
from analytics.failures import computation_failure, interruption_message
from analytics.folders import folder_problem
from analytics.interrupts import interrupt_queries
from analytics.java import java_problem
from analytics.models import AnalysisRun
from analytics.results.compare import compare_with_previous, previous_report
from analytics.results.database import figures_by_namespace
from analytics.results.index import count_rows, size_of_tables
from analytics.results.manifest import write_report_manifest
from analytics.runs.alerts import RunAlerts
from analytics.runs.base import base_result, result_basis
from analytics.runs.figures import record_figures, report_figures
from analytics.runs.services import validated_options
from analytics.snapshots.snapshot import lease_snapshot
from analytics.spark.lost_executors import limit_lost_executors
from analytics.spark.session import SparkUnavailable, java_process_id, kill_java, spark_session, stop_spark
from analytics.stages import RunStage
from analytics.storage import discard_folder, storage
from analytics.storage_identity import storage_identity
from entities.frozen import frozen
from entities.models import Entity
from grants.jobs import JobContext, JobFailed, JobInterrupted, JobLost, JobResult, retry_database

logger = logging.getLogger(__name__)

POLL_SECONDS = 1.0
# Spark normally cancels its jobs at once; after this time its process is killed
END_SECONDS = 20
# with more entities, the analysis of a warm-up would take the worker longer than it saves
WARM_UP_ENTITIES_MOST = 20_000


@frozen
class ComputedReport:
    """A report that was computed from a snapshot.

    revision: the revision of the snapshot.
    summary: the figures of the report, `detail_rows` and `detail_is_written`, and `snapshot_fault` if an
    earlier snapshot of the revision was damaged.
    figures: further figures, by name and subject: of namespaces, and the rows and bytes of the snapshot and the result.
    """

    revision: int
    summary: dict
    figures: dict[tuple[str, str], int] = field(default_factory=dict)


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
                writes_detail=lambda rows: rows <= settings.RUN_DETAIL_ROWS_MOST,
                progress=progress,
                base=retry_database(lambda: previous_report(run)),
            )
            summary = report.summary | retry_database(
                lambda: compare_with_previous(run, folder, check=context.check), check=context.check
            )
            # the comparison treats an interrupted query as an unreadable report
            context.check()
            manifest_hash = write_report_manifest(run, folder, report.revision, check=context.check)
            run_figures = report_figures(run, summary) | report.figures | progress.figures_of_work()
    except Exception as error:
        discard_folder(folder)
        if isinstance(error, JobLost):
            raise
        # the end of the job caused the error
        context.check()
        if message := interruption_message(error, run.attempt):
            raise JobInterrupted(message) from error
        raise JobFailed(failure_message(error)) from error
    return JobResult(
        summary,
        report.revision,
        folder,
        manifest_hash,
        store=lambda: _record_figures(context, run_figures),
    )


def _record_figures(context: JobContext, run_figures: Mapping[tuple[str, str], int]) -> None:
    alerts = RunAlerts(context.job, run_figures)
    context.confirm_claim()
    record_figures(context.job, run_figures)
    alerts.fire()


class RunProgress(Progress):
    """The progress of a job: shows the tasks of Spark in the job, ends Spark jobs and DuckDB queries with it, and
    measures its stages and its memory.

    A context manager around the computation in this thread. A second thread talks to Spark; the thread of
    the job works without Spark, and kills a Java process that does not answer.
    """

    def __init__(self, context: JobContext):
        super().__init__(self._begin_stage, context.check, self._track_jobs)
        self.context = context
        self._stage_began: dict[str, float] = {}
        _reset_peak_memory()
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

    def _begin_stage(self, stage: RunStage) -> None:
        self._stage_began[stage] = time.monotonic()
        self.context.begin_stage(stage)

    def figures_of_work(self) -> dict[tuple[str, str], int]:
        """Return what the computation took so far: tasks, milliseconds of each stage, and the peaks of memory."""
        with suppress(Py4JError, OSError, AttributeError):
            if self._spark is not None:
                self.context.show_progress(*self._count_tasks(self._spark))
        moments = [*self._stage_began.values(), time.monotonic()]
        work = {"tasks": self.context.steps_done} | {
            f"{stage}_milliseconds": round(1_000 * (end - begin))
            for stage, begin, end in zip(self._stage_began, moments, moments[1:], strict=False)
        }
        return {(name, ""): value for name, value in (work | _peak_memory()).items()}

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


def _processes() -> dict[str, int]:
    """Return the numbers of the processes that compute on this machine. Workers of Python that Spark starts are not
    among them.
    """
    java = java_process_id()
    return {"python": os.getpid()} | ({"java": java} if java else {})


def _reset_peak_memory() -> None:
    """Reset the peak memory that Linux reports, if permitted. The worker and Java run longer than one run."""
    for process in _processes().values():
        with suppress(OSError):
            Path(f"/proc/{process}/clear_refs").write_text("5")


def _peak_memory() -> dict[str, int]:
    """Return the largest resident memory of each process in bytes; empty on systems without /proc."""
    peaks = {}
    for name, process in _processes().items():
        with suppress(OSError):
            for line in Path(f"/proc/{process}/status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    peaks[f"{name}_peak_bytes"] = 1024 * int(line.split()[1])
    return peaks


def compute_report(
    *,
    analysis: Analysis,
    options: Mapping[str, str],
    folder: str,
    writes_detail: Callable[[int], bool],
    progress: Progress,
    base: AnalysisRun | None = None,
) -> ComputedReport:
    """Write the tables of the analysis into `folder`, below SNAPSHOT_URI.

    writes_detail: see `compute_tables`.
    base: an older run with the same options. If few areas changed since then, its report is advanced.
    Raise StorageError, SparkUnavailable (SparkExited if Java ended), the exceptions of Spark and those of
    `writes_detail` and `progress.check`.
    """
    if problem := java_problem():
        raise SparkUnavailable(problem)
    progress.begin_stage(RunStage.SNAPSHOT)
    places = {
        output.table.name: storage().child(folder).child(output.table.name)
        for output in analysis.written_outputs
    }
    with ExitStack() as stack:
        snapshot = retry_database(
            lambda: stack.enter_context(
                lease_snapshot(check=progress.check, extra_tables=analysis.tables_read(options))
            ),
            check=progress.check,
        )
        session = _tracked_session(progress, has_short_runs=is_small_tenant(snapshot))
        stack.enter_context(limit_lost_executors(session))
        summary = compute_tables(
            analysis,
            options,
            snapshot,
            session,
            places=places,
            writes_detail=writes_detail,
            progress=progress,
            base=None if base is None else retry_database(lambda: base_result(analysis, base, snapshot)),
        )
        files = [f"{snapshot.path}/{file.path}" for file in snapshot.files]
        rows_read = count_rows(snapshot.place.filesystem, files)
    written = [place for name, place in places.items() if name != "detail" or summary["detail_is_written"]]
    sizes = {"snapshot_rows": rows_read, "snapshot_bytes": snapshot.size_bytes} | size_of_tables(written)
    if snapshot.replaced_fault:
        summary["snapshot_fault"] = snapshot.replaced_fault
    if not is_small_tenant(snapshot):
        summary["basis"] = result_basis(options)
    return ComputedReport(
        snapshot.revision,
        summary,
        figures_by_namespace(analysis, places) | {(name, ""): value for name, value in sizes.items()},
    )


def warm_up_spark() -> None:
    """Start Spark in this process, so that the first run does not wait for it.

    A small tenant is also analyzed once, because Java executes its code several times faster after that. The report is
    discarded.
    """
    if Entity.objects.all()[WARM_UP_ENTITIES_MOST:].exists():
        _session(has_short_runs=False)
        return
    analysis = analysis_by_name("visibility")
    folder = f"results/{storage_identity()}/warm-up-{secrets.token_hex(8)}"
    try:
        compute_report(
            analysis=analysis,
            options=validated_options(analysis, {}),
            folder=folder,
            writes_detail=lambda rows: False,
            progress=Progress(),
        )
    finally:
        discard_folder(folder)


def _tracked_session(progress: Progress, *, has_short_runs: bool) -> SparkSession:
    """Start or reuse the Spark session. All later Spark jobs of this thread are tracked.

    Raise SparkUnavailable, or SparkExited if Java ended.
    """
    progress.begin_stage(RunStage.SPARK)
    spark = _session(has_short_runs=has_short_runs)
    progress.track_jobs(spark.sparkContext)
    return spark


def _session(*, has_short_runs: bool) -> SparkSession:
    return spark_session(
        master=settings.SPARK_MASTER,
        memory=settings.SPARK_DRIVER_MEMORY,
        settings=settings.SPARK_CONF,
        patience_seconds=min(settings.SPARK_START_SECONDS, settings.RUN_TIMEOUT_SECONDS),
        scratch_parent=settings.TEMP_DIR,
        has_short_runs=has_short_runs,
    )


@contextmanager
def analysis_in_foreground(
    analysis: Analysis,
    options: Mapping[str, str],
    *,
    with_detail: bool,
    is_forced: bool = False,
    on_stage: Callable[[RunStage], None],
) -> Iterator[str]:
    """Run the analysis in this process, yield the folder of its tables (below SNAPSHOT_URI), and discard it
    afterwards.

    is_forced: write a detail table of any size. on_stage: called at each stage. Raise AnalysisError if the analysis
    fails.
    """
    folder = f"results/{storage_identity()}/command-{secrets.token_hex(8)}"
    try:
        try:
            compute_report(
                analysis=analysis,
                options=options,
                folder=folder,
                writes_detail=detail_choice(is_wanted=with_detail, is_forced=is_forced),
                progress=Progress(on_stage),
            )
        except Exception as error:
            logger.debug("%s failed", analysis.name, exc_info=error)
            raise AnalysisError(failure_message(error, details="set LOG_LEVEL=DEBUG for details")) from error
        yield folder
    finally:
        stop_spark()
        discard_folder(folder)


def failure_message(error: BaseException, *, details: str = "see the worker's log for details") -> str:
    """Return the message of an error. details: where to find more about an unexpected error."""
    if isinstance(error, DatabaseError) and not interruption_message(error, 1):
        if problem := _database_problem(error):
            return problem
    return computation_failure(error, details=details)


def _database_problem(error: DatabaseError) -> str:
    """Return a message if the disk of the database is full; empty for another error."""
    text = str(error)
    if connection.vendor == "sqlite" and "disk is full" in text:
        folder = os.path.dirname(str(connection.settings_dict["NAME"]))
        return folder_problem(
            "The folder of the database", folder, OSError(errno.ENOSPC, text), "DATABASE_URL"
        )
    return (
        "The disk of the database server is full: free some space there."
        if "No space left on device" in text
        else ""
    )
