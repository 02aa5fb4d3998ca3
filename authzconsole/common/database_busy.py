"""SQLite lets one write at a time: who waited in vain behind a long import is asked to come again."""

from django.db import OperationalError

BUSY_RETRY_SECONDS = 10


def is_busy(error: Exception) -> bool:
    return isinstance(error, OperationalError) and "database is locked" in str(error)
