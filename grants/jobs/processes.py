"""Identify the process that executes a job, so that another process on the same machine can detect that it
has ended.
"""

import os
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def this_process() -> str:
    """Return machine, process namespace, process id and start time; empty if they are unknown (not on Linux)."""
    try:
        return f"{_machine()}/{os.getpid()}/{_start_ticks(os.getpid())}"
    except (OSError, ValueError, IndexError):
        return ""


def has_process_ended(process: str) -> bool:
    """Return whether the process has certainly ended.

    False if it runs, is on another machine, or is unknown.
    """
    machine_and_pid, _, start_ticks = process.rpartition("/")
    machine, _, pid = machine_and_pid.rpartition("/")
    try:
        if not process or machine != _machine():
            return False
        return _start_ticks(int(pid)) != start_ticks
    except FileNotFoundError:
        return True
    except (OSError, ValueError, IndexError):
        return False


def _machine() -> str:
    """Return the machine and the process namespace, because a container has separate process ids."""
    return f"{BOOT_ID.read_text().strip()}/{os.stat('/proc/self/ns/pid').st_ino}"


def _start_ticks(pid: int) -> str:
    """Return the start time of a process in ticks since boot. Process ids are reused; an id with its start
    time is unique.

    Raise FileNotFoundError, also for a zombie process.
    """
    state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    if state == "Z":
        raise FileNotFoundError(pid)
    return fields[18]
