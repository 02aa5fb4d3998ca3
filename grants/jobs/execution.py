"""Execute a job in the worker: heartbeat, progress, cancellation and time limit, and how it ended."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import asdict

from django.db import connection, connections, transaction
from django.utils import timezone

from grants.jobs.database_retry import DATABASE_ERRORS, retry_database
from grants.jobs.lifecycle import (
    claim_job,
    claimed_jobs,
    close_job,
    new_claim,
    requeue_job,
    timeout_message,
)
from grants.jobs.types import REFUSED, JobFailed, JobInterrupted, JobRefused, JobResult, type_of
from grants.models.jobs import Job, JobState

logger = logging.getLogger(__name__)

POLL_SECONDS = 1.0
# a heartbeat does not wait longer for the lock of SQLite, because meanwhile the time limit is not checked
LOCK_MILLISECONDS = 1_000


class JobCancelled(Exception):
    """A cancellation of the job was requested."""


class JobLost(Exception):
    """The claim of this process is no longer valid: the job was requeued and claimed by another process."""


class JobTimedOut(Exception):
    """The job took longer than the limit of its type. The message is the error of the job."""


class JobContext:
    """What the function of a job knows and may do: its row, its progress, and whether it is to end.

    A context manager: inside it, a thread updates the heartbeat every POLL_SECONDS and notices when the job
    is cancelled, lost or too slow. The thread connects to the database again after a lost connection.

    job: the row, as it was claimed. ending: why the job is to end; None otherwise.
    interruption: called at each poll while the job is to end, with the seconds since the first one. It ends
    work that does not call `check`, such as a query of another process.
    """

    def __init__(self, job: Job):
        self.job = job
        self.ending: Exception | None = None
        self.interruption: Callable[[float], None] = lambda seconds: None
        self._limit = type_of(job).limit.total_seconds()
        self.steps_done = self.steps_total = 0
        self._stop = threading.Event()
        self._started, self._ending_since = time.monotonic(), 0.0
        self._thread = threading.Thread(target=self._poll_until_stopped, name=f"watch of {job}", daemon=True)

    def __enter__(self) -> "JobContext":
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._stop.set()
        self._thread.join()

    def check(self) -> None:
        """Raise the exception that ends the job, if its end was requested. Cheap: reads no database."""
        if self.ending is not None:
            raise self.ending

    def begin_stage(self, stage: str) -> None:
        """Store that the job begins this stage, and raise the exception that ends it, as `check` does."""
        retry_database(
            lambda: claimed_jobs(self.job).update(stage=stage, heartbeat_at=timezone.now()), check=self.check
        )
        self.check()

    def show_progress(self, done: int, total: int) -> None:
        """Store these counts with the next heartbeat. Cheap: may be called for each row."""
        self.steps_done, self.steps_total = done, total

    def confirm_claim(self) -> None:
        """Lock the job until the transaction ends, so that no other attempt starts. Raise JobLost if one has.

        A function that writes rows of its own calls this in the same transaction.
        """
        if not claimed_jobs(self.job).update(heartbeat_at=timezone.now()):
            raise JobLost(f"{self.job} was claimed by another process")

    def _poll_until_stopped(self) -> None:
        try:
            while not self._stop.wait(POLL_SECONDS):
                self._poll()
        finally:
            connections.close_all()

    def _poll(self) -> None:
        if time.monotonic() - self._started > self._limit:
            self._set_ending(JobTimedOut(timeout_message(self.job)))
        try:
            self._beat()
        except DATABASE_ERRORS as error:
            logger.warning("The watch of %s skipped a beat: %s", self.job, error)
            # Django does not connect again as long as the lost connection is open
            connection.close()
        if self.ending is not None:
            self.interruption(time.monotonic() - self._ending_since)

    def _beat(self) -> None:
        if connection.vendor == "sqlite" and connection.connection is None:
            with connection.cursor() as cursor:
                cursor.execute(f"PRAGMA busy_timeout = {LOCK_MILLISECONDS}")
        claimed = claimed_jobs(self.job)
        # first, because reading needs no lock
        if claimed.filter(cancel_requested_at__isnull=False).exists():
            self._set_ending(JobCancelled(f"{self.job} was cancelled"))
        steps = {"steps_done": self.steps_done, "steps_total": self.steps_total}
        if not claimed.update(heartbeat_at=timezone.now(), **steps):
            self._set_ending(JobLost(f"{self.job} was claimed by another process"))

    def _set_ending(self, ending: Exception) -> None:
        """Store why the job ends.

        Only JobLost replaces an earlier reason: a job that timed out may turn out to be lost.
        """
        if self.ending is None:
            self._ending_since = time.monotonic()
        if self.ending is None or isinstance(ending, JobLost):
            self.ending = ending


def run_job(job_id: int) -> None:
    """Execute a waiting job, and record how it ended.

    Do nothing if the job is not waiting, so that a second message does no harm.
    """
    claim = new_claim()
    job = retry_database(lambda: claim_job(job_id, claim))
    if job is None:
        return
    with JobContext(job) as context:
        try:
            result = type_of(job).run(context) or JobResult()
            retry_database(lambda: _close_as_done(context, result))
        except Exception as error:
            failure = context.ending or error
            retry_database(lambda: _record_failure(job, failure))


def _close_as_done(context: JobContext, result: JobResult) -> None:
    job, total = context.job, context.steps_total
    columns = asdict(result)
    columns.pop("store")
    with transaction.atomic():
        result.store()
        if not close_job(job, JobState.DONE, steps_done=total, steps_total=total, **columns):
            raise JobLost(f"{job} was claimed by another process")


def _record_failure(job: Job, error: Exception) -> None:
    """Close or requeue a job that ended with an error.

    INVARIANT: after any error, the job leaves the state running, unless another process has claimed it. If
    the database does not answer for longer than `retry_database` tries, the sweep requeues the job, because
    its heartbeat has stopped.
    """
    match error:
        case JobCancelled():
            close_job(job, JobState.CANCELLED)
        case JobLost():
            logger.warning("%s was requeued while this attempt was still running; this attempt ends", job)
        case JobTimedOut():
            logger.warning("%s: %s", job, error)
            close_job(job, JobState.FAILED, error=str(error))
        case JobInterrupted():
            logger.exception("%s was interrupted", job, exc_info=error)
            requeue_job(job, reason=str(error))
        case JobRefused():
            logger.info("%s was refused: %s", job, error)
            close_job(job, JobState.FAILED, error=str(error), summary={REFUSED: True})
        case JobFailed():
            logger.exception("%s failed", job, exc_info=error)
            close_job(job, JobState.FAILED, error=str(error))
        case _:
            logger.exception("%s failed", job, exc_info=error)
            close_job(
                job, JobState.FAILED, error=f"{type(error).__name__} (see the worker's log for details)"
            )
