"""Read security events by kind, account, address and time."""

from datetime import datetime

from django.db.models import QuerySet

from authzconsole.models import SecurityEvent


def security_events(
    *,
    kind: str = "",
    account: str = "",
    address: str = "",
    since: datetime | None = None,
    until: datetime | None = None,
) -> QuerySet[SecurityEvent]:
    """Return the events that match all filters, newest first.

    since: only events at or after this time. until: only events before this time.
    """
    conditions = {"kind": kind, "account": account, "address": address, "at__gte": since, "at__lt": until}
    return SecurityEvent.objects.filter(
        **{name: value for name, value in conditions.items() if value}
    ).order_by("-pk")


def event_as_json(event: SecurityEvent) -> dict:
    """Return the members of an event in REST, in downloads and in shipped JSON Lines."""
    at = event.at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {"id": event.pk, "at": at, **{name: getattr(event, name) for name in EVENT_MEMBERS}}


EVENT_MEMBERS = ("kind", "account", "address", "target", "detail", "request_id", "token", "count")
