"""Requeue runs after their worker died, and resend waiting runs that no worker has claimed.

Celery beat sends the task `sweep_runs` every five seconds, and a worker of the light tasks executes it. A
running run is lost if its process on this machine has ended, or if its heartbeat is older than
RUN_LOST_AFTER_SECONDS and remains so while the database accepts writes: after an interruption of the
database, all heartbeats are old. A lost run is requeued until it was started RUN_ATTEMPTS_MOST times or
RUN_TIMEOUT_SECONDS have passed.
"""

import logging
import time
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import F, Q
from django.utils import timezone

from analytics.models import AnalysisRun, RunState
from analytics.runs.processes import has_process_ended
from analytics.runs.services import claimed_runs, send_run

logger = logging.getLogger(__name__)

# Redis may lose the message of a waiting run, so the message is sent again after this time
RESEND_AFTER = timedelta(seconds=15)
# the time that living processes have for a heartbeat, which they write every second
CONFIRM_SECONDS = 5


def sweep_runs() -> None:
    """Requeue the lost runs, then resend the waiting runs that no worker has claimed."""
    requeue_lost_runs()
    resend_waiting_runs()


def requeue_lost_runs() -> None:
    """Requeue lost runs: the process on this machine has ended, or the heartbeat on another machine is not
    recent.
    """
    silent = []
    for run in AnalysisRun.objects.filter(state=RunState.RUNNING).order_by("pk"):
        if has_process_ended(run.process):
            requeue_run(run, silent_since=run.heartbeat_at)
        elif _is_silent(run):
            silent.append(run)
    if silent:
        _wait_for_heartbeats(silent)
    for run in silent:
        requeue_run(run, silent_since=run.heartbeat_at)


def resend_waiting_runs() -> None:
    """Resend the waiting runs that were not sent within RESEND_AFTER, oldest first.

    Stop if Redis does not accept a run.
    """
    now = timezone.now()
    # a time in the future: the clock was set back after the run was sent
    not_sent_recently = (
        Q(sent_at__isnull=True) | Q(sent_at__lt=now - RESEND_AFTER) | Q(sent_at__gt=now + RESEND_AFTER)
    )
    for run in AnalysisRun.objects.filter(not_sent_recently, state=RunState.WAITING).order_by(
        "requested_at", "pk"
    ):
        if not send_run(run):
            return


def _is_silent(run: AnalysisRun) -> bool:
    """Return whether the heartbeat is too old, or too far in the future because the clock was set back."""
    return abs(timezone.now() - run.heartbeat_at) > timedelta(seconds=settings.RUN_LOST_AFTER_SECONDS)


def _wait_for_heartbeats(runs: Sequence[AnalysisRun]) -> None:
    """Wait until the database accepts writes, and for CONFIRM_SECONDS after that.

    Raise OperationalError if it accepts none.
    """
    AnalysisRun.objects.filter(pk__in=[run.pk for run in runs]).update(claim=F("claim"))
    time.sleep(CONFIRM_SECONDS)


def requeue_run(run: AnalysisRun, *, silent_since: datetime | None = None, reason: str = "") -> None:
    """Move a lost run back to waiting.

    If a cancellation was requested, the run is cancelled instead. After RUN_ATTEMPTS_MOST attempts or
    RUN_TIMEOUT_SECONDS, it fails instead.
    silent_since: the heartbeat that the caller read. If the run has a newer one, its process lives and the
    run is unchanged.
    reason: the error message of a run that fails after its last attempt.
    """
    claimed = claimed_runs(run)
    if silent_since is not None:
        claimed = claimed.filter(heartbeat_at=silent_since)
    now, not_cancelled = timezone.now(), claimed.filter(cancel_requested_at=None)
    if now - run.started_at > timedelta(seconds=settings.RUN_TIMEOUT_SECONDS):
        is_moved = not_cancelled.update(
            state=RunState.FAILED, finished_at=now, claim="", error=timeout_message()
        )
    elif run.attempt >= settings.RUN_ATTEMPTS_MOST:
        error = reason or _worker_lost_message(run.attempt)
        is_moved = not_cancelled.update(state=RunState.FAILED, finished_at=now, claim="", error=error)
    else:
        is_moved = not_cancelled.update(
            state=RunState.WAITING, claim="", process="", stage="", tasks_done=0, tasks_total=0, sent_at=None
        )
        if is_moved:
            logger.warning("%s lost its process; it waits for attempt %s", run, run.attempt + 1)
    if not is_moved:
        # This is the last statement, so it also handles a cancellation that arrives during the statements
        # above.
        claimed.filter(cancel_requested_at__isnull=False).update(
            state=RunState.CANCELLED, finished_at=now, claim=""
        )


def timeout_message() -> str:
    """Return the error message of a run that took longer than RUN_TIMEOUT_SECONDS."""
    master = settings.SPARK_MASTER
    hint = (
        "" if master.startswith("local") else f" SPARK_MASTER is {master}: check whether it has free workers."
    )
    return (
        f"The run took longer than {settings.RUN_TIMEOUT_SECONDS:,} s and was stopped. Set RUN_TIMEOUT_SECONDS to allow "
        f"more time.{hint}"
    )


def _worker_lost_message(attempts: int) -> str:
    times = f", {attempts} times in a row" if attempts > 1 else ""
    return (
        f"The worker ended during the run{times}, without an error message; the usual reason is too little memory. "
        f"The worker's log may contain more details."
    )
