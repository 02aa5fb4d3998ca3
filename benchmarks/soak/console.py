"""The temporary console of the soak test: PostgreSQL, the programs of `make run`, and the folders on small
file systems.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg

from authzconsole.ops import ROOT, machine, postgres, run
from authzconsole.ops.address import ListenAddress, free_port
from authzconsole.ops.processes import ParentMake, session_members

# without the settings that would lose acknowledged changes when the server is killed
POSTGRESQL_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_wal_size": "64MB",
    "min_wal_size": "32MB",
}
# the size of the small file systems: enough for the longest soak
DISK_BYTES = 1_000_000_000
KEEPER_SECONDS = 0.2


class Console:
    """A running console.

    `keep` restarts PostgreSQL, as an init system would; supervisord restarts the other programs.
    """

    def __init__(self, folder: Path):
        self.folder, self.state = folder, folder / "state"
        self.database_folder, self.clock, self.stages = folder / "pg", folder / "clock", folder / "stages"
        self.postgresql_programs = machine.postgresql_folder()
        self.postgresql_process: subprocess.Popen | None = None
        self.programs: run.Programs | None = None
        self.notes: list[str] = []
        self._say = run.say
        self.has_disks = False
        self._stop, self._are_programs_checked = threading.Event(), True
        self._keeper = threading.Thread(target=self._keep, name="keeper", daemon=True)
        port = free_port()
        self.address = ListenAddress("127.0.0.1", port, f"http://127.0.0.1:{port}")
        self.events = (folder / "events.log").open("a")

    @property
    def database_url(self) -> str:
        return postgres.server_url(self.database_folder)

    def environment(self) -> dict[str, str]:
        temporary = self.state / "tmp"
        temporary.mkdir(mode=0o700, exist_ok=True)
        return {
            **run.environment_of_programs(self.address, self.state),
            "DATABASE_URL": self.database_url,
            "TMPDIR": str(temporary),
            "SPARK_MASTER": "local[2]",
            "SPARK_DRIVER_MEMORY": "1g",
            "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1",
            "DJANGO_SETTINGS_MODULE": "benchmarks.soak.settings",
            "SOAK_CLOCK": str(self.clock),
            "SOAK_STAGES": str(self.stages),
            "LOG_LEVEL": "INFO",
            "FIRST_ANALYSES": "off",
            "SPARK_STARTS_EARLY": "off",
        }

    def shift_clock(self, seconds: int) -> None:
        temporary = self.clock.with_suffix(".new")
        temporary.write_text(str(seconds))
        temporary.replace(self.clock)

    def start(self) -> None:
        self.shift_clock(0)
        self.stages.mkdir()
        postgres.create_cluster(self.postgresql_programs, self.database_folder)
        self.start_postgresql()
        postgres.wait_until_ready(self.postgresql_programs, self.database_folder, self.postgresql_process)
        self.child_environment = self.environment()
        print("Preparing the database ...", flush=True)
        self.manage("bootstrap")
        # one line for each crash would hide the rest of the report
        self._say, run.say = run.say, self.log_event
        with self._errors_in_log():
            self.programs = run.Programs(self.child_environment)
        self._keeper.start()
        if not run.wait_until_ready(self.programs, self.address, ParentMake()):
            raise RuntimeError("the console did not start")

    @contextlib.contextmanager
    def _errors_in_log(self) -> Iterator[None]:
        """Let processes that start in the block write errors to the log: supervisord writes a traceback for
        each lost line.
        """
        standard_error = os.dup(2)
        os.dup2(self.events.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(standard_error, 2)
            os.close(standard_error)

    def manage(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=self.child_environment,
            text=True,
            capture_output=True,
            check=check,
        )

    def log_event(self, text: str) -> None:
        self.events.write(f"{time.strftime('%H:%M:%S')} {text}\n")
        self.events.flush()

    def start_postgresql(self) -> None:
        self.postgresql_process = postgres.start_server(
            self.postgresql_programs, self.database_folder, POSTGRESQL_SETTINGS
        )

    def _keep(self) -> None:
        while not self._stop.wait(KEEPER_SECONDS):
            if self.postgresql_process.poll() is not None:
                self.log_event(
                    f"postgresql ended (status {self.postgresql_process.returncode}) and is started again"
                )
                self.start_postgresql()
                # a server refuses to start while its predecessor is still shutting down
                time.sleep(0.3)
            if not self._are_programs_checked:
                continue
            try:
                self.programs.check()
            except Exception as error:
                self.notes.append(f"the console gave up: {error}")
                self._are_programs_checked = False

    def pid_of(self, program: str) -> int | None:
        return self.programs.process_groups.get(program)

    def members(self) -> list[int]:
        """Return the processes of the console, without those of PostgreSQL."""
        return list(session_members(self.programs.supervisor.pid))

    @contextlib.contextmanager
    def database(self) -> Iterator[psycopg.Connection]:
        with psycopg.connect(self.database_url, autocommit=True, connect_timeout=10) as connection:
            yield connection

    def query(self, statement: str, parameters: tuple = ()) -> list[tuple]:
        """Return the rows of a statement; wait for a database that restarts."""
        return retry_work(lambda: self._query(statement, parameters), 60)

    def _query(self, statement: str, parameters: tuple) -> list[tuple]:
        with self.database() as connection:
            return connection.execute(statement, parameters).fetchall()

    def stop_programs(self) -> list[int]:
        """Stop the programs as Ctrl-C does, and return the processes that are left. PostgreSQL continues."""
        # the keeper too, because PostgreSQL ends with the thread that started it
        self._are_programs_checked = False
        self.programs.stop()
        return self.members()

    def close(self) -> None:
        self._are_programs_checked = False
        if self.programs is not None:
            self.programs.stop()
        self._stop.set()
        if self._keeper.is_alive():
            self._keeper.join()
        if self.postgresql_process is not None and self.postgresql_process.poll() is None:
            self.postgresql_process.send_signal(signal.SIGQUIT)
            self.postgresql_process.wait()
        run.say = self._say
        self.events.close()


def retry_work(work: Callable[[], Any], seconds: float) -> Any:
    """Call `work`, and repeat it after errors of the database, for some seconds at most.

    Return its result.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            return work()
        except psycopg.Error:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.3)


@contextlib.contextmanager
def small_disk(path: Path) -> Iterator[bool]:
    """Mount a small file system at `path`; yield whether that was permitted."""
    path.mkdir()
    options = f"size={DISK_BYTES},mode=0700"
    is_mounted = (
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", path], capture_output=True).returncode
        == 0
    )
    try:
        yield is_mounted
    finally:
        if is_mounted:
            subprocess.run(["umount", "--lazy", path], check=True)


@contextlib.contextmanager
def running_console() -> Iterator[Console]:
    """Start a console in a temporary folder, and remove it afterwards.

    `console.has_disks`: whether its disks can be filled.
    """
    with tempfile.TemporaryDirectory(prefix="console-soak-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        mounted = [stack.enter_context(small_disk(folder / part)) for part in ("state", "pg")]
        if user := postgres.server_user():
            shutil.chown(folder / "pg", user)
        console = Console(folder)
        console.has_disks = all(mounted)
        try:
            console.start()
            yield console
        finally:
            console.close()
            if os.environ.get("SOAK_KEEP"):
                shutil.copytree(
                    folder, os.environ["SOAK_KEEP"], dirs_exist_ok=True, ignore=shutil.ignore_patterns("data")
                )
