"""Carrying out a claimed run in the worker, and recording how it ended."""

import logging

from django.conf import settings
from django.db.models import F

from analytics.analyses import analysis_named
from analytics.comparison import changes_since
from analytics.computation import report_compute
from analytics.failure import failure_sentence, java_lost_sentence
from analytics.models import AnalysisRun, RunState
from analytics.services import result_folder_of, run_close, run_give_back
from analytics.spark.session import session_has_died
from analytics.storage import folder_discard
from analytics.watch import RunCancelled, RunLost, RunTimedOut, RunWatch

logger = logging.getLogger(__name__)


def run_carry_out(run: AnalysisRun) -> None:
    folder = result_folder_of(run)
    with RunWatch(run) as watch:
        try:
            outcome = report_compute(
                analysis=analysis_named(run.analysis), options=run.options, folder=folder,
                detail_rows_most=settings.RUN_DETAIL_ROWS_MOST, progress=watch,
            )
            changes = changes_since(run, folder, check=watch.check)
            summary = outcome.summary | ({"changes": changes} if changes else {})
            is_kept = run_close(run, RunState.DONE, revision=outcome.revision, summary=summary, result_folder=folder,
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
            run_close(run, RunState.CANCELLED)
        case RunLost():
            logger.warning("%s was given up for dead and taken up elsewhere; this attempt ends", run)
        case RunTimedOut():
            logger.warning("%s: %s", run, error)
            run_close(run, RunState.FAILED, error=str(error))
        case _ if session_has_died():
            logger.exception("%s: Spark's Java process ended", run, exc_info=error)
            run_give_back(run, sentence=java_lost_sentence(run.attempt))
        case _:
            logger.exception("%s failed", run, exc_info=error)
            run_close(run, RunState.FAILED, error=failure_sentence(error))
