"""Runs from request to end.

A run moves waiting -> running -> done, failed or cancelled; running -> waiting again when its worker was killed. Every move is
one UPDATE that names the state it leaves and, while running, the claim of the process that executes it: a message that
arrives twice and a process that was given up for dead change nothing.
"""

import logging
import secrets
from collections.abc import Mapping
from datetime import timedelta

import kombu.exceptions
import redis
from celery import current_app
from django.conf import settings
from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from analytics.analyses import analysis_named
from analytics.models import AnalysisRun, RunState
from analytics.options import options_checked
from analytics.presence import redis_problem
from analytics.storage import database_identity

logger = logging.getLogger(__name__)

# a message that was lost with its Redis is sent again after this
RESEND_AFTER = timedelta(seconds=15)


def run_request(*, analysis: str, options: Mapping[str, str], requested_by) -> AnalysisRun:
    """Keep a run and tell the worker when the transaction commits. Raises AnalysisError."""
    chosen = analysis_named(analysis)
    run = AnalysisRun.objects.create(
        analysis=chosen.name, options=options_checked(chosen, options), requested_by=requested_by
    )
    transaction.on_commit(lambda: _send(run))
    return run


def run_cancel(*, run: AnalysisRun) -> bool:
    """End a run: at once while it waits, within seconds while it runs. False when it was over already."""
    now = timezone.now()
    this = AnalysisRun.objects.filter(pk=run.pk)
    if this.filter(state=RunState.WAITING).update(state=RunState.CANCELLED, cancel_requested_at=now, finished_at=now):
        return True
    return bool(this.filter(state=RunState.RUNNING).update(cancel_requested_at=now))


def run_execute(*, run_id: int) -> None:
    """Execute a waiting run; nothing when it is not waiting, so a second message does no harm."""
    run = _claimed(run_id)
    if run is None:
        return
    # PySpark is loaded in the worker only
    from analytics.execution import run_carry_out

    run_carry_out(run)


def runs_sweep() -> None:
    """Put runs whose process has fallen silent back to waiting, and tell the worker of those that nobody took."""
    for run in _silent_runs():
        run_give_back(run, silent_since=run.heartbeat_at)
    now = timezone.now()
    unheard = Q(sent_at__isnull=True) | Q(sent_at__lt=now - RESEND_AFTER)
    for run in AnalysisRun.objects.filter(unheard, state=RunState.WAITING).order_by("requested_at", "pk"):
        if not _send(run):
            return


def run_give_back(run: AnalysisRun, *, silent_since=None, sentence: str = "") -> None:
    """What did not come to its end waits again; cancelled where that was asked for, failed after RUN_ATTEMPTS_MOST.

    silent_since: the heartbeat that was seen; a newer one proves that the process lives. sentence: why, for the last time.
    """
    mine = AnalysisRun.objects.filter(pk=run.pk, state=RunState.RUNNING, claim=run.claim)
    if silent_since is not None:
        mine = mine.filter(heartbeat_at=silent_since)
    now = timezone.now()
    if mine.filter(cancel_requested_at__isnull=False).update(state=RunState.CANCELLED, finished_at=now, claim=""):
        return
    if run.attempt >= settings.RUN_ATTEMPTS_MOST:
        mine.update(state=RunState.FAILED, finished_at=now, claim="", error=sentence or _lost_sentence(run.attempt))
    elif mine.update(state=RunState.WAITING, claim="", stage="", tasks_done=0, tasks_total=0, sent_at=None):
        logger.warning("%s lost its process; it waits for attempt %s", run, run.attempt + 1)


def run_close(run: AnalysisRun, state: RunState, **facts) -> bool:
    """Record how a claimed run ended. False when it was no longer this process's to end."""
    mine = AnalysisRun.objects.filter(pk=run.pk, state=RunState.RUNNING, claim=run.claim)
    return bool(mine.update(state=state, finished_at=timezone.now(), claim="", **facts))


def _claimed(run_id: int) -> AnalysisRun | None:
    now, claim = timezone.now(), secrets.token_hex(16)
    waiting = AnalysisRun.objects.filter(pk=run_id, state=RunState.WAITING)
    won = waiting.update(
        state=RunState.RUNNING, claim=claim, attempt=F("attempt") + 1, started_at=now, heartbeat_at=now,
        stage="", tasks_done=0, tasks_total=0, error="",
    )
    return AnalysisRun.objects.get(pk=run_id, claim=claim) if won else None


def result_folder_of(run: AnalysisRun) -> str:
    """Each attempt has its own, so that one that was given up for dead cannot write into another's."""
    return f"results/{database_identity()}/run-{run.pk}-{run.attempt}"


def _silent_runs():
    silent = timezone.now() - timedelta(seconds=settings.RUN_LOST_AFTER_SECONDS)
    return AnalysisRun.objects.filter(state=RunState.RUNNING, heartbeat_at__lt=silent)


def _lost_sentence(attempts: int) -> str:
    often = f", {attempts} times in a row" if attempts > 1 else ""
    return (f"The worker ended during the run{often}, without a word; the usual reason is too little memory. "
            f"The worker's log may say more.")


def _send(run: AnalysisRun) -> bool:
    """Tell the worker; False where Redis does not answer, and then the next sweep tries again."""
    # asked first, because Celery's own attempt to connect takes seconds and a person is waiting
    if problem := redis_problem():
        logger.warning("%s waits: %s", run, problem)
        return False
    try:
        current_app.send_task("analytics.run_execute", args=[run.pk])
    except (kombu.exceptions.OperationalError, redis.RedisError, OSError) as error:
        logger.warning("%s waits: Redis does not answer (%s)", run, error)
        return False
    AnalysisRun.objects.filter(pk=run.pk, state=RunState.WAITING).update(sent_at=timezone.now())
    return True
