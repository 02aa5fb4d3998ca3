"""Show times of pages in the time zone of the reader, which a cookie names."""

from datetime import UTC, datetime
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from django.conf import settings
from django.http import HttpRequest
from django.utils import timezone

COOKIE = "time_zone"
COOKIE_SECONDS = 365 * 24 * 3600
# APIs and documents of protocols have times in UTC
_API_PATHS = ("/api/", "/access/", "/scim/", "/.well-known/")


class TimeZoneMiddleware:
    """Activate the time zone of the reader for pages."""

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        if request.path.startswith(_API_PATHS):
            return self.get_response(request)
        with timezone.override(time_zone_of(request)):
            return self.get_response(request)


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
