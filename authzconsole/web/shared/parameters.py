"""Read query parameters as text that every database accepts."""

from collections.abc import Container
from datetime import UTC, date, datetime, time, timedelta

from django.http import HttpRequest
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

MAX_CHARACTERS = 600


def text_parameter(request: HttpRequest, name: str, *, max_characters: int = MAX_CHARACTERS) -> str:
    """Return the parameter without surrounding spaces; empty if it is missing."""
    return name_parameter(request, name).strip()[:max_characters]


def name_parameter(request: HttpRequest, name: str) -> str:
    """Return the parameter with its spaces, because a name may start or end with a space; empty if it is
    missing.

    U+0000 is removed, because PostgreSQL does not accept it.
    """
    return request.GET.get(name, "").replace("\0", "")


def choice_parameter(request: HttpRequest, name: str, choices: Container[str]) -> str:
    """Return the parameter if it is one of `choices`, otherwise an empty string."""
    value = request.GET.get(name, "")
    return value if value in choices else ""


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


def number_parameter(request: HttpRequest, name: str) -> int | None:
    """Return a number of at most 17 digits; None if the parameter is missing or invalid."""
    text = request.GET.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 18 else None
