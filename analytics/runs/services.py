"""Request, claim, close and cancel runs.

A run moves from waiting to running, and from there to done, failed or cancelled. `analytics.runs.recovery` moves a run back to
waiting when its worker died.
INVARIANT: every move is one UPDATE with a condition on the old state and, for a running run, on the claim of the executing
process. So a message that arrives twice changes nothing, and a process that has lost its run changes nothing.
"""

import logging
import secrets
from collections.abc import Mapping
from contextlib import nullcontext

import kombu.exceptions
import redis
from celery import current_app
from django.db import transaction
from django.db.models import Case, F, Model, Q, Value, When
from django.utils import timezone

from analytics.analyses import analysis_by_name
from analytics.models import AnalysisRun, RunState
from analytics.runs.options import validated_options
from analytics.runs.presence import redis_problem
from analytics.runs.processes import this_process
from analytics.storage_identity import storage_identity
from grants.changes.authority import administrator_transaction
from grants.journal import Author, Change, append_to_journal

logger = logging.getLogger(__name__)


def request_run(*, analysis: str, options: Mapping[str, str], requested_by, is_scheduled: bool = False,
                author: Author | None = None) -> AnalysisRun:
    """Store a waiting run and send it to the worker when the transaction commits.

    author: the author of the journal line; None for the first run of an analysis, which has no line.
    Raise AnalysisError for an unknown analysis or invalid options, NotAdministrator if the author may not write.
    """
    known_analysis = analysis_by_name(analysis)
    options = validated_options(known_analysis, options)
    with administrator_transaction(author) if author else nullcontext() as head:
        run = AnalysisRun.objects.create(
            analysis=known_analysis.name, options=options, requested_by=requested_by, is_scheduled=is_scheduled)
        if author:
            append_to_journal(head, [Change("run-start", detail=_run_text(run))], author=author)
        transaction.on_commit(lambda: send_run(run))
    return run


def _run_text(run: AnalysisRun) -> str:
    options = "".join(f", {name}: {value}" for name, value in sorted(run.options.items()) if value)
    return f"run {run.pk}: {run.analysis}{options}"


def send_run(run: AnalysisRun) -> bool:
    """Send a waiting run to the worker. Return False if Redis does not answer; the next sweep tries again."""
    if not send_to_worker("analytics.run_execute", run):
        return False
    AnalysisRun.objects.filter(pk=run.pk, state=RunState.WAITING).update(sent_at=timezone.now())
    return True


def send_to_worker(task: str, row: Model) -> bool:
    """Send a task with the number of a row. Return False if Redis does not answer, which is logged."""
    # checked first, because Celery itself takes seconds to detect that Redis does not answer
    if problem := redis_problem():
        logger.warning("%s waits: %s", row, problem)
        return False
    try:
        # a new connection, because a pooled connection may belong to a Redis that has been replaced
        with current_app.connection_for_write() as connection:
            current_app.send_task(task, args=[row.pk], connection=connection)
    except (kombu.exceptions.OperationalError, redis.RedisError, OSError) as error:
        logger.warning("%s waits: Redis does not answer (%s)", row, error)
        return False
    return True


def cancel_run(*, run: AnalysisRun, author: Author | None = None) -> bool:
    """Cancel a waiting run at once, and a running run within seconds. Return False if the run was already finished.

    author: the author of the journal line; without an author, no line is written. Raise NotAdministrator if the author may not
    write.
    """
    if author is None:
        return _cancel_unfinished_run(run)
    with administrator_transaction(author) as head:
        is_cancelled = _cancel_unfinished_run(run)
        if is_cancelled:
            append_to_journal(head, [Change("run-cancel", detail=_run_text(run))], author=author)
    return is_cancelled


def _cancel_unfinished_run(run: AnalysisRun) -> bool:
    """Cancel in one statement, so that a run that is claimed or requeued at the same moment is cancelled too."""
    now, is_waiting = timezone.now(), Q(state=RunState.WAITING)
    unfinished = AnalysisRun.objects.filter(pk=run.pk, state__in=(RunState.WAITING, RunState.RUNNING))
    return bool(unfinished.update(
        state=Case(When(is_waiting, then=Value(RunState.CANCELLED)), default=F("state")),
        finished_at=Case(When(is_waiting, then=Value(now)), default=F("finished_at")), cancel_requested_at=now,
    ))


def new_claim() -> str:
    return secrets.token_hex(16)


def claim_run(run_id: int, claim: str = "") -> AnalysisRun | None:
    """Move a waiting run to running for this process. Return None when the run is not waiting. Runs two statements.

    claim: from `new_claim`, if the call may be repeated after a lost connection.
    """
    now, claim = timezone.now(), claim or new_claim()
    AnalysisRun.objects.filter(pk=run_id, state=RunState.WAITING).update(
        state=RunState.RUNNING, claim=claim, attempt=F("attempt") + 1, started_at=now, heartbeat_at=now,
        stage="", tasks_done=0, tasks_total=0, error="", process=this_process(),
    )
    return AnalysisRun.objects.filter(pk=run_id, state=RunState.RUNNING, claim=claim).first()


def claimed_runs(run: AnalysisRun):
    """Return a queryset of this run, if it still has the claim of `run`; empty after another process has claimed it."""
    return AnalysisRun.objects.filter(pk=run.pk, state=RunState.RUNNING, claim=run.claim)


def close_run(run: AnalysisRun, state: RunState, **fields) -> bool:
    """Record how a claimed run ended. Return False when the claim is no longer valid. Runs one statement.

    A call that is repeated after a lost connection may find that the first one was successful, with a second statement.
    """
    if claimed_runs(run).update(state=state, finished_at=timezone.now(), claim="", **fields):
        return True
    return AnalysisRun.objects.filter(pk=run.pk, state=state, attempt=run.attempt).exists()


def attempt_folder(run: AnalysisRun) -> str:
    """Return the result folder of the run's current attempt, below SNAPSHOT_URI.

    Each attempt has a separate folder, so that the process of a requeued attempt cannot write into the next attempt's folder.
    """
    return f"results/{storage_identity()}/run-{run.pk}-{run.attempt}"
