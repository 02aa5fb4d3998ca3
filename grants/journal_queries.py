"""Read the journal by filter and time."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from django.db import connection, transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Abs

from grants.models import JournalLine


def journal_lines(*, principal: str = "", entity: str = "", actor: str = "", action: str = "", since: datetime | None = None,
                  until: datetime | None = None) -> QuerySet[JournalLine]:
    """Return the lines that match all filters, newest first.

    since, until: lines at or after, and lines before this time. Each of them takes one query.
    The annotation `place` is the sort key for keyset pages. It equals the revision, and is written as an expression that makes
    PostgreSQL use the index of the filter (see `JournalLine`).
    """
    conditions = {"principal": principal, "entity": entity, "actor": actor, "action": action}
    lines = JournalLine.objects.annotate(place=Abs("revision") if any(conditions.values()) else F("revision")).order_by("-place")
    # The times of lines never decrease, so a range of times is a range of revisions.
    conditions |= {"place__gte": _revision_at("at", at__gte=since) if since else 0,
                   "place__lte": _revision_at("-at", at__lt=until) if until else 0}
    if (since and not conditions["place__gte"]) or (until and not conditions["place__lte"]):
        return lines.none()
    return lines.filter(**{name: value for name, value in conditions.items() if value})


@contextmanager
def custom_query_plan() -> Iterator[None]:
    """Make PostgreSQL plan each statement for its parameter values, while one page of the journal is read.

    By default, PostgreSQL reuses one query plan for a repeated statement. A plan for a frequent value reads the whole journal if
    the next value is rare.
    """
    if connection.vendor != "postgresql":
        # SQLite needs no setting. A transaction on SQLite would also wait for a running import.
        yield
        return
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL plan_cache_mode = force_custom_plan")
        yield


def _revision_at(order: str, **times: datetime) -> int:
    """Return the revision of the first line in this order that meets the conditions on its time; 0 if there is none."""
    revision = "-revision" if order.startswith("-") else "revision"
    return JournalLine.objects.filter(**times).order_by(order, revision).values_list("revision", flat=True).first() or 0
