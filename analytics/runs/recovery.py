"""Recover runs whose worker died, and resend runs that no worker received.

The worker runs `sweep_runs` every five seconds. A running run is lost when its process on this machine has ended, or when its
heartbeat is older than RUN_LOST_AFTER_SECONDS. A lost run waits again, at most RUN_ATTEMPTS_MOST times.
"""

import logging
from collections.abc import Iterator
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from analytics.models import AnalysisRun, RunState
from analytics.runs.processes import has_process_ended
from analytics.runs.services import claimed_runs, send_run

logger = logging.getLogger(__name__)

# the message of a waiting run may be lost together with its Redis, so it is sent again after this time
RESEND_AFTER = timedelta(seconds=15)


def sweep_runs() -> None:
    """Requeue the lost runs, then send the waiting runs that no worker has taken."""
    requeue_lost_runs()
    resend_waiting_runs()


def requeue_lost_runs() -> None:
    """Requeue every running run whose process has ended or is silent."""
    for run in lost_runs():
        requeue_run(run, silent_since=run.heartbeat_at)


def resend_waiting_runs() -> None:
    """Send the runs that wait longer than RESEND_AFTER, oldest first. Stop at the first that Redis does not accept."""
    not_sent_lately = Q(sent_at__isnull=True) | Q(sent_at__lt=timezone.now() - RESEND_AFTER)
    for run in AnalysisRun.objects.filter(not_sent_lately, state=RunState.WAITING).order_by("requested_at", "pk"):
        if not send_run(run):
            return


def lost_runs() -> Iterator[AnalysisRun]:
    """Yield the running runs whose process on this machine has ended, and those of any machine without a recent heartbeat."""
    oldest_heartbeat = timezone.now() - timedelta(seconds=settings.RUN_LOST_AFTER_SECONDS)
    for run in AnalysisRun.objects.filter(state=RunState.RUNNING).order_by("pk"):
        if has_process_ended(run.process) or run.heartbeat_at < oldest_heartbeat:
            yield run


def requeue_run(run: AnalysisRun, *, silent_since: datetime | None = None, reason: str = "") -> None:
    """Move a run whose process is lost back to waiting.

    The run fails instead after RUN_ATTEMPTS_MOST attempts or RUN_TIMEOUT_SECONDS, and is cancelled instead where a cancellation
    was requested. silent_since: the heartbeat that the caller read; a newer heartbeat proves that the process lives, and the
    run stays as it is. reason: the error message of a run that fails after its last attempt.
    """
    claimed = claimed_runs(run)
    if silent_since is not None:
        claimed = claimed.filter(heartbeat_at=silent_since)
    now, not_cancelled = timezone.now(), claimed.filter(cancel_requested_at=None)
    if now - run.started_at > timedelta(seconds=settings.RUN_TIMEOUT_SECONDS):
        is_moved = not_cancelled.update(state=RunState.FAILED, finished_at=now, claim="", error=timeout_message())
    elif run.attempt >= settings.RUN_ATTEMPTS_MOST:
        error = reason or _worker_lost_message(run.attempt)
        is_moved = not_cancelled.update(state=RunState.FAILED, finished_at=now, claim="", error=error)
    else:
        is_moved = not_cancelled.update(
            state=RunState.WAITING, claim="", process="", stage="", tasks_done=0, tasks_total=0, sent_at=None)
        if is_moved:
            logger.warning("%s lost its process; it waits for attempt %s", run, run.attempt + 1)
    if not is_moved:
        # last, so that a cancellation that arrives during the statements above is handled here
        claimed.filter(cancel_requested_at__isnull=False).update(state=RunState.CANCELLED, finished_at=now, claim="")


def timeout_message() -> str:
    """Return the error message of a run that took longer than RUN_TIMEOUT_SECONDS."""
    master = settings.SPARK_MASTER
    hint = "" if master.startswith("local") else f" SPARK_MASTER is {master}: check whether it has free workers."
    return (f"The run took longer than {settings.RUN_TIMEOUT_SECONDS:,} s and was stopped. Set RUN_TIMEOUT_SECONDS to allow "
            f"more time.{hint}")


def _worker_lost_message(attempts: int) -> str:
    times = f", {attempts} times in a row" if attempts > 1 else ""
    return (f"The worker ended during the run{times}, without an error message; the usual reason is too little memory. "
            f"The worker's log may contain more details.")
