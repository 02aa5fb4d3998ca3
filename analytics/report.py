"""The progress and the result of the computation of a report."""

from dataclasses import dataclass
from typing import Protocol

from pyspark import SparkContext

from analytics.models import RunStage


class Progress(Protocol):
    """Receives the progress of an analysis, and can end it."""

    def begin_stage(self, stage: RunStage) -> None:
        """Record that the analysis begins this stage."""

    def check(self) -> None:
        """Raise the exception that ends the analysis, if its end was requested."""

    def track_jobs(self, context: SparkContext) -> None:
        """Treat all Spark jobs that this thread starts after this call as jobs of this analysis."""


@dataclass(frozen=True, slots=True)
class ComputedReport:
    """A report that was computed from a snapshot.

    revision: the revision of the snapshot.
    summary: the figures of the report, `detail_rows` and `detail_is_written`, and `snapshot_fault` if an
    earlier snapshot of the revision was damaged.
    """

    revision: int
    summary: dict
