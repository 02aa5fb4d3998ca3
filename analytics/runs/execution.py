"""Execute a run in the worker and record how it ended."""

import logging

from django.conf import settings
from django.db.models import F

from analytics.analyses import analysis_by_name
from analytics.models import AnalysisRun, RunState
from analytics.results.compare import compare_with_previous
from analytics.results.manifest import write_report_manifest
from analytics.runs.computation import compute_report
from analytics.runs.failure import failure_message, java_lost_message
from analytics.runs.recovery import requeue_run
from analytics.runs.services import attempt_folder, claim_run, close_run
from analytics.runs.watch import RunCancelled, RunLost, RunTimedOut, RunWatch
from analytics.spark.session import has_session_died
from analytics.storage import discard_folder

logger = logging.getLogger(__name__)


def execute_run(*, run_id: int) -> None:
    """Execute a waiting run. Do nothing when the run is not waiting, so that a second message does no harm."""
    run = claim_run(run_id)
    if run is not None:
        execute_claimed_run(run)


def execute_claimed_run(run: AnalysisRun) -> None:
    """Compute the report of a claimed run, compare it with the previous one, sign it, and close the run."""
    folder = attempt_folder(run)
    with RunWatch(run) as watch:
        try:
            outcome = compute_report(
                analysis=analysis_by_name(run.analysis), options=run.options, folder=folder,
                max_detail_rows=settings.RUN_DETAIL_ROWS_MOST, progress=watch,
            )
            summary = outcome.summary | compare_with_previous(run, folder, check=watch.check)
            manifest_hash = write_report_manifest(run, folder, outcome.revision, check=watch.check)
            is_done = close_run(run, RunState.DONE, revision=outcome.revision, summary=summary, result_folder=folder,
                                manifest_hash=manifest_hash, tasks_done=F("tasks_total"))
        except Exception as error:
            _record_failure(run, watch.ending or error)
            is_done = False
    if not is_done:
        discard_folder(folder)


def _record_failure(run: AnalysisRun, error: Exception) -> None:
    """Close or requeue a run that ended with an error.

    INVARIANT: after any error, the run leaves the state running, unless another process has claimed it.
    """
    match error:
        case RunCancelled():
            close_run(run, RunState.CANCELLED)
        case RunLost():
            logger.warning("%s was requeued while this attempt was still running; this attempt ends", run)
        case RunTimedOut():
            logger.warning("%s: %s", run, error)
            close_run(run, RunState.FAILED, error=str(error))
        case _ if has_session_died():
            logger.exception("%s: Spark's Java process ended", run, exc_info=error)
            requeue_run(run, reason=java_lost_message(run.attempt))
        case _:
            logger.exception("%s failed", run, exc_info=error)
            close_run(run, RunState.FAILED, error=failure_message(error))
