"""Recognize a locked or unavailable database, so that the response can be 503 with Retry-After.

SQLite allows one writer at a time, and an import can hold the lock for minutes.
"""

import psycopg
from django.db import OperationalError, connection
from django.db.models import QuerySet

from authzconsole.common.monitoring.metrics import DATABASE_BUSY

RETRY_AFTER_SECONDS = 10
# PostgreSQL shuts down or starts, or has no free connection; errors of the connection itself have no code
_UNAVAILABLE_CODES = (None, "57P01", "57P02", "57P03", "53300")


def is_database_locked(error: Exception) -> bool:
    """Return whether a request failed because SQLite is locked, and count these requests."""
    is_locked = isinstance(error, OperationalError) and "database is locked" in str(error)
    if is_locked:
        DATABASE_BUSY.inc()
    return is_locked


def is_database_unavailable(error: BaseException | None) -> bool:
    """Return whether a request failed because PostgreSQL cannot be reached or ended the connection."""
    cause = error.__cause__ if isinstance(error, OperationalError) else None
    return isinstance(cause, psycopg.OperationalError) and cause.sqlstate in _UNAVAILABLE_CODES


def update_without_waiting(rows: QuerySet, **values) -> None:
    """Update the rows. Do nothing if SQLite is locked, because an import can hold the lock for minutes.

    For values that a later request writes again, such as the time of the last use.
    """
    if connection.vendor != "sqlite":
        rows.update(**values)
        return
    with connection.cursor() as cursor:
        timeout_milliseconds = cursor.execute("PRAGMA busy_timeout").fetchone()[0]
        cursor.execute("PRAGMA busy_timeout = 0")
        try:
            rows.update(**values)
        except OperationalError:
            pass
        finally:
            cursor.execute(f"PRAGMA busy_timeout = {timeout_milliseconds}")
