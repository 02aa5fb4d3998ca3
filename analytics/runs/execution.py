"""Carrying out a claimed run in the worker, and recording how it ended."""

import logging

from django.conf import settings
from django.db.models import F

from analytics.analyses import analysis_named
from analytics.models import AnalysisRun, RunState
from analytics.results.compare import changes_since
from analytics.runs.computation import report_compute
from analytics.runs.failure import failure_sentence, java_lost_sentence
from analytics.runs.services import claim_run, close_run, requeue_run, result_folder_of
from analytics.runs.watch import RunCancelled, RunLost, RunTimedOut, RunWatch
from analytics.spark.session import session_has_died
from analytics.storage import folder_discard

logger = logging.getLogger(__name__)


def run_execute(*, run_id: int) -> None:
    """Execute a waiting run; nothing when it is not waiting, so a second message does no harm."""
    run = claim_run(run_id)
    if run is not None:
        carry_out_run(run)


def carry_out_run(run: AnalysisRun) -> None:
    folder = result_folder_of(run)
    with RunWatch(run) as watch:
        try:
            outcome = report_compute(
                analysis=analysis_named(run.analysis), options=run.options, folder=folder,
                detail_rows_most=settings.RUN_DETAIL_ROWS_MOST, progress=watch,
            )
            changes = changes_since(run, folder, check=watch.check)
            summary = outcome.summary | ({"changes": changes} if changes else {})
            is_kept = close_run(run, RunState.DONE, revision=outcome.revision, summary=summary, result_folder=folder,
                                tasks_done=F("tasks_total"))
        except Exception as error:
            _record(run, watch.ending or error)
            is_kept = False
    if not is_kept:
        folder_discard(folder)


def _record(run: AnalysisRun, error: Exception) -> None:
    """INVARIANT: whatever ended it, the run leaves `running`, unless it is another process's by now."""
    match error:
        case RunCancelled():
            close_run(run, RunState.CANCELLED)
        case RunLost():
            logger.warning("%s was given up for dead and taken up elsewhere; this attempt ends", run)
        case RunTimedOut():
            logger.warning("%s: %s", run, error)
            close_run(run, RunState.FAILED, error=str(error))
        case _ if session_has_died():
            logger.exception("%s: Spark's Java process ended", run, exc_info=error)
            requeue_run(run, sentence=java_lost_sentence(run.attempt))
        case _:
            logger.exception("%s failed", run, exc_info=error)
            close_run(run, RunState.FAILED, error=failure_sentence(error))
