"""Write counts of use into the table, with one statement for each ROWS_PER_STATEMENT rows, and delete old
ones; and the first day of which the table has one.
"""

import json
from collections.abc import Callable, Iterable
from datetime import date, timedelta
from typing import NamedTuple

from django.conf import settings
from django.db import connection, transaction
from django.db.models import CharField, Max, Min, QuerySet
from django.db.models.functions import Cast
from django.utils import timezone

from entities.address import Address
from entities.models import Entity
from grants.bulk_rows import chunks
from grants.models import User
from grants.models.reviews import UsageDay

ROWS_PER_DELETION = 20_000
_TABLE = UsageDay._meta.db_table
_ADD, _LARGER = (
    f"{_TABLE}.count + excluded.count",
    "CASE WHEN {0}.count > excluded.count THEN {0}.count ELSE excluded.count END",
)


class UsageRecord(NamedTuple):
    """How often a user used an entity on a day (UTC)."""

    user: str
    kind: str
    key: str
    day: date
    count: int = 1


def add_usage(records: Iterable[UsageRecord]) -> int:
    """Add counts to those of the table.

    Records of unknown users and entities are skipped. Return the number of written rows.
    """
    return _write(records, _ADD)


def store_usage(records: Iterable[UsageRecord], unknown: Callable[[UsageRecord, str], None]) -> int:
    """Store each count unless that of the table is larger, so that records can be imported again. Return the
    number of rows.

    unknown: called with each record of an unknown user or entity, and with the name that is unknown.
    """
    return _write(records, _LARGER.format(_TABLE), unknown)


def first_day_of_use() -> date | None:
    """Return the first day of which a use is recorded; None without records: then nothing is known to be unused.

    Runs one query.
    """
    return UsageDay.objects.order_by("day").values_list("day", flat=True).first()


def days_with_use() -> int:
    """Return the number of days since the first one of which a use is recorded; 0 without records. Runs one query."""
    first_day = first_day_of_use()
    return max(0, (timezone.now().date() - first_day).days) if first_day else 0


def newest_use() -> int:
    """Return the number of the newest day of a user and an entity in the records; 0 without records. Runs one query."""
    return UsageDay.objects.order_by("-pk").values_list("pk", flat=True).first() or 0


def days_of_use() -> QuerySet:
    """Return user_id, entity_id, first_day and last_day, as texts, of each user and entity with a recorded use."""
    days = UsageDay.objects.values("user_id", "entity_id").order_by()
    return days.annotate(first_day=Cast(Min("day"), CharField()), last_day=Cast(Max("day"), CharField()))


def delete_old_usage() -> int:
    """Delete some of the rows that are older than USAGE_KEPT_DAYS. Return their number."""
    oldest = timezone.now().date() - timedelta(days=settings.USAGE_KEPT_DAYS)
    rows = (
        UsageDay.objects.filter(day__lt=oldest)
        .order_by("day")
        .values_list("pk", flat=True)[:ROWS_PER_DELETION]
    )
    return UsageDay.objects.filter(pk__among=list(rows)).delete()[0]


def _write(
    records: Iterable[UsageRecord], count: str, unknown: Callable[[UsageRecord, str], None] | None = None
) -> int:
    written = 0
    for part in chunks(records):
        users = dict(
            User.objects.filter(username__among=list({record.user for record in part})).values_list(
                "username", "pk"
            )
        )
        # plain values, because model instances cost a third of the time of this function
        entities = {
            (kind, key): pk
            for kind, key, pk in Entity.objects.filter(
                kind__in={record.kind for record in part}, key__among=list({record.key for record in part})
            ).values_list("kind", "key", "pk")
        }
        # one statement must not write the same row twice; sorted, so that processes do not wait for each
        # other in a circle
        rows: dict[tuple, int] = {}
        for record in part:
            user, entity = users.get(record.user), entities.get((record.kind, record.key))
            if user is not None and entity is not None:
                key = (user, entity, record.day)
                rows[key] = rows.get(key, 0) + record.count
            elif unknown:
                unknown(
                    record, f"user:{record.user}" if user is None else str(Address(record.kind, record.key))
                )
        if rows:
            _upsert(sorted((*key, total) for key, total in rows.items()), count)
        written += len(rows)
    return written


def _upsert(rows: list[tuple], count: str) -> None:
    if connection.vendor == "postgresql":
        source = "SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::date[], %s::bigint[])"
        parameters = [list(column) for column in zip(*rows, strict=True)]
    else:
        # without the condition, SQLite reads ON as the beginning of a condition of a join
        columns = ", ".join(f"json_extract(value, '$[{place}]')" for place in range(4))
        source = f"SELECT {columns} FROM json_each(%s) WHERE TRUE"
        parameters = [json.dumps(rows, default=str)]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {_TABLE} (user_id, entity_id, day, count) {source} "
            f"ON CONFLICT (user_id, entity_id, day) DO UPDATE SET count = {count}",
            parameters,
        )
