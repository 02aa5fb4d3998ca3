"""Times and validity periods in the time zone of the reader, which a cookie names: read and show them."""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timezone import get_current_timezone, localtime

from authzconsole.common.limited_access import SOON
from entities.frozen import frozen
from entities.vocabulary import Privilege, clip
from grants.models import GroupGrant, UserGrant
from grants.reviews.campaigns import months_later
from grants.validity import Validity, ValidityError

COOKIE = "time_zone"
COOKIE_SECONDS = 365 * 24 * 3600


@cache
def time_zone_names() -> tuple[str, ...]:
    """Return the names of the time zones in regions, and UTC."""
    regions = {
        "Africa",
        "America",
        "Antarctica",
        "Asia",
        "Atlantic",
        "Australia",
        "Europe",
        "Indian",
        "Pacific",
    }
    return ("UTC", *sorted(name for name in available_timezones() if name.partition("/")[0] in regions))


def time_zone_of(request: HttpRequest) -> ZoneInfo:
    """Return the time zone that the cookie names; that of the setting DISPLAY_TIME_ZONE for a missing or
    unknown name.
    """
    name = request.COOKIES.get(COOKIE, "")
    return ZoneInfo(name if name in time_zone_names() else settings.DISPLAY_TIME_ZONE)


def zone_name() -> str:
    """Return the name of the active time zone, such as `Europe/Berlin`."""
    return str(timezone.get_current_timezone())


def reader_localtime(at: datetime) -> datetime:
    """Return a time in the active time zone. Times in the first and last hours of the calendar stay in UTC,
    because the time zone may not have them."""
    try:
        return timezone.localtime(at)
    except OverflowError:
        return at.astimezone(UTC)


def abbreviation(at: datetime) -> str:
    """Return the abbreviation of the active time zone at a time, such as `CET` or `UTC-03`."""
    text = f"{reader_localtime(at):%Z}"
    return f"UTC{text}" if text.startswith(("+", "-")) else text


NO_END, EXTENSION = "none", "30-days"
PERIOD_FIELDS = ("valid_from", "valid_until", "until_preset")


@frozen
class PeriodBadge:
    """A period as a badge. status: limited, soon, future or expired. text: such as `until 5 Dec`. title: the
    exact times.
    """

    status: str
    text: str
    title: str


def period_badge(validity: Validity) -> PeriodBadge | None:
    """Return the current badge of a period; None for a period without limits."""
    if not validity.is_limited:
        return None
    now, title = timezone.now(), period_words(validity)
    if validity.is_over(now):
        return PeriodBadge("expired", "expired", f"Expired; {title}")
    if validity.valid_from is not None and validity.valid_from > now:
        return PeriodBadge("future", f"from {_day(validity.valid_from)}", f"Not begun; {title}")
    if validity.valid_until is None:
        return PeriodBadge("limited", f"since {_day(validity.valid_from)}", title)
    status = "soon" if validity.is_over(now + SOON) else "limited"
    return PeriodBadge(
        status, f"until {_day(_last_day(validity.valid_until) or validity.valid_until)}", title
    )


def period_words(validity: Validity) -> str:
    """Return a period such as `until 5 December 2026, 17:00 CET` in the time zone of the reader, or `without
    limits`.
    """
    parts = (("from", validity.valid_from), ("until", validity.valid_until))
    return (
        " ".join(f"{word} {exact_time(time)}" for word, time in parts if time is not None) or "without limits"
    )


def exact_time(at: datetime) -> str:
    """Return a time such as `5 December 2026, 17:00 CET`. Seconds are left out if they are 0."""
    local = reader_localtime(at)
    return f"{local.day} {local:%B %Y}, {f'{local:%H:%M:%S}'.removesuffix(':00')} {abbreviation(at)}"


def ending_words(end: datetime) -> str:
    """Return an end such as `27 November 2026, 17:00 CET`, or only the last day if it is the end of a day."""
    last = _last_day(end)
    return exact_time(end) if last is None else day_text(last)


def day_text(day: date) -> str:
    """Return a day such as `27 November 2026`."""
    return f"{day.day} {day:%B %Y}"


def _last_day(end: datetime) -> datetime | None:
    """Return a time of the last day of a period that ends with a day; None if it ends within a day."""
    local = reader_localtime(end)
    return local - timedelta(minutes=1) if local.time() == time() else None


def _day(at: datetime | None) -> str:
    local = reader_localtime(at)
    year = "" if local.year == localtime().year else f" {local.year}"
    return f"{local.day} {local:%b}{year}"


def privilege_periods(grants: Mapping[Privilege, UserGrant | GroupGrant]) -> list[tuple[list[str], Validity]]:
    """Return (privileges, period) of the grants with limits; privileges with the same period together."""
    by_period: dict[Validity, list[str]] = {}
    for privilege in Privilege:
        if privilege in grants and grants[privilege].validity.is_limited:
            by_period.setdefault(grants[privilege].validity, []).append(privilege.value)
    return [(privileges, validity) for validity, privileges in by_period.items()]


