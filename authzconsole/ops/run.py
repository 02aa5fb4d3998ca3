"""Set up the machine, prepare the database, and run the console in the foreground until Ctrl-C.

The programs run under supervisord in a separate session. They all end when this process ends, whether by Ctrl-C, SIGTERM, a
closed terminal, SIGKILL, or the end of the parent `make`.
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
from .address import Listening, answer_status, check_port, free_port, listening
from .processes import ParentMake, die_with_parent, end_session, interrupt_on_signals
from .setup import setup, spark_environment

LONGEST_START_SECONDS = 120
# longer than the sum of the stop timeouts in supervisord.conf
LONGEST_STOP_SECONDS = 25
REQUIRED_PROGRAMS = ("redis", "web")


def say(text: str) -> None:
    # the terminal may be closed already; the shutdown continues without it
    with contextlib.suppress(OSError):
        print(text, flush=True)


def state_folder() -> Path:
    """Return the folder of settings.STATE_DIR. A relative path starts at the checkout."""
    return ROOT / (os.environ.get("STATE_DIR") or "var")


@contextlib.contextmanager
def console_lock(path: Path, where: Listening) -> Iterator[None]:
    """Hold the lock of this state folder; raise Refusal if another console holds it.

    Two consoles with the same database file and schedule would interfere with each other.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise Refusal(f"The console of this checkout is already running: {file.read() or 'it is just starting'}. "
                          "Stop it with Ctrl-C, or use another checkout or STATE_DIR.") from None
        file.truncate(0)
        file.write(f"{where.url}, process {os.getpid()}")
        file.flush()
        yield
        file.truncate(0)


def configure_redis(run: Path) -> str:
    """Write the configuration of a Redis server for this console only, and return its URL.

    It uses a loopback port with a password, because kombu and redis-py need different URLs for the same Unix socket.
    """
    port, password = free_port(), secrets.token_urlsafe(24)
    path = run / "redis.conf"
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        # Redis stores nothing on disk: every run is in the database, and messages that are lost are sent again
        file.write(f'bind 127.0.0.1\nport {port}\nrequirepass {password}\nsave ""\nappendonly no\ndaemonize no\n'
                   f'dir "{run}"\n')
    return f"redis://:{password}@127.0.0.1:{port}/0"


def environment_of_programs(where: Listening, state: Path) -> dict[str, str]:
    run, logs = state / "run", state / "log"
    for folder in (run, logs):
        folder.mkdir(parents=True, exist_ok=True)
    is_own = not os.environ.get("REDIS_URL")
    return {
        **os.environ,
        **spark_environment(),
        "PORT": str(where.port),
        "STATE_DIR": str(state),
        "REDIS_URL": configure_redis(run) if is_own else os.environ["REDIS_URL"],
        "PYTHONUNBUFFERED": "1",
        "CONSOLE_OWN_REDIS": "true" if is_own else "false",
        "CONSOLE_REDIS": str(machine.redis_server() or "redis-server"),
        "CONSOLE_ROOT": str(ROOT),
        "CONSOLE_RUN": str(run),
        "CONSOLE_LOGS": str(logs),
        "CONSOLE_PYTHON": str(VENV_PYTHON),
        "CONSOLE_HOST": where.host,
        "CONSOLE_PORT": str(where.port),
    }


