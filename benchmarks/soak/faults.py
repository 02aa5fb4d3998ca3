"""The faults: each takes a running console and does one kind of damage.

A fault that finds nothing to damage returns False.
"""

import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg

from authzconsole.ops import ROOT

from .console import Console
from .stages import hold_run

# how long a fault waits for its target
TARGET_SECONDS = 10
# how long a fault waits for a run: a slow machine needs a minute until the web server, the worker and Spark
# have started again
RUN_SECONDS = 100
# how long a run that continues may take until Spark starts a Python worker for it
PYTHON_WORKER_SECONDS = 60
LIVE_BACKENDS = "datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"


@dataclass(frozen=True)
class InjectedFault:
    """A fault to cause.

    weight: how often it is chosen. is_light: whether runs can start and usually continue after it.
    needs_run: whether it waits for a run, so that only light faults may happen meanwhile.
    """

    name: str
    damage: Callable[[Console, random.Random], bool]
    weight: float
    is_light: bool = False
    needs_run: bool = False
    needs_disks: bool = False


def faults_for(console: Console) -> list[InjectedFault]:
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


def _kill_child(
    name: str, *words: str, seconds: float = TARGET_SECONDS
) -> Callable[[Console, random.Random], bool]:
    """Return a fault that kills a descendant process of a program: a random one of those with these words in
    their command.
    """

    def kill(console: Console, choose: random.Random) -> bool:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            pid = console.pid_of(name)
            matching = (
                [child for child, command in _descendants(pid) if all(word in command for word in words)]
                if pid
                else []
            )
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
    statement = (
        f"SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity WHERE {LIVE_BACKENDS} "
        "ORDER BY state = 'idle', random() LIMIT 1) AS victim"
    )
    return _terminate(console, statement)


def _drop_all_connections(console: Console, choose: random.Random) -> bool:
    return _terminate(
        console, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {LIVE_BACKENDS}"
    )


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


def _kill_python_worker(console: Console, choose: random.Random) -> bool:
    """Kill a Python worker that executes a task of a run.

    The idle workers of earlier runs are killed first, so the next worker that Spark starts is one that the
    held run needs.
    """
    with ExitStack() as hold:
        run_process = hold.enter_context(hold_run(console.stages, "computing", RUN_SECONDS))
        if run_process is None:
            return False
        idle = _python_workers(run_process)
        for pid in idle:
            _kill(pid)
        hold.close()
        deadline = time.monotonic() + PYTHON_WORKER_SECONDS
        while time.monotonic() < deadline and _is_alive(run_process):
            if new := [pid for pid in _python_workers(run_process) if pid not in idle]:
                time.sleep(choose.uniform(0, 0.05))
                return _kill(choose.choice(new))
            time.sleep(0.01)
    return False


def _python_workers(run_process: int) -> list[int]:
    """Return the Python workers of Spark.

    The daemon that forks them has the same command, and Java as its parent.
    """
    daemons = [
        pid
        for pid, command in _descendants(run_process)
        if "pyspark.daemon" in command and _is_child_of_java(pid)
    ]
    return [worker for daemon in daemons for worker, _ in _descendants(daemon)]


def _is_child_of_java(pid: int) -> bool:
    with suppress(OSError, ValueError):
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        return Path(f"/proc/{parent}/comm").read_text().strip() == "java"
    return False


def _is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def _fill(folder_name: str, stage: str = "") -> Callable[[Console, random.Random], bool]:
    """Return a fault: for a moment, there is no space left in a folder of the console.

    stage: the stage at which a run is paused until the folder is full; empty for no run.
    """

    def fill(console: Console, choose: random.Random) -> bool:
        with ExitStack() as hold:
            run_process = hold.enter_context(hold_run(console.stages, stage, RUN_SECONDS)) if stage else None
            if stage and run_process is None:
                return False
            with _full_disk(console.folder / folder_name):
                is_hit = run_process is None or _is_alive(run_process)
                hold.close()
                time.sleep(choose.uniform(0.5, 3))
        return is_hit

    return fill


@contextmanager
def _full_disk(folder: Path) -> Iterator[None]:
    # two faults can fill one disk at the same time
    filler = folder / f"filler-{threading.get_ident()}"
    try:
        # unbuffered, because closing the file could not write the rest of a buffer to the full disk
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            status = os.statvfs(filler)
            os.posix_fallocate(file.fileno(), 0, status.f_bavail * status.f_frsize)
            while True:
                file.write(b"\0" * 4096)
        yield
    finally:
        filler.unlink()


def _second_scheduler(console: Console, choose: random.Random) -> bool:
    command = [
        console.child_environment["CONSOLE_PYTHON"],
        "-m",
        "celery",
        "-A",
        "authzconsole",
        "beat",
        "--pidfile=",
    ]
    process = subprocess.Popen(
        command, cwd=ROOT, env=console.child_environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
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
    InjectedFault("drop a database connection", _drop_connection, 40, is_light=True),
    InjectedFault("drop all database connections", _drop_all_connections, 8, is_light=True),
    InjectedFault("hang Redis", _hang_redis, 6, is_light=True),
    InjectedFault("kill the worker of the light tasks", _kill_program("light"), 2, is_light=True),
    InjectedFault("kill beat", _kill_program("beat"), 2, is_light=True),
    InjectedFault("start a second scheduler", _second_scheduler, 1, is_light=True),
    InjectedFault("shift the clock", _shift_clock, 2, is_light=True),
    InjectedFault("kill a web process", _kill_child("web", "granian"), 4),
    InjectedFault("kill Redis", _kill_program("redis"), 4),
    InjectedFault("kill a PostgreSQL backend", _kill_backend, 3),
    InjectedFault("kill PostgreSQL", _kill_postgresql, 3),
    InjectedFault("kill the web server", _kill_program("web"), 2),
    InjectedFault("kill the worker", _kill_program("worker"), 3),
    InjectedFault("fill the disk of the database", _fill("pg"), 2, needs_disks=True),
    InjectedFault("fill the disk of logs and reports", _fill("state"), 2, needs_disks=True),
    InjectedFault(
        "kill the process of a run", _kill_child("worker", "celery", seconds=RUN_SECONDS), 1, needs_run=True
    ),
    InjectedFault("kill Java", _kill_child("worker", "java", seconds=RUN_SECONDS), 1, needs_run=True),
    InjectedFault("kill a Python worker of Spark", _kill_python_worker, 1, needs_run=True),
    InjectedFault(
        "fill the disk during a snapshot", _fill("state", "snapshot"), 1, needs_run=True, needs_disks=True
    ),
    InjectedFault(
        "fill the disk while Spark computes", _fill("state", "computing"), 1, needs_run=True, needs_disks=True
    ),
    InjectedFault(
        "fill the disk while a report is written",
        _fill("state", "writing"),
        1,
        needs_run=True,
        needs_disks=True,
    ),
)
