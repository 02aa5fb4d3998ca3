"""What every command does that works on a console: say so in one sentence where there is none."""

from pathlib import Path

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connection

from grants.models import JournalHead


class ConsoleCommand(BaseCommand):
    """Raises CommandError where the database has no tables, and makes no file for one that there is not."""

    def execute(self, *args, **options):
        if _is_absent():
            raise CommandError(_sentence())
        try:
            return super().execute(*args, **options)
        except DatabaseError:
            if _has_tables():
                raise
            raise CommandError(_sentence()) from None


def _is_absent() -> bool:
    """Whether SQLite would make the file."""
    return connection.vendor == "sqlite" and not connection.is_in_memory_db() and not _path().exists()


def _has_tables() -> bool:
    try:
        return JournalHead._meta.db_table in connection.introspection.table_names()
    except DatabaseError:
        # what was wrong before is what is to be told
        return True


def _path() -> Path:
    return Path(connection.settings_dict["NAME"])


def _sentence() -> str:
    where = _path() if connection.vendor == "sqlite" else f"the database {connection.settings_dict['NAME']}"
    return (f"there is no console in {where}: are STATE_DIR and DATABASE_URL set as they were for `make run`? "
            f"`manage.py bootstrap` makes a new one")