def fields_of_period(validity: Validity) -> dict[str, str]:
    """Return the values of the fields for a period."""
    return {
        **{name: time_input(time) if time else "" for name, time in validity._asdict().items()},
        "until_preset": "",
    }


def time_input(at: datetime) -> str:
    """Return a time as the value of an input of the type `datetime-local`."""
    return reader_localtime(at).replace(tzinfo=None).isoformat(timespec="seconds").removesuffix(":00")


def period_of_form(fields: Mapping[str, str]) -> Validity:
    """Return the period that the fields describe, in the time zone of the reader.

    Raise ValidityError if it is invalid.
    """
    until, preset = reader_time("valid_until", fields["valid_until"]), fields["until_preset"]
    if preset == NO_END:
        until = None
    elif preset:
        ends = {key: at for key, _, at in presets()}
        if preset not in ends:
            raise ValidityError("the chosen end has passed: choose another one", field="until_preset")
        until = ends[preset]
    validity = Validity.between(reader_time("valid_from", fields["valid_from"]), until)
    validity.check_not_over()
    return validity


_DATE, _DATE_AND_TIME = re.compile(r"\d{4}-\d\d-\d\d"), re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d")


def moment_input(value: str) -> str:
    """Return the type of an input for dates that has this value: a date picker, unless the value has a time or cannot
    be shown by one.
    """
    if not value or _DATE.fullmatch(value):
        return "date"
    return "datetime-local" if _DATE_AND_TIME.fullmatch(value) else "text"


def earlier_days() -> list[tuple[str, date]]:
    """Return the suggested dates of earlier states, with their labels."""
    today = localtime().date()
    return [("A month ago", today - timedelta(days=30)), ("A year ago", today - timedelta(days=365))]


def zone_hint() -> SafeString:
    """Return the hint that names the time zone of a field."""
    return format_html('In {} (<a href="{}">change</a>).', zone_name(), reverse("time-zone"))


def presets() -> Iterable[tuple[str, str, datetime]]:
    """Yield (key, label, end) of the suggested ends."""
    local = localtime().replace(second=0, microsecond=0)
    midnight = local.replace(hour=0, minute=0)
    if local.hour < 18:
        yield "today", "Today, 18:00", in_reader_zone(midnight.replace(hour=18))
    yield (
        "week",
        "End of this week (Sunday, 24:00)",
        in_reader_zone(midnight + timedelta(days=7 - midnight.weekday())),
    )
    yield EXTENSION, "In 30 days", in_reader_zone(local + timedelta(days=30))
    for key, label, months in (
        ("3-months", "In 3 months", 3),
        ("6-months", "In 6 months", 6),
        ("1-year", "In 1 year", 12),
    ):
        yield key, label, in_reader_zone(months_later(local.replace(tzinfo=None), months))


def reader_time(field: str, text: str, *, is_end: bool = False) -> datetime | None:
    """Parse a time without a zone as a time of the reader, as browsers send it. A time with a zone is
    accepted too.

    is_end: a date without a time means the end of that day, not its start. Raise ValidityError if the text is
    not a time.
    """
    if not text:
        return None
    try:
        time = parse_datetime(text)
        if is_end and time is not None and parse_date(text) is not None:
            time += timedelta(days=1)
        # times at the ends of the calendar may not exist in UTC
        at = None if time is None else in_reader_zone(time)
    except (ValueError, OverflowError):
        time = at = None
    if time is None or at is None:
        raise ValidityError(f"`{clip(text)}` is not a time: enter one such as 2026-12-05 17:00", field=field)
    if time.tzinfo is None and at.astimezone(get_current_timezone()).replace(tzinfo=None) != time:
        raise ValidityError(
            f"{text} does not exist in {zone_name()}: clocks are set forward then", field=field
        )
    return at


def parse_time(text: str, *, is_end: bool) -> datetime | None:
    """Parse a date or time of the reader's time zone; return None for empty text.

    Raise ValueError or OverflowError if it is invalid. A time can name another zone.
    is_end: return the end of a date instead of its start.
    """
    if not text:
        return None
    if (day := parse_date(text)) is not None:
        return start_of_day(day + timedelta(days=is_end))
    if (moment := parse_datetime(text)) is None:
        raise ValueError(text)
    return in_reader_zone(moment)


def start_of_day(day: date) -> datetime:
    """Return the beginning of a day in the active time zone, in UTC.

    Raise OverflowError for the first and the last days.
    """
    return in_reader_zone(datetime.combine(day, time()))


def in_reader_zone(local: datetime) -> datetime:
    """Return a time in UTC.

    A time without a zone is one of the active time zone. Raise OverflowError like `start_of_day`.
    """
    return (local if local.tzinfo else local.replace(tzinfo=timezone.get_current_timezone())).astimezone(UTC)
