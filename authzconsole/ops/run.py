"""Set up the machine, prepare the database, and run the console in the foreground until Ctrl-C.

The programs run under supervisord in a separate session. They all end when this process ends, whether by
Ctrl-C, SIGTERM, a closed terminal, SIGKILL, or the end of the parent `make`.
"""

import contextlib
import fcntl
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from . import ROOT, VENV_PYTHON, Refusal, machine
from .address import ListenAddress, check_port, free_port, health_status, listen_address
from .processes import ParentMake, die_with_parent, end_session, exit_status
from .setup import setup, spark_environment

START_TIMEOUT_SECONDS = 120
# longer than the sum of the stop timeouts in supervisord.conf
STOP_TIMEOUT_SECONDS = 25
REQUIRED_PROGRAMS = ("redis", "web")


def say(text: str) -> None:
    # the terminal may be closed already; the shutdown continues without it
    with contextlib.suppress(OSError):
        print(text, flush=True)


def state_folder() -> Path:
    """Return the folder of settings.STATE_DIR. A relative path starts at the checkout."""
    return ROOT / (os.environ.get("STATE_DIR") or "var")


@contextlib.contextmanager
def console_lock(path: Path, address: ListenAddress) -> Iterator[None]:
    """Hold the lock of this state folder; raise Refusal if another console holds it.

    Two consoles with the same database file and schedule would interfere with each other.
    """
    # separately, because `parents` would create the state folder with the usual mode
    path.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise Refusal(
                f"The console of this checkout is already running: {file.read() or 'it is just starting'}. "
                "Stop it with Ctrl-C, or use another checkout or STATE_DIR."
            ) from None
        file.truncate(0)
        file.write(f"{address.url}, process {os.getpid()}")
        file.flush()
        yield
        file.truncate(0)


def configure_redis(run: Path) -> str:
    """Write the configuration of a Redis server for this console only, and return its URL.

    It uses a loopback port with a password, because kombu and redis-py need different URLs for the same Unix
    socket.
    """
    port, password = free_port(), secrets.token_urlsafe(24)
    path = run / "redis.conf"
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        # Redis stores nothing on disk: every run is in the database, and messages that are lost are sent
        # again
        file.write(
            f'bind 127.0.0.1\nport {port}\nrequirepass {password}\nsave ""\nappendonly no\ndaemonize no\n'
            f'dir "{run}"\n'
        )
    return f"redis://:{password}@127.0.0.1:{port}/0"


def environment_of_programs(address: ListenAddress, state: Path) -> dict[str, str]:
    run, logs = state / "run", state / "log"
    for folder in (run, logs):
        folder.mkdir(parents=True, exist_ok=True)
    has_own_redis = not (os.environ.get("REDIS_URL") or os.environ.get("REDIS_URL_FILE"))
    return {
        **os.environ,
        **spark_environment(),
        "PORT": str(address.port),
        "STATE_DIR": str(state),
        "REDIS_URL": configure_redis(run) if has_own_redis else os.environ.get("REDIS_URL", ""),
        "PYTHONUNBUFFERED": "1",
        "CONSOLE_OWN_REDIS": "true" if has_own_redis else "false",
        "CONSOLE_REDIS": str(machine.redis_server() or "redis-server"),
        "CONSOLE_ROOT": str(ROOT),
        "CONSOLE_RUN": str(run),
        "CONSOLE_LOGS": str(logs),
        "CONSOLE_PYTHON": str(VENV_PYTHON),
        "CONSOLE_HOST": address.host,
        "CONSOLE_PORT": str(address.port),
    }


