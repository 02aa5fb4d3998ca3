"""Fast row counts: exact for small tables, estimated from the statistics of the database for large tables."""

from django.db import connection
from django.db.models import Model, QuerySet

from entities.frozen import frozen

MAX_COUNTED = 50_000


@frozen
class RowEstimate:
    """A number of rows. is_exact: whether the rows were counted."""

    figure: int
    is_exact: bool = True

    @property
    def is_large(self) -> bool:
        """Return whether a page should avoid reading all rows."""
        return self.figure > MAX_COUNTED

    def __add__(self, other: "RowEstimate") -> "RowEstimate":
        return RowEstimate(self.figure + other.figure, self.is_exact and other.is_exact)


def estimated_rows(rows: QuerySet) -> RowEstimate:
    """Return the number of rows of a queryset that selects all, or nearly all, rows of one table.

    Runs one query, and a second one if there are more than MAX_COUNTED rows.
    """
    counted = rows.order_by().values("pk")[: MAX_COUNTED + 1].count()
    if counted <= MAX_COUNTED:
        return RowEstimate(counted)
    if connection.vendor != "postgresql":
        # SQLite has no such statistics, but counts by scanning its smallest index
        return RowEstimate(rows.order_by().count())
    return RowEstimate(max(counted, _statistics_estimate(rows.model)), is_exact=False)


def _statistics_estimate(model: type[Model]) -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT reltuples::bigint FROM pg_class WHERE oid = %s::regclass", [model._meta.db_table]
        )
        return cursor.fetchone()[0]
