"""Runs from request to end.

A run moves waiting -> running -> done, failed or cancelled; running -> waiting again when its worker was killed. Every move is
one UPDATE that names the state it leaves and, while running, the claim of the process that executes it: a message that
arrives twice and a process that was given up for dead change nothing.
"""

import logging
import secrets
from collections.abc import Iterator, Mapping
from datetime import timedelta

import kombu.exceptions
import redis
from celery import current_app
from django.conf import settings
from django.db import transaction
from django.db.models import Case, F, Q, Value, When
from django.utils import timezone

from analytics.analyses import analysis_named
from analytics.models import AnalysisRun, RunState
from analytics.runs.options import options_checked
from analytics.runs.presence import redis_problem
from analytics.runs.processes import has_ended, this_process
from analytics.storage import database_identity

logger = logging.getLogger(__name__)

# a message that was lost with its Redis is sent again after this
RESEND_AFTER = timedelta(seconds=15)


def request_run(*, analysis: str, options: Mapping[str, str], requested_by, is_scheduled: bool = False) -> AnalysisRun:
    """Keep a run and tell the worker when the transaction commits. Raises AnalysisError."""
    chosen = analysis_named(analysis)
    run = AnalysisRun.objects.create(
        analysis=chosen.name, options=options_checked(chosen, options), requested_by=requested_by, is_scheduled=is_scheduled,
    )
    transaction.on_commit(lambda: _send(run))
    return run


def cancel_run(*, run: AnalysisRun) -> bool:
    """End a run: at once while it waits, within seconds while it runs. False when it was over already.

    One statement, so that a run which is given back or claimed meanwhile is met in the one state or in the other.
    """
    now, waits = timezone.now(), Q(state=RunState.WAITING)
    unfinished = AnalysisRun.objects.filter(pk=run.pk, state__in=(RunState.WAITING, RunState.RUNNING))
    return bool(unfinished.update(
        state=Case(When(waits, then=Value(RunState.CANCELLED)), default=F("state")),
        finished_at=Case(When(waits, then=Value(now)), default=F("finished_at")), cancel_requested_at=now,
    ))


def runs_sweep() -> None:
    """Put runs whose process has fallen silent or ended back to waiting, and tell the worker of those that nobody took."""
    for run in _lost_runs():
        requeue_run(run, silent_since=run.heartbeat_at)
    now = timezone.now()
    unheard = Q(sent_at__isnull=True) | Q(sent_at__lt=now - RESEND_AFTER)
    for run in AnalysisRun.objects.filter(unheard, state=RunState.WAITING).order_by("requested_at", "pk"):
        if not _send(run):
            return


def requeue_run(run: AnalysisRun, *, silent_since=None, sentence: str = "") -> None:
    """What did not come to its end waits again; cancelled where that was asked for, failed after RUN_ATTEMPTS_MOST or its time.

    silent_since: the heartbeat that was seen; a newer one proves that the process lives. sentence: why, for the last time.
    """
    mine = AnalysisRun.objects.filter(pk=run.pk, state=RunState.RUNNING, claim=run.claim)
    if silent_since is not None:
        mine = mine.filter(heartbeat_at=silent_since)
    now, wanted = timezone.now(), mine.filter(cancel_requested_at=None)
    if now - run.started_at > timedelta(seconds=settings.RUN_TIMEOUT_SECONDS):
        left = wanted.update(state=RunState.FAILED, finished_at=now, claim="", error=timeout_sentence())
    elif run.attempt >= settings.RUN_ATTEMPTS_MOST:
        left = wanted.update(state=RunState.FAILED, finished_at=now, claim="", error=sentence or _lost_sentence(run.attempt))
    elif left := wanted.update(state=RunState.WAITING, claim="", process="", stage="", tasks_done=0, tasks_total=0, sent_at=None):
        logger.warning("%s lost its process; it waits for attempt %s", run, run.attempt + 1)
    if not left:
        # last, so that what is cancelled in the middle of this is found here
        mine.filter(cancel_requested_at__isnull=False).update(state=RunState.CANCELLED, finished_at=now, claim="")


def timeout_sentence() -> str:
    """What a run says that took longer than it may."""
    master = settings.SPARK_MASTER
    where = "" if master.startswith("local") else f" SPARK_MASTER is {master}: look whether it has free workers."
    return (f"The run took longer than {settings.RUN_TIMEOUT_SECONDS:,} s and was stopped; RUN_TIMEOUT_SECONDS gives it more "
            f"time.{where}")


def close_run(run: AnalysisRun, state: RunState, **facts) -> bool:
    """Record how a claimed run ended. False when it was no longer this process's to end."""
    mine = AnalysisRun.objects.filter(pk=run.pk, state=RunState.RUNNING, claim=run.claim)
    return bool(mine.update(state=state, finished_at=timezone.now(), claim="", **facts))


def claim_run(run_id: int) -> AnalysisRun | None:
    now, claim = timezone.now(), secrets.token_hex(16)
    waiting = AnalysisRun.objects.filter(pk=run_id, state=RunState.WAITING)
    won = waiting.update(
        state=RunState.RUNNING, claim=claim, attempt=F("attempt") + 1, started_at=now, heartbeat_at=now,
        stage="", tasks_done=0, tasks_total=0, error="", process=this_process(),
    )
    return AnalysisRun.objects.get(pk=run_id, claim=claim) if won else None


def result_folder_of(run: AnalysisRun) -> str:
    """Each attempt has its own, so that one that was given up for dead cannot write into another's."""
    return f"results/{database_identity()}/run-{run.pk}-{run.attempt}"


def _lost_runs() -> Iterator[AnalysisRun]:
    """Those of a process of this machine that has ended, and those of any that has been silent for too long."""
    silent = timezone.now() - timedelta(seconds=settings.RUN_LOST_AFTER_SECONDS)
    for run in AnalysisRun.objects.filter(state=RunState.RUNNING).order_by("pk"):
        if has_ended(run.process) or run.heartbeat_at < silent:
            yield run


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
