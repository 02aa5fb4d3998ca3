"""Execute a run in the worker and record how it ended."""

import logging

from django.conf import settings
from django.db.models import F

from analytics.analyses import CHANGE_EFFECT, INTERNAL_ANALYSES, PLAN_EFFECT, REVIEW_ITEMS, analysis_by_name
from analytics.models import AnalysisRun, RunState
from analytics.plan_effects.compute import compute_effect
from analytics.plan_effects.sources import PlanSource
from analytics.plan_effects.stored import single_changes_source
from analytics.report import ComputedReport
from analytics.results.compare import compare_with_previous
from analytics.results.manifest import write_report_manifest
from analytics.review_items.compute import compute_review_items
from analytics.runs.computation import compute_report
from analytics.runs.database_retry import retry_database
from analytics.runs.failure import (
    failure_message,
    has_python_worker_died,
    java_lost_message,
    python_worker_lost_message,
    spark_exited_message,
)
from analytics.runs.recovery import requeue_run
from analytics.runs.services import attempt_folder, claim_run, close_run, new_claim
from analytics.runs.watch import RunCancelled, RunLost, RunTimedOut, RunWatch
from analytics.spark.session import SparkExited, has_session_died
from analytics.storage import discard_folder

logger = logging.getLogger(__name__)


def execute_run(*, run_id: int) -> None:
    """Execute a waiting run.

    Do nothing when the run is not waiting, so that a second message does no harm.
    """
    claim = new_claim()
    run = retry_database(lambda: claim_run(run_id, claim))
    if run is not None:
        execute_claimed_run(run)


def execute_claimed_run(run: AnalysisRun) -> None:
    """Compute the report of a claimed run, compare it with the previous one, sign it, and close the run."""
    with RunWatch(run) as watch:
        folder = retry_database(lambda: attempt_folder(run))
        try:
            outcome = _compute(run, folder, watch)
            summary = outcome.summary
            if run.analysis not in INTERNAL_ANALYSES:
                summary |= retry_database(
                    lambda: compare_with_previous(run, folder, check=watch.check), check=watch.check
                )
            # the comparison treats an interrupted query as an unreadable report
            watch.check()
            manifest_hash = write_report_manifest(run, folder, outcome.revision, check=watch.check)
            is_done = retry_database(
                lambda: close_run(
                    run,
                    RunState.DONE,
                    revision=outcome.revision,
                    summary=summary,
                    result_folder=folder,
                    manifest_hash=manifest_hash,
                    tasks_done=F("tasks_total"),
                )
            )
        except Exception as error:
            failure = watch.ending or error
            retry_database(lambda: _record_failure(run, failure))
            is_done = False
    if not is_done:
        discard_folder(folder)


def _compute(run: AnalysisRun, folder: str, watch: RunWatch) -> ComputedReport:
    if run.analysis in (PLAN_EFFECT, CHANGE_EFFECT):
        source = (
            PlanSource(int(run.options["plan"]), run.options["generation"])
            if run.analysis == PLAN_EFFECT
            else single_changes_source(run)
        )
        return compute_effect(source, folder=folder, max_rows=settings.RUN_DETAIL_ROWS_MOST, progress=watch)
    if run.analysis == REVIEW_ITEMS:
        return compute_review_items(number=int(run.options["review"]), folder=folder, progress=watch)
    return compute_report(
        analysis=analysis_by_name(run.analysis),
        options=run.options,
        folder=folder,
        max_detail_rows=settings.RUN_DETAIL_ROWS_MOST,
        progress=watch,
    )


def _record_failure(run: AnalysisRun, error: Exception) -> None:
    """Close or requeue a run that ended with an error.

    INVARIANT: after any error, the run leaves the state running, unless another process has claimed it. If
    the database does not answer for longer than `retry_database` tries, the sweep requeues the run, because
    its heartbeat has stopped.
    """
    match error:
        case RunCancelled():
            close_run(run, RunState.CANCELLED)
        case RunLost():
            logger.warning("%s was requeued while this attempt was still running; this attempt ends", run)
        case RunTimedOut():
            logger.warning("%s: %s", run, error)
            close_run(run, RunState.FAILED, error=str(error))
        case SparkExited():
            logger.exception("%s: Spark's Java process ended while Spark started", run, exc_info=error)
            requeue_run(run, reason=spark_exited_message(error, run.attempt))
        case _ if has_session_died():
            logger.exception("%s: Spark's Java process ended", run, exc_info=error)
            requeue_run(run, reason=java_lost_message(run.attempt))
        case _ if has_python_worker_died(error):
            logger.exception("%s: a Python worker of Spark ended", run, exc_info=error)
            requeue_run(run, reason=python_worker_lost_message(run.attempt))
        case _:
            logger.exception("%s failed", run, exc_info=error)
            close_run(run, RunState.FAILED, error=failure_message(error))
