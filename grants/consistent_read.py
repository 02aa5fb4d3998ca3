"""Read one state of the database with several queries."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection, transaction


@contextmanager
def consistent_read() -> Iterator[None]:
    """Make all queries read the same state of the database, without blocking writers.

    Inside a transaction, use that transaction.
    """
    if connection.in_atomic_block:
        yield
    elif connection.vendor == "sqlite":
        connection.ensure_connection()
        sqlite: Any = connection
        # the settings use BEGIN IMMEDIATE, which takes the write lock; a deferred transaction reads from the
        # WAL
        mode, sqlite.transaction_mode = sqlite.transaction_mode, "DEFERRED"
        try:
            with transaction.atomic():
                yield
        finally:
            sqlite.transaction_mode = mode
    else:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield
