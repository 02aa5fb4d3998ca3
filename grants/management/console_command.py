"""The base class of commands that need a console database."""

from pathlib import Path

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connection

from grants.errors import JournalReadOnly
from grants.models import JournalHead


class ConsoleCommand(BaseCommand):
    """A command that raises CommandError if the database does not exist or has no tables. A missing SQLite
    file is not created."""

    def execute(self, *args, **options):
        if _is_missing_sqlite_file():
            raise CommandError(_missing_console_message())
        try:
            return super().execute(*args, **options)
        except JournalReadOnly as error:
            raise CommandError(f"this console is read-only: {error}; nothing was changed") from None
        except DatabaseError:
            if _has_tables():
                raise
            raise CommandError(_missing_console_message()) from None


def _is_missing_sqlite_file() -> bool:
    """Return whether the SQLite file is missing, so that a connection would create it."""
    return connection.vendor == "sqlite" and not connection.is_in_memory_db() and not _sqlite_path().exists()


def _has_tables() -> bool:
    try:
        return JournalHead._meta.db_table in connection.introspection.table_names()
    except DatabaseError:
        # the caller then raises the first error, which is more precise
        return True


def _sqlite_path() -> Path:
    return Path(connection.settings_dict["NAME"])


def _missing_console_message() -> str:
    location = (
        _sqlite_path()
        if connection.vendor == "sqlite"
        else f"the database {connection.settings_dict['NAME']}"
    )
    return (
        f"there is no console in {location}: are STATE_DIR and DATABASE_URL set as they were for `make run`? "
        f"`manage.py bootstrap` creates a new console"
    )
