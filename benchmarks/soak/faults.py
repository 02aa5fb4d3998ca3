"""The faults: each takes a running console and does one kind of damage. A fault that finds nothing to damage returns False."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg

from authzconsole.ops import ROOT

from .console import Console

# how long a fault waits for its target, such as a run at one stage
TARGET_SECONDS = 10
LIVE_BACKENDS = "datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"


@dataclass(frozen=True)
class Fault:
    """A fault to cause. weight: how often it is chosen. is_light: whether runs usually continue after it."""

    name: str
    damage: Callable[[Console, random.Random], bool]
    weight: float
    is_light: bool = False
    needs_disks: bool = False


def faults_for(console: Console) -> list[Fault]:
    """Return the faults that are possible on this machine."""
    return [fault for fault in FAULTS if console.has_disks or not fault.needs_disks]


def _kill(pid: int | None, signum: int = signal.SIGKILL) -> bool:
    if pid is None:
        return False
    with suppress(ProcessLookupError):
        os.kill(pid, signum)
        return True
    return False


def _kill_program(name: str) -> Callable[[Console, random.Random], bool]:
    return lambda console, choose: _kill(console.pid_of(name))


def _kill_child(name: str, *words: str) -> Callable[[Console, random.Random], bool]:
    """Return a fault that kills a descendant process of a program: a random one of those with these words in their command."""
    def kill(console: Console, choose: random.Random) -> bool:
        deadline = time.monotonic() + TARGET_SECONDS
        while time.monotonic() < deadline:
            pid = console.pid_of(name)
            matching = [child for child, command in _descendants(pid) if all(word in command for word in words)] if pid else []
            if matching:
                return _kill(choose.choice(matching))
            time.sleep(0.1)
        return False

    return kill


def _descendants(pid: int) -> Iterator[tuple[int, str]]:
    """Yield (process id, command) of each descendant."""
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, task.read_text().split()):
                with suppress(OSError):
                    yield child, Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")
                yield from _descendants(child)


def _hang_redis(console: Console, choose: random.Random) -> bool:
    pid = console.pid_of("redis")
    if not _kill(pid, signal.SIGSTOP):
        return False
    time.sleep(choose.uniform(0.1, 2))
    return _kill(pid, signal.SIGCONT)


def _drop_connection(console: Console, choose: random.Random) -> bool:
    """End one connection, preferably one that executes a statement or is in a transaction."""
    statement = (f"SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity WHERE {LIVE_BACKENDS} "
                 "ORDER BY state = 'idle', random() LIMIT 1) AS victim")
    return _terminate(console, statement)


def _drop_all_connections(console: Console, choose: random.Random) -> bool:
    return _terminate(console, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {LIVE_BACKENDS}")


def _terminate(console: Console, statement: str) -> bool:
    try:
        with console.database() as connection:
            return bool(connection.execute(statement).fetchall())
    except psycopg.Error:
        return False


def _kill_postgresql(console: Console, choose: random.Random) -> bool:
    process = console.postgresql_process
    return process.poll() is None and _kill(process.pid)


def _kill_backend(console: Console, choose: random.Random) -> bool:
    """Kill a backend, after which PostgreSQL ends all others and recovers."""
    try:
        with console.database() as connection:
            rows = connection.execute(f"SELECT pid FROM pg_stat_activity WHERE {LIVE_BACKENDS}").fetchall()
    except psycopg.Error:
        return False
    return bool(rows) and _kill(choose.choice(rows)[0])


def _fill(folder_name: str, stage: str = "") -> Callable[[Console, random.Random], bool]:
    """Return a fault that fills the disk of a folder of the console for a moment. stage: wait until a run is in this stage."""
    def fill(console: Console, choose: random.Random) -> bool:
        if stage and not _wait_for_stage(console, stage):
            return False
        filler = console.folder / folder_name / "filler"
        try:
            # unbuffered, because closing the file could not write the rest of a buffer to the full disk
            with filler.open("wb", buffering=0) as file, suppress(OSError):
                status = os.statvfs(filler)
                os.posix_fallocate(file.fileno(), 0, status.f_bavail * status.f_frsize)
                while True:
                    file.write(b"\0" * 4096)
            time.sleep(choose.uniform(0.5, 3))
        finally:
            filler.unlink()
        return True

    return fill


def _wait_for_stage(console: Console, stage: str) -> bool:
    deadline = time.monotonic() + TARGET_SECONDS
    while time.monotonic() < deadline:
        with suppress(psycopg.Error), console.database() as connection:
            query = "SELECT 1 FROM analytics_analysisrun WHERE state = 'running' AND stage = %s"
            if connection.execute(query, (stage,)).fetchone():
                return True
        time.sleep(0.05)
    return False


def _second_scheduler(console: Console, choose: random.Random) -> bool:
    command = [console.child_environment["CONSOLE_PYTHON"], "-m", "celery", "-A", "authzconsole", "beat", "--pidfile="]
    process = subprocess.Popen(command, cwd=ROOT, env=console.child_environment, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    try:
        time.sleep(choose.uniform(4, 9))
    finally:
        process.kill()
        process.wait()
    return True


def _shift_clock(console: Console, choose: random.Random) -> bool:
    console.shift_clock(choose.choice((-1, 1)) * choose.choice((30, 600, 7_200, 90_000)))
    time.sleep(choose.uniform(1, 4))
    console.shift_clock(0)
    return True


FAULTS = (
    Fault("drop a database connection", _drop_connection, 40, is_light=True),
    Fault("drop all database connections", _drop_all_connections, 8, is_light=True),
    Fault("hang Redis", _hang_redis, 6, is_light=True),
    Fault("kill a web process", _kill_child("web", "granian"), 3, is_light=True),
    Fault("kill the worker of the light tasks", _kill_program("light"), 2, is_light=True),
    Fault("kill beat", _kill_program("beat"), 2, is_light=True),
    Fault("kill Redis", _kill_program("redis"), 2, is_light=True),
    Fault("start a second scheduler", _second_scheduler, 1, is_light=True),
    Fault("shift the clock", _shift_clock, 2, is_light=True),
    Fault("kill a PostgreSQL backend", _kill_backend, 2),
    Fault("kill PostgreSQL", _kill_postgresql, 2),
    Fault("kill the web server", _kill_program("web"), 2),
    Fault("kill the worker", _kill_program("worker"), 2),
    Fault("kill the process of a run", _kill_child("worker", "celery"), 2),
    Fault("kill Java", _kill_child("worker", "java"), 2),
    Fault("kill a Python worker of Spark", _kill_child("worker", "pyspark.daemon"), 3),
    Fault("fill the disk of the database", _fill("pg"), 1, needs_disks=True),
    Fault("fill the disk during a snapshot", _fill("state", "snapshot"), 1, needs_disks=True),
    Fault("fill the disk while Spark computes", _fill("state", "computing"), 1, needs_disks=True),
    Fault("fill the disk while a report is written", _fill("state", "writing"), 1, needs_disks=True),
    Fault("fill the disk of logs and reports", _fill("state"), 1, needs_disks=True),
)
