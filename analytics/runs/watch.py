"""A thread that updates a run's heartbeat and task counts, and ends the run when it is cancelled, lost or too slow."""

import logging
import threading
import time

from django.conf import settings
from django.db import Error, connections
from django.utils import timezone
from py4j.protocol import Py4JError
from pyspark import SparkContext

from analytics.models import AnalysisRun, RunStage, RunState
from analytics.runs.recovery import timeout_message
from analytics.spark.session import kill_java

logger = logging.getLogger(__name__)

POLL_SECONDS = 1.0
# Spark normally cancels its jobs at once; after this time its process is killed
END_SECONDS = 20


class RunCancelled(Exception):
    """A cancellation of the run was requested."""


class RunLost(Exception):
    """The claim of this process is no longer valid: the run was requeued and claimed by another process."""


class RunTimedOut(Exception):
    """The run took longer than RUN_TIMEOUT_SECONDS. The message is the error of the run."""


class RunWatch:
    """A context manager around the execution of a claimed run; a `computation.Progress`."""

    def __init__(self, run: AnalysisRun):
        self._claimed = AnalysisRun.objects.filter(pk=run.pk, state=RunState.RUNNING, claim=run.claim)
        self._group = f"run-{run.pk}-{run.attempt}-{run.claim}"
        self._name = str(run)
        self._context: SparkContext | None = None
        self._stop = threading.Event()
        self._started, self._ending_since = time.monotonic(), 0.0
        self._thread = threading.Thread(target=self._poll_until_stopped, name=f"watch of {run}", daemon=True)
        self.ending: Exception | None = None

    def __enter__(self) -> "RunWatch":
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def begin_stage(self, stage: RunStage) -> None:
        self._claimed.update(stage=stage, heartbeat_at=timezone.now())
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
        try:
            self._beat()
            if self.ending is not None:
                self._end_jobs()
        except (Error, Py4JError, OSError) as error:
            # a locked database or a dead Java process raises an error in the executing thread too, which ends the run
            logger.warning("The watch of %s skipped a beat: %s", self._name, error)

    def _beat(self) -> None:
        done, total = self._task_counts()
        if not self._claimed.update(heartbeat_at=timezone.now(), tasks_done=done, tasks_total=total):
            self._set_ending(RunLost(f"{self._name} was claimed by another process"))
        elif self._claimed.filter(cancel_requested_at__isnull=False).exists():
            self._set_ending(RunCancelled(f"{self._name} was cancelled"))
        elif time.monotonic() - self._started > settings.RUN_TIMEOUT_SECONDS:
            self._set_ending(RunTimedOut(timeout_message()))

    def _set_ending(self, ending: Exception) -> None:
        """Store why the run ends. A later reason replaces an earlier one: a run that timed out may turn out to be lost."""
        if self.ending is None:
            self._ending_since = time.monotonic()
        self.ending = ending

    def _end_jobs(self) -> None:
        if time.monotonic() - self._ending_since > END_SECONDS:
            kill_java()
        elif self._context is not None:
            # repeated at every poll, because a query may have started its next job
            self._context.cancelJobGroup(self._group)

    def _task_counts(self) -> tuple[int, int]:
        """Return (finished tasks, known tasks) of all jobs so far. Spark adds tasks when it plans later stages."""
        if self._context is None:
            return 0, 0
        tracker = self._context.statusTracker()
        done = total = 0
        for job_id in tracker.getJobIdsForGroup(self._group):
            job = tracker.getJobInfo(job_id)
            stages = [tracker.getStageInfo(stage_id) for stage_id in job.stageIds] if job else []
            finished = sum(stage.numCompletedTasks for stage in stages if stage)
            done += finished
            # a stage that a finished job skipped was computed by an earlier job
            total += finished if job and job.status == "SUCCEEDED" else sum(s.numTasks for s in stages if s)
        return done, total
