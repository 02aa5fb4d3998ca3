"""Compute a report: in the worker as a job, or in the process of `manage.py analyze`. A failure is
described in one sentence: what happened and what to do. The log has the traceback.
"""

import errno
import logging
import os
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module

from django.conf import settings
from django.db import DatabaseError, connection
from py4j.protocol import Py4JError
from pyspark import SparkContext

from analytics.analyses import (
    Analysis,
    AnalysisError,
    Output,
    analysis_by_name,
)
from analytics.folders import REMEDIES, ScratchError, folder_problem
from analytics.interrupts import interrupt_queries
from analytics.java import java_problem
from analytics.models import RunStage
from analytics.results.compare import compare_with_previous
from analytics.results.files import write_index
from analytics.results.manifest import write_report_manifest
from analytics.results.read import figures, sum_of_rows
from analytics.snapshots.snapshot import Snapshot, lease_snapshot
from analytics.spark.analysis_input import AnalysisInput
from analytics.spark.engine import release_broadcasts
from analytics.spark.schemas import Tables, read_snapshot, read_table, write_table
from analytics.spark.session import (
    SparkExited,
    SparkKilled,
    SparkUnavailable,
    first_line,
    has_session_died,
    kill_java,
    session_for_small_tenant,
    spark_session,
    stop_spark,
)
from analytics.storage import (
    StorageError,
    discard_folder,
    spark_uri,
    storage_path,
    storage_problem,
    storage_root,
    without_credentials,
)
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
            lambda: stack.enter_context(lease_snapshot(check=progress.check, with_uses=analysis.reads_uses)),
            check=progress.check,
        )
        tables = _tables_of_snapshot(snapshot, progress, with_uses=analysis.reads_uses)
        progress.begin_stage(RunStage.COMPUTING)
        analysis_input = AnalysisInput(tables, options, snapshot.at)
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


def _tables_of_snapshot(snapshot: Snapshot, progress: Progress, *, with_uses: bool) -> Tables:
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
        session_for_small_tenant(spark) if is_small else spark,
        snapshot.uri,
        is_small=is_small,
        with_uses=with_uses,
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


MAX_CHARACTERS = 500
_JAVA_MESSAGES = {
    "Read-only file system": errno.EROFS,
    "Permission denied": errno.EACCES,
    "Not a directory": errno.ENOTDIR,
    "Disk quota exceeded": errno.EDQUOT,
    "File too large": errno.EFBIG,
}
# exceptions with a message for users
USER_ERRORS = (AnalysisError, ScratchError, StorageError, SparkUnavailable)
# Java classes in the stack trace of an error about temporary files
_SCRATCH_MARKERS = (
    "DiskBlockObjectWriter",
    "DiskBlockManager",
    "DiskStore",
    "UnsafeSorterSpill",
    "SortShuffleWriter",
    "ShuffleExternalSorter",
    "IndexShuffleBlockResolver",
    "LocalDiskShuffle",
)
# below this, a file system counts as full
_FULL_BYTES = 1_000_000


def failure_message(error: BaseException, *, details: str = "see the worker's log for details") -> str:
    """Return the message of an error. details: where to find more about an unexpected error."""
    if message := interruption_message(error, 1):
        return message
    if isinstance(error, USER_ERRORS):
        return str(error)
    text = str(error)
    if isinstance(error, DatabaseError):
        return _database_problem(error) or _unexpected_error_message(error, details)
    if "No space left on device" in text or isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return full_disk_message(text)
    if (number := _storage_error(text)) is not None:
        return storage_problem(OSError(number, text))
    if "OutOfMemoryError" in text:
        return (
            f"Spark ran out of memory with SPARK_DRIVER_MEMORY {settings.SPARK_DRIVER_MEMORY}: give it more, "
            f"or point SPARK_MASTER at a cluster."
        )
    if isinstance(error, OSError) and error.errno in REMEDIES:
        return storage_problem(error)
    return _unexpected_error_message(error, details)


def interruption_message(error: BaseException, attempts: int) -> str:
    """Return the message if a process of Spark died, so that another attempt may succeed; otherwise empty."""
    if isinstance(error, SparkKilled):
        return _java_lost_message(attempts, "while Spark started")
    if isinstance(error, SparkExited):
        return str(error)
    if isinstance(error, USER_ERRORS):
        return ""
    if has_session_died():
        return _java_lost_message(attempts)
    # the job of Spark ends with a killed Python worker, but not Spark
    if "Python worker exited unexpectedly" in str(error):
        return _python_worker_lost_message(attempts)
    return ""


def _unexpected_error_message(error: BaseException, details: str) -> str:
    return f"{type(error).__name__}: {without_credentials(first_line(error))[:MAX_CHARACTERS]} ({details})"


def full_disk_message(text: str) -> str:
    """Return a message that names the full folder: the one for temporary files, or the one for snapshots and
    results.

    text: the text of the error. If its paths and its stack trace do not tell which folder is full, their free
    space does.
    """
    error = OSError(errno.ENOSPC, text)
    scratch = str(ScratchError(settings.TEMP_DIR, error))
    if str(settings.TEMP_DIR) in text or any(marker in text for marker in _SCRATCH_MARKERS):
        return scratch
    try:
        root = storage_root()[1]
    except StorageError:
        root = ""
    if root and root in text or not _is_full(str(settings.TEMP_DIR)) or root and _is_full(root):
        return storage_problem(error)
    return scratch


def _is_full(folder: str) -> bool:
    try:
        status = os.statvfs(folder)
    except OSError:
        return False
    return status.f_bavail * status.f_frsize < _FULL_BYTES


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


def _storage_error(text: str) -> int | None:
    """Return the error number of a Java message about the folder of snapshots and results; None for other
    messages.
    """
    folder = settings.SNAPSHOT_URI
    return next(
        (number for words, number in _JAVA_MESSAGES.items() if words in text and folder in text), None
    )


def _java_lost_message(attempts: int, when: str = "during the run") -> str:
    return (
        f"Spark's Java process ended {when}{_times(attempts)}; the usual reason is that the machine ran out of "
        f"memory. Free some, lower SPARK_DRIVER_MEMORY (now {settings.SPARK_DRIVER_MEMORY}), or point SPARK_MASTER at a "
        f"cluster."
    )


def _python_worker_lost_message(attempts: int) -> str:
    """Return the message of a run that lost a Python worker. Spark has one for each parallel task."""
    master = settings.SPARK_MASTER
    remedy = (
        f"Free some, allow fewer parallel tasks with SPARK_MASTER (local[1]; now {master}), lower SPARK_DRIVER_MEMORY "
        f"(now {settings.SPARK_DRIVER_MEMORY}), or point SPARK_MASTER at a cluster."
        if master.startswith("local")
        else "Raise spark.executor.memoryOverhead or lower spark.executor.cores in SPARK_CONF."
    )
    return (
        f"A Python process of Spark was killed during the run{_times(attempts)}; the usual reason is that its machine ran "
        f"out of memory. {remedy}"
    )


def _times(attempts: int) -> str:
    return f", {attempts} times in a row" if attempts > 1 else ""
