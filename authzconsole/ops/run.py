"""Sets up, prepares the database and runs the console in the foreground until Ctrl-C.

The programs run under supervisord in a session of their own. Whatever ends this one (Ctrl-C, a termination, a closed
terminal, SIGKILL, the death of the `make` above it) ends them all.
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
from .address import Listening, answer_status, free_port, listening, port_check
from .processes import MakeAbove, dies_with_parent, session_end, signals_interrupt
from .setup import setup, spark_environment

LONGEST_START_SECONDS = 120
# supervisord's own patience with each program adds up to less
LONGEST_STOP_SECONDS = 25
INDISPENSABLE = ("redis", "web")


def say(text: str) -> None:
    # the terminal may be gone; stopping goes on without it
    with contextlib.suppress(OSError):
        print(text, flush=True)


def state_folder() -> Path:
    """As settings.STATE_DIR; a relative one is meant from the checkout."""
    return ROOT / (os.environ.get("STATE_DIR") or "var")


@contextlib.contextmanager
def only_console(path: Path, where: Listening) -> Iterator[None]:
    """Two consoles on one database file and one schedule would disturb each other."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise Refusal(f"The console of this checkout runs already: {file.read() or 'it is just starting'}. "
                          "Stop that one with Ctrl-C, or start another from a checkout (or STATE_DIR) of its own.") from None
        file.truncate(0)
        file.write(f"{where.url}, process {os.getpid()}")
        file.flush()
        yield
        file.truncate(0)


def own_redis(run: Path) -> str:
    """Writes the configuration of a Redis that only this console knows how to reach; returns its URL.

    kombu and redis-py share no way to write a Unix socket in one URL, so it is a loopback port with a password.
    """
    port, password = free_port(), secrets.token_urlsafe(24)
    path = run / "redis.conf"
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        # nothing is kept on disk: every run stands in the database, and one that was not sent is sent again
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
        "REDIS_URL": own_redis(run) if is_own else os.environ["REDIS_URL"],
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
    """supervisord and all that it started, and what its log tells about them."""

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
            preexec_fn=dies_with_parent(signal.SIGTERM))

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

    def notice(self) -> None:
        """Tells the terminal of crashes, in a line each."""
        for line in self._new_lines():
            if event := self.EVENT.search(line):
                getattr(self, f"_{event['what'].replace(' ', '_')}")(event)

    def _spawned(self, event: re.Match) -> None:
        self.groups[event["name"]] = int(event["pid"])

    def _exited(self, event: re.Match) -> None:
        say(f"{event['name']} stopped {event['how'].replace('; not expected', '')} and is started again; "
            f"see {self.log_of(event['name'])}")
        # its children (a worker's, with a Java machine) must not go on beside the new ones
        with contextlib.suppress(ProcessLookupError, KeyError):
            os.killpg(self.groups.pop(event["name"]), signal.SIGKILL)

    def _gave_up(self, event: re.Match) -> None:
        say(f"{event['name']} does not start; see {self.log_of(event['name'])}")
        if event["name"] in INDISPENSABLE:
            self.lost = event["name"]

    def log_of(self, name: str) -> str:
        path = self.logs / f"{name}.log"
        return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)

    def last_words(self, name: str) -> str:
        path = self.logs / f"{name}.log"
        return "\n".join(path.read_text(errors="replace").splitlines()[-8:]) if path.exists() else ""

    def check(self) -> None:
        """Raises Refusal once the console can do its work no more."""
        self.notice()
        if self.lost:
            raise Refusal(f"{self.last_words(self.lost)}\nThe console stops because {self.lost} does not start; "
                          f"the lines above are the end of {self.log_of(self.lost)}")
        if (code := self.supervisor.poll()) is not None and code != 0:
            raise Refusal(f"supervisord ended (exit status {code}); see {self.log}")

    def stop(self) -> None:
        """Returns when the last process is gone."""
        if self.supervisor.poll() is None:
            self.supervisor.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.supervisor.wait(LONGEST_STOP_SECONDS)
        session_end(self.supervisor.pid)
        self.supervisor.wait()


def wait_until_it_answers(programs: Programs, where: Listening, make: MakeAbove) -> bool:
    """False if it was told to stop before."""
    deadline = time.monotonic() + LONGEST_START_SECONDS
    while (status := answer_status(where)) is None:
        programs.check()
        if make.has_gone() or programs.supervisor.poll() is not None:
            return False
        if time.monotonic() > deadline:
            raise Refusal(f"The console did not answer within {LONGEST_START_SECONDS} s; see {programs.log_of('web')}")
        time.sleep(0.1)
    if status >= 500:
        say(f"The console answers with an error (HTTP {status}); see {programs.log_of('web')}")
    return True


def watch(programs: Programs, make: MakeAbove) -> None:
    """Returns when supervisord was told to stop, or the `make` above this was."""
    while programs.supervisor.poll() is None and not make.has_gone():
        programs.check()
        time.sleep(0.5)
    programs.check()


def serve(where: Listening, environment: dict[str, str], make: MakeAbove) -> None:
    programs = Programs(environment)
    try:
        if wait_until_it_answers(programs, where, make):
            say(f"The console is at {where.url}")
            say(f"Logs are in {Path(programs.log_of('web')).parent}. Ctrl-C stops everything.")
            watch(programs, make)
    except KeyboardInterrupt:
        pass
    finally:
        say("\nStopping ...")
        programs.stop()
        for left in ("redis.conf", "supervisord.pid"):
            Path(environment["CONSOLE_RUN"], left).unlink(missing_ok=True)
    say("Stopped.")


def run() -> None:
    make, where, state = MakeAbove(), listening(), state_folder()
    with only_console(state / "run" / "console.lock", where):
        port_check(where)
        setup("run")
        # the database, the logs and the results are nobody else's to read
        os.umask(0o077)
        environment = environment_of_programs(where, state)
        if subprocess.run([VENV_PYTHON, "manage.py", "bootstrap"], cwd=ROOT, env=environment).returncode != 0:
            raise Refusal("The database could not be prepared; the message is above.")
        serve(where, environment, make)


def main() -> int:
    signals_interrupt()
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
