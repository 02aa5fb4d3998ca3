"""Request, claim, close and cancel runs.

A run moves from waiting to running, and from there to done, failed or cancelled. `analytics.runs.recovery`
moves a run back to waiting when its worker died.
INVARIANT: every move is one UPDATE with a condition on the old state and, for a running run, on the claim of
the executing process. So a message that arrives twice changes nothing, and a process that has lost its run
changes nothing.
"""

import logging
import secrets
from collections.abc import Mapping, Sequence
from contextlib import nullcontext

import kombu.exceptions
import redis
from celery import current_app
from django.db import transaction
from django.db.models import Case, F, Model, Q, Value, When
from django.utils import timezone

from analytics.analyses import CHANGE_EFFECT, PLAN_EFFECT, REVIEW_ITEMS, analysis_by_name
from analytics.models import AnalysisRun, RunState
from analytics.plan_effects.stored import change_effect_options, latest_plan_run, newest_run
from analytics.review_items.stored import items_run
from analytics.runs.options import validated_options
from analytics.runs.presence import redis_problem
from analytics.runs.processes import this_process
from analytics.storage_identity import storage_identity
from grants.changes.authority import administrator_transaction
from grants.effects.changes import GenerationChange
from grants.effects.single_changes import (
    Deletion,
    Removal,
    SingleChange,
    UnknownChange,
    capability_to_make,
    change_as_text,
)
from grants.errors import PlanError
from grants.journal import Author, Change, append_to_journal
from grants.models import Plan
from grants.models.reviews import Campaign
from grants.plans.permission_effect import generation_of_plan
from grants.roles.capabilities import Capability

logger = logging.getLogger(__name__)


def request_run(
    *,
    analysis: str,
    options: Mapping[str, str],
    requested_by,
    is_scheduled: bool = False,
    author: Author | None = None,
) -> AnalysisRun:
    """Store a waiting run and send it to the worker when the transaction commits.

    author: the author of the journal line; None for the first run of an analysis, which has no line. Raise
    AnalysisError for an unknown analysis or invalid options, NotAdministrator if the author may not write.
    """
    known_analysis = analysis_by_name(analysis)
    return store_run(
        analysis=known_analysis.name,
        options=validated_options(known_analysis, options),
        requested_by=requested_by,
        is_scheduled=is_scheduled,
        author=author,
    )


def store_run(
    *,
    analysis: str,
    options: Mapping[str, str],
    requested_by,
    is_scheduled: bool = False,
    author: Author | None = None,
    capability: Capability = Capability.RUN_ANALYSES,
) -> AnalysisRun:
    """Store a waiting run with valid options; see `request_run`. capability: what the author must be allowed
    to do.
    """
    with administrator_transaction(author, capability=capability) if author else nullcontext() as head:
        run = AnalysisRun.objects.create(
            analysis=analysis, options=dict(options), requested_by=requested_by, is_scheduled=is_scheduled
        )
        if author:
            append_to_journal(head, [Change("run-start", detail=_run_text(run))], author=author)
        transaction.on_commit(lambda: send_run(run))
    return run


def request_plan_effect(*, plan: Plan, generation: str = "", author: Author, requested_by) -> AnalysisRun:
    """Request the run that computes the effect of a proposed plan. Return the run that is waiting or running
    already, if any.

    generation: by default, the one for which the plan was created. Raise PlanError, NotAdministrator or
    UnknownGeneration.
    """
    if not plan.is_proposed:
        raise PlanError(f"{plan} was {plan.state}: the effect is computed for plans that can be applied")
    generation = generation or generation_of_plan(plan).name
    run = latest_plan_run(plan, generation)
    if run is not None and not run.is_finished:
        return run
    return store_run(
        analysis=PLAN_EFFECT,
        options={"plan": str(plan.pk), "generation": generation},
        requested_by=requested_by,
        author=author,
        capability=Capability.CHANGE_GRANTS,
    )


