"""Periods of days for the journal, such as this quarter."""

from datetime import date, timedelta

from django.utils.timezone import localtime

from authzconsole.web.shared.times import reader_localtime
from entities.frozen import frozen
from grants.models import JournalLine


@frozen
class Period:
    """A period of days of the reader. until: the last day; None for a period that lasts until now."""

    key: str
    label: str
    since: date
    until: date | None = None

    @property
    def words(self) -> str:
        """The period within a sentence, such as `the last 30 days`."""
        text = self.label.lower()
        return f"the {text}" if text[-4:] == "days" else text

    @property
    def days(self) -> dict[str, str]:
        """The parameters of the journal for this period."""
        return {"since": str(self.since), "until": str(self.until or "")}

    @property
    def ends(self) -> dict[str, str]:
        """The parameters of the differences in this period: the end of the day before it, and its end.

        A period that begins before the journal begins with its first line. Runs one query.
        """
        day_before = self.since - timedelta(days=1)
        return {
            "since": str(day_before) if day_before >= first_day() else "1",
            "until": str(self.until or ""),
        }


def first_of_quarter(day: date) -> date:
    return day.replace(month=day.month - (day.month - 1) % 3, day=1)


def first_day() -> date:
    """Return the day of the first journal line; today without one. Runs one query."""
    first_line = JournalLine.objects.filter(revision=1).values_list("at", flat=True).first()
    return reader_localtime(first_line).date() if first_line else localtime().date()


def recent_periods() -> list[Period]:
    """Return the periods that pages of the journal suggest."""
    today = localtime().date()
    quarter = first_of_quarter(today)
    last_day = quarter - timedelta(days=1)
    return [
        Period("quarter", "This quarter", quarter),
        Period("last-quarter", "Last quarter", first_of_quarter(last_day), last_day),
        Period("30-days", "Last 30 days", today - timedelta(days=30)),
    ]


def period_by_key(key: str) -> Period | None:
    return next((period for period in recent_periods() if period.key == key), None)
