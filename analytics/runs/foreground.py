"""Run an analysis in the process of a command, without a worker. Its files are deleted afterwards."""

import logging
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from analytics.analyses import Analysis, AnalysisError
from analytics.models import RunStage
from analytics.storage import discard_folder
from analytics.storage_identity import storage_identity

logger = logging.getLogger(__name__)


@contextmanager
def analysis_in_foreground(
    analysis: Analysis, options: Mapping[str, str], *, with_detail: bool, on_stage: Callable[[RunStage], None]
) -> Iterator[str]:
    """Run the analysis in this process, yield the folder of its tables (below SNAPSHOT_URI), and discard it
    afterwards.

    on_stage: called at each stage. Raise AnalysisError if the analysis fails.
    """
    # imported here because PySpark loads slowly, and the command reports wrong options before
    from analytics.runs.computation import compute_report
    from analytics.runs.failure import failure_message
    from analytics.spark.session import stop_spark

    folder = f"results/{storage_identity()}/command-{secrets.token_hex(8)}"
    try:
        try:
            compute_report(
                analysis=analysis,
                options=options,
                folder=folder,
                max_detail_rows=None if with_detail else 0,
                progress=_ForegroundProgress(on_stage),
            )
        except Exception as error:
            logger.debug("%s failed", analysis.name, exc_info=error)
            raise AnalysisError(failure_message(error, details="set LOG_LEVEL=DEBUG for details")) from error
        yield folder
    finally:
        stop_spark()
        discard_folder(folder)


class _ForegroundProgress:
    """A `computation.Progress` that only Ctrl-C can end."""

    def __init__(self, on_stage: Callable[[RunStage], None]):
        self.begin_stage = on_stage

    def check(self) -> None:
        return None

    def track_jobs(self, context) -> None:
        context.setJobGroup("command", "an analysis in the foreground", interruptOnCancel=True)
