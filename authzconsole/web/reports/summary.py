"""What a report says before its rows."""

from dataclasses import dataclass
from datetime import date, timedelta

from django.utils import timezone

from analytics.models import AnalysisRun
from authzconsole.web.shared.times import day_text
from entities.vocabulary import quantity
from grants.usage import first_day_of_use


@dataclass(frozen=True, slots=True)
class UseCoverage:
    """What the records of use let a report of unused access say.

    first_day: with a recorded use, now. covered, window: the days with records, and those of the window, when the analysis
    ran.
    """

    first_day: date | None
    covered: int
    window: int
    ran_on: date

    @property
    def is_known(self) -> bool:
        """Whether anything is known to be unused."""
        return self.first_day is not None and self.window > 0

    @property
    def sentence(self) -> str:
        if self.first_day is None:
            return "No use is recorded, so nothing is known to be unused."
        if not self.window:
            return (
                "When the analysis ran, no full day of use was recorded, so it knows nothing to be unused. Uses are recorded "
                f"since {day_text(self.first_day)}: run it again."
            )
        since = self.ran_on - timedelta(days=self.covered)
        return (
            f"Uses are recorded since {day_text(since)} ({quantity(self.covered, 'day', 'days')}). Unused means: without a "
            f"recorded use in the last {quantity(self.window, 'day', 'days')} of these. Earlier use is unknown."
        )


def use_coverage(run: AnalysisRun) -> UseCoverage:
    """Return what the report of a finished run of `unused` can say. Runs one query."""
    covered, window = (
        run.summary.get(name, 0) for name in ("days_with_records_of_use", "days_of_the_window")
    )
    ran_at = run.started_at or run.finished_at or timezone.now()
    return UseCoverage(first_day_of_use(), max(covered, window), window, ran_at.date())
