"""Execute one statement with little work around it, for decisions and tokens."""

from collections.abc import Sequence

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper


def fetch_rows(text: str, parameters: Sequence) -> list[tuple]:
    """Execute a statement and return its rows."""
    database = connections[DEFAULT_DB_ALIAS]
    if database.vendor == "postgresql" and not database.queries_logged and not database.execute_wrappers:
        return _execute_without_cursor(database, text, parameters)
    with database.cursor() as cursor:
        cursor.execute(text, parameters)
        return cursor.fetchall()


def _execute_without_cursor(database: BaseDatabaseWrapper, text: str, parameters: Sequence) -> list[tuple]:
    """Execute the statement on the psycopg connection, with the checks of Django's cursor but without
    creating one.

    This is a fast path; docs/reference/performance.md states its gain.
    """
    database.close_if_health_check_failed()
    database.ensure_connection()
    database.validate_no_broken_transaction()
    with database.wrap_database_errors:
        return database.connection.execute(text, parameters).fetchall()
