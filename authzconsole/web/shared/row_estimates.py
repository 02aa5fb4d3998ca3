"""How much there is of something: counted as far as counting is quick, beyond that as the database's statistics say."""

from dataclasses import dataclass

from django.db import connection
from django.db.models import Model, QuerySet

MOST_COUNTED = 50_000


@dataclass(frozen=True, slots=True)
class RowEstimate:
    figure: int
    is_exact: bool = True

    @property
    def is_large(self) -> bool:
        """Whether a page should keep from walking through all of it."""
        return self.figure > MOST_COUNTED

    def __add__(self, other: "RowEstimate") -> "RowEstimate":
        return RowEstimate(self.figure + other.figure, self.is_exact and other.is_exact)


def estimated_rows(rows: QuerySet) -> RowEstimate:
    """rows: of one table, (nearly) all of it. One query, and one more where there are more than MOST_COUNTED."""
    counted = rows.order_by().values("pk")[: MOST_COUNTED + 1].count()
    if counted <= MOST_COUNTED:
        return RowEstimate(counted)
    if connection.vendor != "postgresql":
        # SQLite keeps no statistics of the kind, and walks its narrowest index
        return RowEstimate(rows.order_by().count())
    return RowEstimate(max(counted, _estimate(rows.model)), is_exact=False)


def _estimate(model: type[Model]) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT reltuples::bigint FROM pg_class WHERE oid = %s::regclass", [model._meta.db_table])
        return cursor.fetchone()[0]
