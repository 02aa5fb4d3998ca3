"""Recognize a locked SQLite database, so that the response can be 503 with Retry-After.

SQLite allows one writer at a time, and an import can hold the lock for minutes.
"""

from django.db import OperationalError

RETRY_AFTER_SECONDS = 10


def is_database_locked(error: Exception) -> bool:
    return isinstance(error, OperationalError) and "database is locked" in str(error)
