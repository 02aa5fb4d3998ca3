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
    """The lines of which all of this is true, newest first. since: inclusive; until: exclusive; each takes one query. A line has
    its `place` in this order, by which a page is asked for: its revision, told apart so that a filter goes by an index of its
    own (grants.models)."""
    asked = {"principal": principal, "entity": entity, "actor": actor, "action": action}
    lines = JournalLine.objects.annotate(place=Abs("revision") if any(asked.values()) else F("revision")).order_by("-place")
    # no line is of an earlier time than the one before: a stretch of time is a stretch of revisions
    asked |= {"place__gte": _revision_at("at", at__gte=since) if since else 0,
              "place__lte": _revision_at("-at", at__lt=until) if until else 0}
    if (since and not asked["place__gte"]) or (until and not asked["place__lte"]):
        return lines.none()
    return lines.filter(**{name: value for name, value in asked.items() if value})


@contextmanager
def custom_query_plan() -> Iterator[None]:
    """Around the look at a page of the journal. PostgreSQL keeps one plan for a statement that it has met a few times, whatever
    it asks for next; of a filter by what is rare that plan reads the whole journal, as for what is frequent it need not."""
    if connection.vendor != "postgresql":
        # on SQLite, which plans so anyway, a transaction would wait for an import
        yield
        return
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL plan_cache_mode = force_custom_plan")
        yield


def _revision_at(order: str, **times: datetime) -> int:
    """A time as a place among the revisions; 0 where no line is of such a time."""
    revision = "-revision" if order.startswith("-") else "revision"
    return JournalLine.objects.filter(**times).order_by(order, revision).values_list("revision", flat=True).first() or 0
