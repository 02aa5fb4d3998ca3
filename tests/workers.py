"""A real Celery worker on the test database, in processes of its own."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from django.db import connection

ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def celery_worker(place: Path, redis_url: str) -> Iterator[subprocess.Popen]:
    """`celery worker` with the periodic sweep in it; its log and its snapshots lie in `place`."""
    environment = os.environ | {
        "DATABASE_URL": _database_url(), "REDIS_URL": redis_url, "SNAPSHOT_URI": str(place / "snapshots"),
        "SPARK_MASTER": "local[2]", "SPARK_DRIVER_MEMORY": "1g", "RUN_LOST_AFTER_SECONDS": "4",
        "DJANGO_SETTINGS_MODULE": "tests.settings",
    }
    command = [sys.executable, "-m", "celery", "-A", "authzconsole", "worker", "--beat", "--schedule", str(place / "beat"),
               "--concurrency", "1", "--loglevel", "INFO"]
    with (place / "worker.log").open("w") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen) -> None:
    process.send_signal(signal.SIGQUIT)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        pass
    if process.poll() is None or descendants(process.pid):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def descendants(pid: int) -> list[tuple[int, str]]:
    """Process ids and names, the nearest first."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found += [(child, Path(f"/proc/{child}/comm").read_text().strip()), *descendants(child)]
    return found


def _database_url() -> str:
    name = connection.settings_dict["NAME"]
    if connection.vendor == "sqlite":
        return f"sqlite:///{name}"
    return urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{name}").geturl()
