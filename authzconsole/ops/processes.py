"""Start and end processes, and leave none of them running."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from . import Refusal

PR_SET_PDEATHSIG = 1
PRIVATE_UMASK = 0o077
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def die_with_parent(signum: int, parent: int | None = None) -> Callable[[], None]:
    """Return a `preexec_fn`: the child receives `signum` when this process (or `parent`) ends, even by
    SIGKILL.

    Linux only.
    """
    parent = parent or os.getpid()

    def request_signal():
        if _libc is None:
            return
        # a shell starts background jobs with SIGINT and SIGQUIT ignored, and their children inherit that
        signal.signal(signum, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
        _libc.prctl(PR_SET_PDEATHSIG, signum, 0, 0, 0)
        if os.getppid() != parent:
            os.kill(os.getpid(), signum)

    return request_signal


def outlive_parent() -> None:
    """Cancel the signal that this process gets when its parent ends."""
    if _libc is not None:
        _libc.prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0)


def keep_files_private() -> None:
    """Let only the owner read the files that this process and its children create. A stricter mask stays."""
    os.umask(os.umask(PRIVATE_UMASK) | PRIVATE_UMASK)


def interrupt_on_signals() -> None:
    """Raise KeyboardInterrupt on the first SIGINT, SIGTERM or SIGHUP, even if the shell ignores SIGINT.
    Ignore later ones.

    A single Ctrl-C can arrive twice: the terminal sends it to the process group, and a parent passes it on. A
    second interruption is not needed, because every clean-up ends without it.
    """

    def interrupt(signum, frame):
        for ignored in STOPPING:
            signal.signal(ignored, signal.SIG_IGN)
        raise KeyboardInterrupt

    for signum in STOPPING:
        signal.signal(signum, interrupt)


def exit_status(step: Callable[[], int | None]) -> int:
    """Run a step, and return the exit status of the program: that of the step, 1 after a refusal, which is
    printed, or 130 after an interruption.
    """
    interrupt_on_signals()
    try:
        return step() or 0
    except Refusal as refusal:
        # the terminal may be closed already
        with contextlib.suppress(OSError):
            print(refusal, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


@contextlib.contextmanager
def delay_signals() -> Iterator[None]:
    """Deliver SIGINT, SIGTERM and SIGHUP after the block instead of during it.

    A child process inherits the delay.
    """
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)


def session_members(session: int) -> Iterator[int]:
    """Yield the id of every living process of a session.

    Children often leave their process group, but rarely their session.
    """
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            # the name, in parentheses, can contain spaces and parentheses
            state, _parent, _group, process_session = entry.read_text().rpartition(")")[2].split()[:4]
        except (OSError, ValueError):
            continue
        if int(process_session) == session and state not in "ZX":
            yield int(entry.parent.name)


def _signal_session(session: int, signum: int) -> bool:
    """Send a signal to every process of a session. Return whether there was at least one."""
    members = list(session_members(session))
    for member in members:
        with contextlib.suppress(ProcessLookupError):
            os.kill(member, signum)
    return bool(members)


def end_session(session: int, *, patience_seconds: float = 3.0) -> None:
    """End the remaining processes of a session with SIGTERM, and after `patience_seconds` with SIGKILL."""
    if not _signal_session(session, signal.SIGTERM):
        return
    deadline = time.monotonic() + patience_seconds
    while time.monotonic() < deadline and any(session_members(session)):
        time.sleep(0.05)
    while _signal_session(session, signal.SIGKILL):
        time.sleep(0.05)


def run_command(command: Sequence[str | Path], *, patience_seconds: float = 30.0, **options) -> int:
    """Run a command in a separate session and return its exit status. End all processes that it started.

    On an interruption, send SIGINT to the command, wait until it has cleaned up, at most `patience_seconds`,
    and raise.
    """
    process = None
    try:
        # an interruption while the child starts would leave a child that nothing waits for
        with delay_signals():
            process = subprocess.Popen(
                command, start_new_session=True, preexec_fn=die_with_parent(signal.SIGINT), **options
            )
        code = process.wait()
        return code if code >= 0 else 128 - code
    except KeyboardInterrupt:
        if process:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(patience_seconds)
        raise
    finally:
        if process:
            end_session(process.pid)
            process.wait()


class ParentMake:
    """The `make` that started this program, if any.

    Ctrl-C sends SIGINT to the whole foreground group. If only GNU make receives SIGINT, it waits for its
    child but sends it no signal. The child can detect this, because make then no longer catches SIGINT.
    """

    def __init__(self):
        self.parent = os.getppid()
        self.is_make = self._status("Name") in ("make", "gmake")
        self.caught_interrupts = self.is_make and self._catches_interrupts()

    def _status(self, field: str) -> str:
        try:
            lines = Path(f"/proc/{self.parent}/status").read_text().splitlines()
        except OSError:
            return ""
        return next((line.partition(":")[2].strip() for line in lines if line.startswith(f"{field}:")), "")

    def _catches_interrupts(self) -> bool:
        return bool(int(self._status("SigCgt") or "0", 16) >> (signal.SIGINT - 1) & 1)

    def has_ended(self) -> bool:
        """Return whether `make` was killed, or received SIGINT alone."""
        if not self.is_make:
            return False
        return os.getppid() != self.parent or self.caught_interrupts and not self._catches_interrupts()
