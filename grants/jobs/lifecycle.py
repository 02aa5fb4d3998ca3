"""The moves of a job between its states. Each is one UPDATE with a condition."""

import logging
import secrets
from datetime import datetime
from typing import Any, TypeVar

from django.db import transaction
from django.db.models import Case, F, Q, QuerySet, Value, When
from django.utils import timezone

from grants.jobs.processes import this_process
from grants.jobs.queue import send_task
from grants.jobs.types import type_of
from grants.models.jobs import UNFINISHED_STATES, Job, JobState

logger = logging.getLogger(__name__)

RUN_TASK = "grants.run_job"
# Celery kills a process that does not end its job in time; the sweep then finds the job
KILL_GRACE_SECONDS = 120

AnyJob = TypeVar("AnyJob", bound=Job)


def request_job(job: AnyJob) -> AnyJob:
    """Store a new job, and send it to the worker when the transaction commits. Return it."""
    job.save(force_insert=True)
    if job.due_at is None:
        transaction.on_commit(lambda: send_job(job))
    return job


def restart_job(job: Job) -> bool:
    """Put a finished job back in the queue, with new attempts. Return False if it is not finished."""
    is_moved = (
        Job.objects.filter(pk=job.pk)
        .exclude(state__in=UNFINISHED_STATES)
        .update(
            state=JobState.WAITING,
            due_at=None,
            sent_at=None,
            finished_at=None,
            cancel_requested_at=None,
            attempt=0,
            error="",
        )
    )
    if is_moved:
        transaction.on_commit(lambda: send_job(job))
    return bool(is_moved)


def repeat_job(owner: Any, job_type: str) -> bool:
    """Start the recurring job of a row of any table, which is in its column `job`: its first time, or again.

    Return False if the job has not finished yet.
    """
    with transaction.atomic():
        row = type(owner)._base_manager.select_for_update().get(pk=owner.pk)
        if row.job is not None:
            return restart_job(row.job)
        row.job = request_job(Job(type=job_type))
        row.save(update_fields=["job"])
    return True


def send_job(job: Job) -> bool:
    """Send a waiting job to the worker. Return False if Redis does not answer; the next sweep tries again."""
    type_ = type_of(job)
    time_limit = type_.limit.total_seconds() + KILL_GRACE_SECONDS
    if not send_task(RUN_TASK, job.pk, label=str(job), queue=type_.queue, time_limit=time_limit):
        return False
    Job.objects.filter(pk=job.pk, state=JobState.WAITING).update(sent_at=timezone.now())
    return True


def cancel_job(job: Job) -> bool:
    """Cancel a waiting job at once, and a running job within seconds. Return False if it was already
    finished.

    Uses one statement, so that a job that is claimed or requeued at the same moment is cancelled too.
    """
    now, is_waiting = timezone.now(), Q(state=JobState.WAITING)
    return bool(
        Job.objects.filter(pk=job.pk, state__in=UNFINISHED_STATES).update(
            state=Case(When(is_waiting, then=Value(JobState.CANCELLED)), default=F("state")),
            finished_at=Case(When(is_waiting, then=Value(now)), default=F("finished_at")),
            cancel_requested_at=now,
        )
    )


def new_claim() -> str:
    return secrets.token_hex(16)


def claim_job(job_id: int, claim: str = "") -> Job | None:
    """Move a waiting job to running for this process. Return None if it is not waiting. Runs two statements.

    claim: from `new_claim`, if the call may be repeated after a lost connection.
    """
    now, claim = timezone.now(), claim or new_claim()
    Job.objects.filter(pk=job_id, state=JobState.WAITING).update(
        state=JobState.RUNNING,
        claim=claim,
        attempt=F("attempt") + 1,
        started_at=now,
        heartbeat_at=now,
        stage="",
        steps_done=0,
        steps_total=0,
        error="",
        process=this_process(),
    )
    return Job.objects.filter(pk=job_id, state=JobState.RUNNING, claim=claim).first()


def claimed_jobs(job: Job) -> QuerySet[Job]:
    """Return a queryset of this job, if it still has the claim of `job`; empty after another process has
    claimed it.
    """
    return Job.objects.filter(pk=job.pk, state=JobState.RUNNING, claim=job.claim)


def close_job(job: Job, state: JobState, **values) -> bool:
    """Record how a claimed job ended. Return False if the claim is no longer valid. Runs one statement.

    A call that is repeated after a lost connection may find that the first one was successful, with a second
    statement.
    """
    if claimed_jobs(job).update(state=state, finished_at=timezone.now(), claim="", **values):
        return True
    return Job.objects.filter(pk=job.pk, state=state, attempt=job.attempt).exists()


def requeue_job(job: Job, *, silent_since: datetime | None = None, reason: str = "") -> None:
    """Move a claimed job back to waiting, because its process died or its attempt was interrupted.

    If a cancellation was requested, the job is cancelled instead. After its last attempt or its time limit,
    it fails instead.
    silent_since: the heartbeat that the caller read. If the job has a newer one, its process lives and the
    job is unchanged.
    reason: the error of a job that fails after its last attempt.
    """
    claimed, type_ = claimed_jobs(job), type_of(job)
    if silent_since is not None:
        claimed = claimed.filter(heartbeat_at=silent_since)
    now, not_cancelled = timezone.now(), claimed.filter(cancel_requested_at=None)
    if job.started_at is not None and now - job.started_at > type_.limit:
        is_moved = not_cancelled.update(
            state=JobState.FAILED, finished_at=now, claim="", error=timeout_message(job)
        )
    elif job.attempt >= type_.attempts:
        error = reason or _worker_lost_message(job.attempt)
        is_moved = not_cancelled.update(state=JobState.FAILED, finished_at=now, claim="", error=error)
    else:
        pause = type_.pause(job.attempt)
        is_moved = not_cancelled.update(
            state=JobState.WAITING,
            claim="",
            process="",
            stage="",
            steps_done=0,
            steps_total=0,
            sent_at=None,
            due_at=now + pause if pause else None,
            error=reason,
        )
        if is_moved:
            logger.warning(
                "%s lost its process or was interrupted; it waits for attempt %s", job, job.attempt + 1
            )
    if not is_moved:
        # This is the last statement, so it also handles a cancellation that arrives during the statements
        # above.
        claimed.filter(cancel_requested_at__isnull=False).update(
            state=JobState.CANCELLED, finished_at=now, claim=""
        )


def timeout_message(job: Job) -> str:
    """Return the error of a job that took longer than the limit of its type."""
    type_ = type_of(job)
    remedy = " Set RUN_TIMEOUT_SECONDS to allow more time." if type_.time_limit is None else ""
    hint = type_.timeout_hint()
    return (
        f"The run took longer than {type_.limit.total_seconds():,.0f} s and was stopped.{remedy}"
        f"{f' {hint}' if hint else ''}"
    )


def _worker_lost_message(attempts: int) -> str:
    times = f", {attempts} times in a row" if attempts > 1 else ""
    return (
        f"The worker ended during the run{times}, without an error message; the usual reason is too little memory. "
        f"The worker's log may contain more details."
    )
