"""Start a real Redis and a real Celery worker on the test database, in separate processes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis
from django.db import connection

from authzconsole.ops import machine

ROOT = Path(__file__).resolve().parents[2]
# the options of the worker of each queue
WORKERS = {"runs": ("--concurrency", "1"), "light": ("--concurrency", "2", "--pool", "threads", "--beat")}


@contextmanager
def run_redis(port: int, folder: Path) -> Iterator[subprocess.Popen]:
    """Run a Redis server without persistence. Its log is in `folder`."""
    program = machine.redis_server()
    if program is None:
        pytest.fail("redis-server is missing; `make test` installs it")
    with (folder / "redis.log").open("a") as log:
        server = subprocess.Popen(
            [program, "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--dir", folder],
            stdout=log,
            stderr=log,
        )
    try:
        _wait_until_ready(port, server)
        yield server
    finally:
        server.terminate()
        server.wait()


def _wait_until_ready(port, server):
    with redis.Redis(port=port) as client:
        for _ in range(200):
            assert server.poll() is None, "redis-server ended at once"
            try:
                client.ping()
                return
            except redis.ConnectionError:
                time.sleep(0.05)
    pytest.fail("redis-server did not answer within 10 s")


@contextmanager
def run_celery_worker(folder: Path, redis_url: str) -> Iterator[subprocess.Popen]:
    """Run the workers of `make run` and the scheduler, and yield the process of the runs' worker.

    The logs and the snapshots are in `folder`.
    """
    environment = os.environ | {
        "DATABASE_URL": database_url(),
        "REDIS_URL": redis_url,
        "SNAPSHOT_URI": str(folder / "snapshots"),
        "SPARK_MASTER": "local[2]",
        "SPARK_DRIVER_MEMORY": "1g",
        "RUN_LOST_AFTER_SECONDS": "240",
        "DJANGO_SETTINGS_MODULE": "tests.settings",
    }
    processes = []
    try:
        for name, options in WORKERS.items():
            command = [
                sys.executable,
                "-m",
                "celery",
                "-A",
                "authzconsole",
                "worker",
                "--queues",
                name,
                "--hostname",
                f"{name}@%h",
                "--without-gossip",
                "--without-mingle",
                "--loglevel",
                "INFO",
                *options,
            ]
            with (folder / f"{name}.log").open("w") as log:
                processes.append(
                    subprocess.Popen(
                        command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True
                    )
                )
        yield processes[0]
    finally:
        for process in processes:
            _stop(process)


def _stop(process: subprocess.Popen) -> None:
    process.send_signal(signal.SIGQUIT)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        pass
    if process.poll() is None or descendants(process.pid):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def descendants(pid: int) -> list[tuple[int, str]]:
    """Return (process id, name) of each descendant, children before their children."""
    processes = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            processes += [(child, Path(f"/proc/{child}/comm").read_text().strip()), *descendants(child)]
    return processes


def database_url() -> str:
    name = connection.settings_dict["NAME"]
    if connection.vendor == "sqlite":
        return f"sqlite:///{name}"
    return urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{name}").geturl()
