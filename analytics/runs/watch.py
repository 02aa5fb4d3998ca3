"""Two threads that supervise a run.

One updates the heartbeat, and ends the run when it is cancelled, lost or too slow. It works without the
database and without
Spark: it connects again after a lost connection, and kills a Java process that does not answer. The other one
talks to Spark.
"""

import logging
import threading
import time

from django.conf import settings
from django.db import connection, connections
from django.utils import timezone
from py4j.protocol import Py4JError
from pyspark import SparkContext

from analytics.interrupts import interrupt_queries
from analytics.models import AnalysisRun, RunStage, RunState
from analytics.runs.database_retry import DATABASE_ERRORS, retry_database
from analytics.runs.recovery import timeout_message
from analytics.spark.session import kill_java

logger = logging.getLogger(__name__)

POLL_SECONDS = 1.0
# a heartbeat does not wait longer for the lock of SQLite, because meanwhile the time limit is not checked
LOCK_MILLISECONDS = 1_000
# Spark normally cancels its jobs at once; after this time its process is killed
END_SECONDS = 20


class RunCancelled(Exception):
    """A cancellation of the run was requested."""


class RunLost(Exception):
    """The claim of this process is no longer valid: the run was requeued and claimed by another process."""


class RunTimedOut(Exception):
    """The run took longer than RUN_TIMEOUT_SECONDS. The message is the error of the run."""


class RunWatch:
    """A context manager around the execution of a claimed run in this thread; a `computation.Progress`."""

    def __init__(self, run: AnalysisRun):
        self._claimed = AnalysisRun.objects.filter(pk=run.pk, state=RunState.RUNNING, claim=run.claim)
        self._group = f"run-{run.pk}-{run.attempt}-{run.claim}"
        self._name = str(run)
        self._context: SparkContext | None = None
        self._task_counts = (0, 0)
        self._stop = threading.Event()
        self._started, self._ending_since = time.monotonic(), 0.0
        self._executing_thread = threading.get_ident()
        self._thread = threading.Thread(target=self._poll_until_stopped, name=f"watch of {run}", daemon=True)
        self._spark_thread = threading.Thread(
            target=self._poll_spark_until_stopped, name=f"Spark jobs of {run}", daemon=True
        )
        self.ending: Exception | None = None

    def __enter__(self) -> "RunWatch":
        self._thread.start()
        self._spark_thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()
        # if Java does not answer, its thread ends with the Java process
        self._spark_thread.join(POLL_SECONDS)

    def begin_stage(self, stage: RunStage) -> None:
        retry_database(
            lambda: self._claimed.update(stage=stage, heartbeat_at=timezone.now()), check=self.check
        )
        self.check()

    def check(self) -> None:
        if self.ending is not None:
            raise self.ending

    def track_jobs(self, context: SparkContext) -> None:
        context.setJobGroup(self._group, self._name, interruptOnCancel=True)
        self._context = context

    def _poll_until_stopped(self) -> None:
        try:
            while not self._stop.wait(POLL_SECONDS):
                self._poll()
        finally:
            connections.close_all()

    def _poll(self) -> None:
        if time.monotonic() - self._started > settings.RUN_TIMEOUT_SECONDS:
            self._set_ending(RunTimedOut(timeout_message()))
        try:
            self._beat()
        except DATABASE_ERRORS as error:
            logger.warning("The watch of %s skipped a beat: %s", self._name, error)
            # Django does not connect again as long as the lost connection is open
            connection.close()
        if self.ending is not None:
            interrupt_queries(self._executing_thread)
            if time.monotonic() - self._ending_since > END_SECONDS:
                kill_java()

    def _beat(self) -> None:
        if connection.vendor == "sqlite" and connection.connection is None:
            with connection.cursor() as cursor:
                cursor.execute(f"PRAGMA busy_timeout = {LOCK_MILLISECONDS}")
        # first, because reading needs no lock
        if self._claimed.filter(cancel_requested_at__isnull=False).exists():
            self._set_ending(RunCancelled(f"{self._name} was cancelled"))
        done, total = self._task_counts
        if not self._claimed.update(heartbeat_at=timezone.now(), tasks_done=done, tasks_total=total):
            self._set_ending(RunLost(f"{self._name} was claimed by another process"))

    def _set_ending(self, ending: Exception) -> None:
        """Store why the run ends.

        Only RunLost replaces an earlier reason: a run that timed out may turn out to be lost.
        """
        if self.ending is None:
            self._ending_since = time.monotonic()
        if self.ending is None or isinstance(ending, RunLost):
            self.ending = ending

    def _poll_spark_until_stopped(self) -> None:
        while not self._stop.wait(POLL_SECONDS):
            if self._context is None:
                continue
            try:
                if self.ending is not None:
                    # repeated at every poll, because a query may have started its next job
                    self._context.cancelJobGroup(self._group)
                self._task_counts = self._count_tasks(self._context)
            except (Py4JError, OSError, AttributeError) as error:
                # a dead Java process raises an error in the executing thread too, which ends the run
                logger.warning("The progress of %s is unknown: %s", self._name, error)

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
