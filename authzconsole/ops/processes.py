"""Starting and ending processes so that none is left behind."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

PR_SET_PDEATHSIG = 1
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def dies_with_parent(signum: int, parent: int | None = None) -> Callable[[], None]:
    """A `preexec_fn`: when this process (or `parent`) dies, even by SIGKILL, the child receives `signum`. Linux only."""
    parent = parent or os.getpid()

    def ask_the_kernel():
        if _libc is None:
            return
        # a shell has SIGINT and SIGQUIT ignored in what it starts in the background, and a program that begins would miss them
        signal.signal(signum, signal.SIG_DFL)
        _libc.prctl(PR_SET_PDEATHSIG, signum, 0, 0, 0)
        if os.getppid() != parent:
            os.kill(os.getpid(), signum)

    return ask_the_kernel


def signals_interrupt() -> None:
    """A termination or a closed terminal unwinds as Ctrl-C does, also where the shell had SIGINT ignored; once.

    One Ctrl-C may arrive twice (to the group, and from a parent that passes it on), and every clean-up ends by itself.
    """
    def interrupt(signum, frame):
        for each in STOPPING:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    for signum in STOPPING:
        signal.signal(signum, interrupt)


def session_members(session: int) -> Iterator[int]:
    """Every living process of a session; a child may leave its group, but hardly ever its session."""
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            # the name, in parentheses, may hold spaces and parentheses
            state, _parent, _group, its_session = entry.read_text().rpartition(")")[2].split()[:4]
        except (OSError, ValueError):
            continue
        if int(its_session) == session and state not in "ZX":
            yield int(entry.parent.name)


def _session_signal(session: int, signum: int) -> bool:
    """True if there was anybody to signal."""
    members = list(session_members(session))
    for member in members:
        with contextlib.suppress(ProcessLookupError):
            os.kill(member, signum)
    return bool(members)


def session_end(session: int, *, patience_seconds: float = 3.0) -> None:
    """Ends what is left of a session, politely at first."""
    if not _session_signal(session, signal.SIGTERM):
        return
    deadline = time.monotonic() + patience_seconds
    while time.monotonic() < deadline and any(session_members(session)):
        time.sleep(0.05)
    while _session_signal(session, signal.SIGKILL):
        time.sleep(0.05)


def command_run(command: Sequence[str | Path], *, patience_seconds: float = 30.0, **options) -> int:
    """Runs a command in a session of its own and returns its exit status; nothing that it started outlives it.

    An interruption is passed on, and raised once the command has cleaned up after itself.
    """
    process = subprocess.Popen(command, start_new_session=True, preexec_fn=dies_with_parent(signal.SIGINT), **options)
    try:
        code = process.wait()
        return code if code >= 0 else 128 - code
    except KeyboardInterrupt:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience_seconds)
        raise
    finally:
        session_end(process.pid)
        process.wait()


class MakeAbove:
    """Whether the `make` that started this program was killed, or interrupted alone.

    GNU make that is sent SIGINT (not the whole foreground group, as Ctrl-C does) waits for its child without telling it.
    It shows only in that make no longer catches the signal.
    """

    def __init__(self):
        self.parent = os.getppid()
        self.is_make = self._status("Name") in ("make", "gmake")
        self.caught = self.is_make and self._catches_interrupts()

    def _status(self, field: str) -> str:
        try:
            lines = Path(f"/proc/{self.parent}/status").read_text().splitlines()
        except OSError:
            return ""
        return next((line.partition(":")[2].strip() for line in lines if line.startswith(f"{field}:")), "")

    def _catches_interrupts(self) -> bool:
        return bool(int(self._status("SigCgt") or "0", 16) >> (signal.SIGINT - 1) & 1)

    def has_gone(self) -> bool:
        if not self.is_make:
            return False
        return os.getppid() != self.parent or self.caught and not self._catches_interrupts()
