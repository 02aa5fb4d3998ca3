"""Requeue jobs after their worker died, and resend waiting jobs that no worker has claimed.

Celery beat sends a sweep every five seconds, and a worker of the light tasks executes it. A running job is
lost if its process on this machine has ended, or if its heartbeat is older than RUN_LOST_AFTER_SECONDS and
remains so while the database accepts writes: after an interruption of the database, all heartbeats are old.
"""

import time
from collections.abc import Sequence
from datetime import timedelta

from django.conf import settings
from django.db.models import F, Q
from django.utils import timezone

from grants.jobs.lifecycle import requeue_job, send_job
from grants.jobs.processes import has_process_ended
from grants.models.jobs import Job, JobState

# Redis may lose the message of a waiting job, so the message is sent again after this time
RESEND_AFTER = timedelta(seconds=15)
# the time that living processes have for a heartbeat, which they write every second
CONFIRM_SECONDS = 5


def sweep_jobs() -> None:
    """Requeue the lost jobs, then send the waiting jobs that are due and that no worker has claimed."""
    requeue_lost_jobs()
    resend_waiting_jobs()


def requeue_lost_jobs() -> None:
    """Requeue lost jobs: the process on this machine has ended, or the heartbeat on another machine is not
    recent.
    """
    silent = []
    for job in Job.objects.filter(state=JobState.RUNNING).order_by("pk"):
        if has_process_ended(job.process):
            requeue_job(job, silent_since=job.heartbeat_at)
        elif _is_silent(job):
            silent.append(job)
    if silent:
        _wait_for_heartbeats(silent)
    for job in silent:
        requeue_job(job, silent_since=job.heartbeat_at)


def resend_waiting_jobs() -> None:
    """Send the waiting jobs that are due and were not sent within RESEND_AFTER, oldest first.

    Stop if Redis does not accept a job.
    """
    now = timezone.now()
    # a time in the future: the clock was set back after the job was sent
    not_sent_recently = (
        Q(sent_at__isnull=True) | Q(sent_at__lt=now - RESEND_AFTER) | Q(sent_at__gt=now + RESEND_AFTER)
    )
    is_due = Q(due_at__isnull=True) | Q(due_at__lte=now)
    waiting = Job.objects.filter(not_sent_recently, is_due, state=JobState.WAITING)
    for job in waiting.order_by("requested_at", "pk"):
        if not send_job(job):
            return


def _is_silent(job: Job) -> bool:
    """Return whether the heartbeat is too old, or too far in the future because the clock was set back."""
    return job.heartbeat_at is not None and abs(timezone.now() - job.heartbeat_at) > timedelta(
        seconds=settings.RUN_LOST_AFTER_SECONDS
    )


def _wait_for_heartbeats(jobs: Sequence[Job]) -> None:
    """Wait until the database accepts writes, and for CONFIRM_SECONDS after that.

    Raise OperationalError if it accepts none.
    """
    Job.objects.filter(pk__in=[job.pk for job in jobs]).update(claim=F("claim"))
    time.sleep(CONFIRM_SECONDS)
