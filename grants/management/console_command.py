"""The base class of commands that need a console database."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connection

from entities.errors import Refusal
from grants.models import JournalHead


class ConsoleCommand(BaseCommand):
    """A command that raises CommandError for a refusal, and if the database does not exist or has no tables.
    A missing SQLite file is not created. A reader may close the pipe before the end of the output.
    """

    def execute(self, *args, **options):
        if _is_missing_sqlite_file():
            raise CommandError(_missing_console_message())
        try:
            output = super().execute(*args, **options)
            self.stdout.flush()
            return output
        except Refusal as error:
            raise CommandError(error.detail) from None
        except BrokenPipeError:
            # discard the buffered output so that Python reports no error at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.stdout.fileno())
        except DatabaseError:
            if _has_tables():
                raise
            raise CommandError(_missing_console_message()) from None

    def write_json(self, stream=None, /, **members) -> None:
        """Write one JSON object as a line. stream: by default, standard output."""
        (stream or self.stdout).write(json.dumps(members, ensure_ascii=False))


@contextmanager
def opened_input(file: str) -> Iterator[IO[bytes]]:
    """Open the file that a command reads; `-` is standard input. Raise CommandError if it cannot be read."""
    if file == "-":
        yield sys.stdin.buffer
        return
    try:
        stream = open(file, "rb")
    except (OSError, ValueError) as error:
        raise CommandError(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    with stream:
        yield stream


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
