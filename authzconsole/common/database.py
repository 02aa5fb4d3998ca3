"""Errors of a locked or unavailable database, for a response with 503 and Retry-After; waiting for the lock of
SQLite; and how PostgreSQL plans statements.

SQLite allows one writer at a time, and an import can hold the lock for minutes.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from django.db import DEFAULT_DB_ALIAS, OperationalError, connection, connections
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


@contextmanager
def lock_wait(milliseconds: int) -> Iterator[None]:
    """Wait at most this long for the lock of SQLite. Inside a transaction, nothing changes."""
    if connection.vendor != "sqlite" or connection.in_atomic_block:
        yield
        return
    with connection.cursor() as cursor:
        timeout_milliseconds = cursor.execute("PRAGMA busy_timeout").fetchone()[0]
        cursor.execute(f"PRAGMA busy_timeout = {milliseconds}")
        try:
            yield
        finally:
            cursor.execute(f"PRAGMA busy_timeout = {timeout_milliseconds}")


def update_without_waiting(rows: QuerySet, **values) -> None:
    """Update the rows. Do nothing if SQLite is locked, because an import can hold the lock for minutes.

    For values that a later request writes again, such as the time of the last use.
    """
    try:
        with lock_wait(0):
            rows.update(**values)
    except OperationalError:
        if connection.vendor != "sqlite":
            raise


def set_prepare_threshold(*, is_page: bool) -> None:
    """Set the threshold of the open PostgreSQL connection, for each request. A new connection has that of the
    settings (`DATABASES["default"]["OPTIONS"]["prepare_threshold"]`).

    psycopg prepares a statement after `prepare_threshold` executions; PostgreSQL then may use one generic plan
    for all parameters. For APIs this saves most of the time of a decision. For pages it is harmful: a plan that
    suits an average namespace or account is a bad plan for the largest one. So the statements of pages are
    never prepared.
    """
    database = connections[DEFAULT_DB_ALIAS]
    if database.vendor == "postgresql" and database.connection is not None:
        database.connection.prepare_threshold = (
            None if is_page else database.settings_dict["OPTIONS"].get("prepare_threshold")
        )
