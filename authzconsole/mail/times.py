"""Write times in e-mail.

The time zone that a reader chose for pages is in a cookie, which the worker does not know.
"""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from django.conf import settings
from django.utils import timezone

from authzconsole.web.shared.times.zones import abbreviation


def time_in_mail(at: datetime) -> str:
    """Return a time in UTC, with the word UTC.

    If DISPLAY_TIME_ZONE is another zone, the time there precedes it.
    """
    in_utc = f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    with timezone.override(ZoneInfo(settings.DISPLAY_TIME_ZONE)):
        local = f"{timezone.localtime(at):%Y-%m-%d %H:%M} {abbreviation(at)}"
    return in_utc if local == in_utc else f"{local} ({in_utc})"
