"""Start a PostgreSQL server with an empty database of the console for a benchmark."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from authzconsole.ops.postgres import postgresql


@contextmanager
def bench_console(**environment: str) -> Iterator[Path]:
    """Set Django up in this process, and yield the state folder. Call it before modules with models are imported.

    environment: more variables of the environment.
    """
    with postgresql() as url, tempfile.TemporaryDirectory(prefix="console-bench-") as state:
        os.environ |= {
            "DATABASE_URL": url,
            "DJANGO_SETTINGS_MODULE": "authzconsole.settings",
            "STATE_DIR": state,
            # no log line for each request
            "LOG_LEVEL": "ERROR",
        }
        os.environ.pop("SNAPSHOT_URI", None)
        os.environ |= environment
        import django

        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        yield Path(state)


def database_process() -> int:
    """Return the number of the PostgreSQL process that serves the connection of this process."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()
    return pid


def process_seconds(pid: int) -> float:
    """Return the CPU time of a process with one thread."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
