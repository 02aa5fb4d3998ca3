"""Which process executes a run, so that another one on the same machine can tell that it has ended."""

import os
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def this_process() -> str:
    """Machine, process namespace, process id and its start; empty where the system does not tell (it is not Linux)."""
    try:
        return f"{_machine()}/{os.getpid()}/{_started(os.getpid())}"
    except (OSError, ValueError, IndexError):
        return ""


def has_ended(process: str) -> bool:
    """Whether that process is known to be gone. False of one that lives, of another machine's, and where nothing is known."""
    machine, _, rest = process.rpartition("/")[0].rpartition("/")
    try:
        if not process or machine != _machine():
            return False
        return _started(int(rest)) != process.rpartition("/")[2]
    except FileNotFoundError:
        return True
    except (OSError, ValueError, IndexError):
        return False


def _machine() -> str:
    """Of a container its own, because its process ids are."""
    return f"{BOOT_ID.read_text().strip()}/{os.stat('/proc/self/ns/pid').st_ino}"


def _started(pid: int) -> str:
    """In ticks since the machine was; a process id is used again, this with it is not. Raises FileNotFoundError, also for a
    process that has ended and that nobody has waited for yet."""
    state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    if state == "Z":
        raise FileNotFoundError(pid)
    return fields[18]