class Programs:
    """supervisord, the programs that it started, and the events in its log."""

    EVENT = re.compile(
        r"(?P<type>spawned|exited|gave up): '?(?P<name>\w+)'?(?: with pid (?P<pid>\d+)| (?P<reason>.*))"
    )

    def __init__(self, environment: dict[str, str]):
        self.logs = Path(environment["CONSOLE_LOGS"])
        self.log = self.logs / "supervisord.log"
        self.log_offset = self.log.stat().st_size if self.log.exists() else 0
        self.process_groups: dict[str, int] = {}
        self.failed_program = ""
        self.supervisor = subprocess.Popen(
            [VENV_PYTHON, "-m", "supervisor.supervisord", "-c", Path(__file__).with_name("supervisord.conf")],
            env=environment,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=die_with_parent(signal.SIGTERM),
        )

    def _new_lines(self) -> list[str]:
        if not self.log.exists():
            return []
        if self.log.stat().st_size < self.log_offset:
            self.log_offset = 0
        with self.log.open("rb") as file:
            file.seek(self.log_offset)
            complete = file.read().rpartition(b"\n")[0] + b"\n"
        self.log_offset += len(complete) if complete.strip() else 0
        return complete.decode(errors="replace").splitlines()

    def report_events(self) -> None:
        """Read the new events in the log, and print one line for each crash."""
        for event in filter(None, map(self.EVENT.search, self._new_lines())):
            name, log = event["name"], self.log_of(event["name"])
            match event["type"]:
                case "spawned":
                    self.process_groups[name] = int(event["pid"])
                case "exited":
                    reason = event["reason"].replace("; not expected", "")
                    say(f"{name} stopped {reason} and is restarted; see {log}")
                    # its children, such as the Java process of a worker, must not run next to the new ones
                    with contextlib.suppress(ProcessLookupError, KeyError):
                        os.killpg(self.process_groups.pop(name), signal.SIGKILL)
                case "gave up":
                    say(f"{name} does not start; see {log}")
                    self.failed_program = name if name in REQUIRED_PROGRAMS else self.failed_program

    def log_of(self, name: str) -> str:
        path = self.logs / f"{name}.log"
        return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)

    def log_end(self, name: str) -> str:
        path = self.logs / f"{name}.log"
        return "\n".join(path.read_text(errors="replace").splitlines()[-8:]) if path.exists() else ""

    def check(self) -> None:
        """Report new events. Raise Refusal if supervisord failed, or if a required program did not start."""
        self.report_events()
        if self.failed_program:
            raise Refusal(
                f"{self.log_end(self.failed_program)}\nThe console stops because {self.failed_program} did not start; "
                f"the lines above are the end of {self.log_of(self.failed_program)}"
            )
        if (code := self.supervisor.poll()) is not None and code != 0:
            raise Refusal(f"supervisord ended (exit status {code}); see {self.log}")

    def stop(self) -> None:
        """Stop supervisord and its programs, and wait until all processes have ended."""
        if self.supervisor.poll() is None:
            self.supervisor.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.supervisor.wait(STOP_TIMEOUT_SECONDS)
        end_session(self.supervisor.pid)
        self.supervisor.wait()


def wait_until_ready(programs: Programs, address: ListenAddress, make: ParentMake) -> bool:
    """Wait for the first answer of the console.

    Return False if it was stopped before. Raise Refusal after a timeout.
    """
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while (status := health_status(address)) is None:
        programs.check()
        if make.has_ended() or programs.supervisor.poll() is not None:
            return False
        if time.monotonic() > deadline:
            raise Refusal(
                f"The console did not answer within {START_TIMEOUT_SECONDS} s; see {programs.log_of('web')}"
            )
        time.sleep(0.1)
    if status >= 500:
        say(f"The console answers with an error (HTTP {status}); see {programs.log_of('web')}")
    return True


def watch(programs: Programs, make: ParentMake) -> None:
    """Wait until supervisord has ended or the parent `make` was stopped.

    Raise Refusal if a required program fails.
    """
    while programs.supervisor.poll() is None and not make.has_ended():
        programs.check()
        time.sleep(0.5)
    programs.check()


def serve(address: ListenAddress, environment: dict[str, str], make: ParentMake) -> None:
    programs = Programs(environment)
    try:
        if wait_until_ready(programs, address, make):
            say(f"The console is at {address.url}")
            say(f"Logs are in {Path(programs.log_of('web')).parent}. Ctrl-C stops everything.")
            watch(programs, make)
    except KeyboardInterrupt:
        pass
    finally:
        say("\nStopping ...")
        programs.stop()
        for file_name in ("redis.conf", "supervisord.pid"):
            Path(environment["CONSOLE_RUN"], file_name).unlink(missing_ok=True)
    say("Stopped.")


def run() -> None:
    make, address, state = ParentMake(), listen_address(), state_folder()
    with console_lock(state / "run" / "console.lock", address):
        check_port(address)
        setup("run")
        # other users of the machine must not read the database, the logs and the results
        os.umask(0o077)
        environment = environment_of_programs(address, state)
        if subprocess.run([VENV_PYTHON, "manage.py", "bootstrap"], cwd=ROOT, env=environment).returncode != 0:
            raise Refusal("The database could not be prepared; the message is above.")
        serve(address, environment, make)


if __name__ == "__main__":
    sys.exit(exit_status(run))
