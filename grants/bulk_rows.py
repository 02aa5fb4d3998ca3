"""Read and write many rows at once: write with the fastest method of each database: COPY on PostgreSQL, executemany on
SQLite.

Neither sets the defaults of fields, sends signals or calls `save`. The caller must pass every column without
a default in the database.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice

from django.db import connection, models
from django.utils import timezone

# SQLite before 3.32 allows 999 parameters per statement.
ROWS_PER_STATEMENT = 900
ROWS_PER_FETCH = 2_000


def stream_rows(rows: models.QuerySet, *columns: str) -> Iterator[tuple]:
    """Yield the values of the columns, in bounded memory."""
    return rows.values_list(*columns).iterator(chunk_size=ROWS_PER_FETCH)


def chunks(items: Iterable, size: int = ROWS_PER_STATEMENT) -> Iterator[list]:
    """Yield lists of at most `size` items."""
    items = iter(items)
    while chunk := list(islice(items, size)):
        yield chunk


def database_time(time: datetime | None) -> datetime | str | None:
    """Return a time in the form of a parameter of an SQL statement; None for None."""
    return connection.ops.adapt_datetimefield_value(time)


def database_now() -> datetime | str | None:
    return database_time(timezone.now())


def reserve_ids(model: type[models.Model], count: int) -> Sequence[int]:
    """Return primary keys that no other row will use, so that new rows can refer to each other before they
    are written.

    Call this in the transaction that writes the rows.
    """
    table = model._meta.db_table
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(
                "SELECT nextval(pg_get_serial_sequence(%s, 'id')) FROM generate_series(1, %s)", [table, count]
            )
            return [pk for (pk,) in cursor.fetchall()]
        cursor.execute("SELECT seq FROM sqlite_sequence WHERE name = %s", [table])
        last = (cursor.fetchone() or (0,))[0]
    return range(last + 1, last + 1 + count)


def insert_rows(model: type[models.Model], columns: Sequence[str], rows: Sequence[tuple]) -> None:
    """Insert rows. The values of a row are in the order of `columns`, in the form of statement parameters."""
    if not rows:
        return
    column_list = ", ".join(map(connection.ops.quote_name, columns))
    table = connection.ops.quote_name(model._meta.db_table)
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            # Django turns the errors of psycopg into its own only for its methods of cursors
            with (
                connection.wrap_database_errors,
                cursor.copy(f"COPY {table} ({column_list}) FROM STDIN") as copy,
            ):
                for row in rows:
                    copy.write_row(row)
        else:
            placeholders = ", ".join(["%s"] * len(columns))
            cursor.executemany(f"INSERT INTO {table} ({column_list}) VALUES ({placeholders})", rows)


def update_rows(model: type[models.Model], columns: Sequence[str], rows: Sequence[tuple]) -> None:
    """Update rows by primary key.

    Each row has the new values in the order of `columns`, then the primary key.
    """
    if not rows:
        return
    assignments = ", ".join(f"{connection.ops.quote_name(column)} = %s" for column in columns)
    with connection.cursor() as cursor:
        cursor.executemany(
            f"UPDATE {connection.ops.quote_name(model._meta.db_table)} SET {assignments} WHERE id = %s", rows
        )


def refresh_statistics(*written_models: type[models.Model]) -> None:
    """Update the planner statistics of these tables on PostgreSQL, where autovacuum would update them up to a
    minute later.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(
                f"ANALYZE {', '.join(connection.ops.quote_name(model._meta.db_table) for model in written_models)}"
            )
