"""An analysis that a command runs itself, without a worker; what it writes is gone afterwards."""

import logging
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from analytics.analyses import Analysis, AnalysisError
from analytics.models import RunStage
from analytics.storage import database_identity, discard_folder

logger = logging.getLogger(__name__)


@contextmanager
def analysis_in_foreground(
    analysis: Analysis, options: Mapping[str, str], *, with_detail: bool, told: Callable[[RunStage], None]
) -> Iterator[str]:
    """Yields the folder, below SNAPSHOT_URI, with the analysis's tables. Raises AnalysisError saying what went wrong."""
    # PySpark takes its time to load: a wrong option is reported before
    from analytics.runs.computation import compute_report
    from analytics.runs.failure import failure_message
    from analytics.spark.session import spark_stop

    folder = f"results/{database_identity()}/command-{secrets.token_hex(8)}"
    try:
        try:
            compute_report(analysis=analysis, options=options, folder=folder,
                           detail_rows_most=None if with_detail else 0, progress=_Told(told))
        except Exception as error:
            logger.debug("%s failed", analysis.name, exc_info=error)
            raise AnalysisError(failure_message(error, details="set LOG_LEVEL=DEBUG for details")) from error
        yield folder
    finally:
        spark_stop()
        discard_folder(folder)


class _Told:
    """A `computation.Progress` that nobody can end but Ctrl-C."""

    def __init__(self, told: Callable[[RunStage], None]):
        self.stage = told

    def check(self) -> None:
        return None

    def watch(self, context) -> None:
        context.setJobGroup("command", "an analysis in the foreground", interruptOnCancel=True)
