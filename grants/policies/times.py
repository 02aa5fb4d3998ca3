"""Parse times as RFC 3339, with a time zone, and write them."""

import re
from datetime import UTC, datetime

from entities.errors import Refusal
from entities.vocabulary import clip

_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?(Z|z|[+-]\d\d:\d\d)?", re.ASCII)
EXAMPLE = "2026-05-01T12:00:00Z"


class TimeError(Refusal, ValueError):
    """The text is not a time with a time zone."""


def is_time(text: str) -> bool:
    """Return whether the text has the form of a time, with or without a time zone."""
    return _TIME.fullmatch(text) is not None


def parse_time(text: object) -> datetime:
    """Return the time. Raise TimeError if the text is not one, or has no time zone."""
    if not isinstance(text, str) or not is_time(text.strip()):
        raise TimeError(f"`{clip(str(text))}` is not a time, such as {EXAMPLE}")
    # Python reads at most six digits of a second
    text = re.sub(r"(\.\d{6})\d+", r"\1", text.strip()).upper()
    try:
        time = datetime.fromisoformat(text)
        if time.tzinfo is not None:
            # times at the ends of the calendar may not exist in UTC
            time.astimezone(UTC)
    except (ValueError, OverflowError):
        raise TimeError(f"`{clip(text)}` is not a time: there is no such day or hour") from None
    if time.tzinfo is None:
        raise TimeError(f"`{clip(text)}` has no time zone: add Z for UTC, or an offset such as +01:00")
    return time


def format_time(time: datetime | None) -> str:
    """Return a time in RFC 3339, in UTC and in seconds, as in tenant documents and APIs; empty for None."""
    # strftime writes years before 1000 with fewer than four digits on Linux
    return "" if time is None else time.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def time_in_words(time: datetime) -> str:
    """Return a time such as `5 December 2026, 17:00 UTC`. Seconds are left out if they are 0."""
    time = time.astimezone(UTC)
    return f"{time.day} {time:%B %Y}, {time:%H:%M:%S}".removesuffix(":00") + " UTC"