def request_change_effect(
    *, changes: Sequence[SingleChange], generation: str, author: Author, requested_by
) -> AnalysisRun:
    """Request the run that computes the effect of single changes. Return the run that is waiting or running
    already, if any.

    generation: a name. Raise UnknownChange for changes that cannot be evaluated together, because the effect
    would depend on their order; NotAdministrator.
    """
    if len(changes) > 1 and any(
        isinstance(change, Deletion | Removal | GenerationChange) for change in changes
    ):
        raise UnknownChange(
            "deletions, removals and another active generation are evaluated without other changes"
        )
    options = change_effect_options([change_as_text(change) for change in changes], generation)
    run = newest_run(CHANGE_EFFECT, options)
    if run is not None and not run.is_finished:
        return run
    return store_run(
        analysis=CHANGE_EFFECT,
        options=options,
        requested_by=requested_by,
        author=author,
        capability=capability_to_make(changes[0]),
    )


def request_review_items(campaign: Campaign, *, is_retry: bool = False) -> AnalysisRun:
    """Return the run that computes the items of a review, and request it if there is none. It has no journal
    line.

    is_retry: request another run, because the one before it failed.
    """
    with transaction.atomic():
        # two messages about the same review must not request two runs
        Campaign.objects.select_for_update().get(pk=campaign.pk)
        run = None if is_retry else items_run(campaign)
        return run or store_run(
            analysis=REVIEW_ITEMS, options={"review": str(campaign.pk)}, requested_by=None
        )


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
    """Cancel a waiting run at once, and a running run within seconds. Return False if the run was already
    finished.

    author: the author of the journal line; without an author, no line is written. Raise NotAdministrator if
    the author may not write.
    """
    if author is None:
        return _cancel_unfinished_run(run)
    with administrator_transaction(author, capability=Capability.RUN_ANALYSES) as head:
        is_cancelled = _cancel_unfinished_run(run)
        if is_cancelled:
            append_to_journal(head, [Change("run-cancel", detail=_run_text(run))], author=author)
    return is_cancelled


def _cancel_unfinished_run(run: AnalysisRun) -> bool:
    """Cancel in one statement, so that a run that is claimed or requeued at the same moment is cancelled too."""
    now, is_waiting = timezone.now(), Q(state=RunState.WAITING)
    unfinished = AnalysisRun.objects.filter(pk=run.pk, state__in=(RunState.WAITING, RunState.RUNNING))
    return bool(
        unfinished.update(
            state=Case(When(is_waiting, then=Value(RunState.CANCELLED)), default=F("state")),
            finished_at=Case(When(is_waiting, then=Value(now)), default=F("finished_at")),
            cancel_requested_at=now,
        )
    )


def new_claim() -> str:
    return secrets.token_hex(16)


def claim_run(run_id: int, claim: str = "") -> AnalysisRun | None:
    """Move a waiting run to running for this process. Return None when the run is not waiting. Runs two
    statements.

    claim: from `new_claim`, if the call may be repeated after a lost connection.
    """
    now, claim = timezone.now(), claim or new_claim()
    AnalysisRun.objects.filter(pk=run_id, state=RunState.WAITING).update(
        state=RunState.RUNNING,
        claim=claim,
        attempt=F("attempt") + 1,
        started_at=now,
        heartbeat_at=now,
        stage="",
        tasks_done=0,
        tasks_total=0,
        error="",
        process=this_process(),
    )
    return AnalysisRun.objects.filter(pk=run_id, state=RunState.RUNNING, claim=claim).first()


def claimed_runs(run: AnalysisRun):
    """Return a queryset of this run, if it still has the claim of `run`; empty after another process has
    claimed it.
    """
    return AnalysisRun.objects.filter(pk=run.pk, state=RunState.RUNNING, claim=run.claim)


def close_run(run: AnalysisRun, state: RunState, **fields) -> bool:
    """Record how a claimed run ended. Return False when the claim is no longer valid. Runs one statement.

    A call that is repeated after a lost connection may find that the first one was successful, with a second
    statement.
    """
    if claimed_runs(run).update(state=state, finished_at=timezone.now(), claim="", **fields):
        return True
    return AnalysisRun.objects.filter(pk=run.pk, state=state, attempt=run.attempt).exists()


def attempt_folder(run: AnalysisRun) -> str:
    """Return the result folder of the run's current attempt, below SNAPSHOT_URI.

    Each attempt has a separate folder, so that the process of a requeued attempt cannot write into the next
    attempt's folder.
    """
    return f"results/{storage_identity()}/run-{run.pk}-{run.attempt}"