class Programs:
    """supervisord, the programs that it started, and the events in its log."""

    EVENT = re.compile(r"(?P<what>spawned|exited|gave up): '?(?P<name>\w+)'?(?: with pid (?P<pid>\d+)| (?P<how>.*))")

    def __init__(self, environment: dict[str, str]):
        self.logs = Path(environment["CONSOLE_LOGS"])
        self.log = self.logs / "supervisord.log"
        self.read_bytes = self.log.stat().st_size if self.log.exists() else 0
        self.groups: dict[str, int] = {}
        self.lost = ""
        self.supervisor = subprocess.Popen(
            [VENV_PYTHON, "-m", "supervisor.supervisord", "-c", Path(__file__).with_name("supervisord.conf")],
            env=environment, cwd=ROOT, stdin=subprocess.DEVNULL, start_new_session=True,
            preexec_fn=die_with_parent(signal.SIGTERM))

    def _new_lines(self) -> list[str]:
        if not self.log.exists():
            return []
        if self.log.stat().st_size < self.read_bytes:
            self.read_bytes = 0
        with self.log.open("rb") as file:
            file.seek(self.read_bytes)
            complete = file.read().rpartition(b"\n")[0] + b"\n"
        self.read_bytes += len(complete) if complete.strip() else 0
        return complete.decode(errors="replace").splitlines()

    def report_events(self) -> None:
        """Read the new events in the log, and print one line for each crash."""
        for line in self._new_lines():
            if event := self.EVENT.search(line):
                getattr(self, f"_{event['what'].replace(' ', '_')}")(event)

    def _spawned(self, event: re.Match) -> None:
        self.groups[event["name"]] = int(event["pid"])

    def _exited(self, event: re.Match) -> None:
        say(f"{event['name']} stopped {event['how'].replace('; not expected', '')} and is restarted; "
            f"see {self.log_of(event['name'])}")
        # its children, such as the Java process of a worker, must not continue next to the new ones
        with contextlib.suppress(ProcessLookupError, KeyError):
            os.killpg(self.groups.pop(event["name"]), signal.SIGKILL)

    def _gave_up(self, event: re.Match) -> None:
        say(f"{event['name']} does not start; see {self.log_of(event['name'])}")
        if event["name"] in REQUIRED_PROGRAMS:
            self.lost = event["name"]

    def log_of(self, name: str) -> str:
        path = self.logs / f"{name}.log"
        return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)

    def log_end(self, name: str) -> str:
        path = self.logs / f"{name}.log"
        return "\n".join(path.read_text(errors="replace").splitlines()[-8:]) if path.exists() else ""

    def check(self) -> None:
        """Report new events. Raise Refusal if supervisord failed, or a required program does not start."""
        self.report_events()
        if self.lost:
            raise Refusal(f"{self.log_end(self.lost)}\nThe console stops because {self.lost} does not start; "
                          f"the lines above are the end of {self.log_of(self.lost)}")
        if (code := self.supervisor.poll()) is not None and code != 0:
            raise Refusal(f"supervisord ended (exit status {code}); see {self.log}")

    def stop(self) -> None:
        """Stop supervisord and its programs, and wait until all processes have ended."""
        if self.supervisor.poll() is None:
            self.supervisor.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.supervisor.wait(LONGEST_STOP_SECONDS)
        end_session(self.supervisor.pid)
        self.supervisor.wait()


def wait_until_ready(programs: Programs, where: Listening, make: ParentMake) -> bool:
    """Wait for the first answer of the console. Return False if it was stopped before. Raise Refusal after a timeout."""
    deadline = time.monotonic() + LONGEST_START_SECONDS
    while (status := answer_status(where)) is None:
        programs.check()
        if make.has_ended() or programs.supervisor.poll() is not None:
            return False
        if time.monotonic() > deadline:
            raise Refusal(f"The console did not answer within {LONGEST_START_SECONDS} s; see {programs.log_of('web')}")
        time.sleep(0.1)
    if status >= 500:
        say(f"The console answers with an error (HTTP {status}); see {programs.log_of('web')}")
    return True


def watch(programs: Programs, make: ParentMake) -> None:
    """Wait until supervisord has ended or the parent `make` was stopped. Raise Refusal if a required program fails."""
    while programs.supervisor.poll() is None and not make.has_ended():
        programs.check()
        time.sleep(0.5)
    programs.check()


def serve(where: Listening, environment: dict[str, str], make: ParentMake) -> None:
    programs = Programs(environment)
    try:
        if wait_until_ready(programs, where, make):
            say(f"The console is at {where.url}")
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
    make, where, state = ParentMake(), listening(), state_folder()
    with console_lock(state / "run" / "console.lock", where):
        check_port(where)
        setup("run")
        # other users of the machine must not read the database, the logs and the results
        os.umask(0o077)
        environment = environment_of_programs(where, state)
        if subprocess.run([VENV_PYTHON, "manage.py", "bootstrap"], cwd=ROOT, env=environment).returncode != 0:
            raise Refusal("The database could not be prepared; the message is above.")
        serve(where, environment, make)


def main() -> int:
    interrupt_on_signals()
    try:
        run()
    except Refusal as refusal:
        with contextlib.suppress(OSError):
            print(refusal, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
