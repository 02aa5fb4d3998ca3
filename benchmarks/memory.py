"""Measure the memory of this process and all its child processes together."""

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

SAMPLE_SECONDS = 0.3


class Peak:
    """The peak memory use. bytes: the maximum so far. Memory that several processes share is counted once."""

    bytes = 0

    @property
    def gigabytes(self) -> float:
        return self.bytes / 1e9


@contextlib.contextmanager
def measure_peak_memory() -> Iterator[Peak]:
    peak, stop = Peak(), threading.Event()

    def sample() -> None:
        while not stop.wait(SAMPLE_SECONDS):
            peak.bytes = max(peak.bytes, _current_bytes())

    watcher = threading.Thread(target=sample, name="memory", daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        stop.set()
        watcher.join()


def _current_bytes() -> int:
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    return sum(proportional_bytes(pid) for pid in parents if _is_descendant(pid, parents))


def _is_descendant(pid: int, parents: dict[int, int]) -> bool:
    while pid and pid != os.getpid():
        pid = parents.get(pid, 0)
    return bool(pid)


def proportional_bytes(pid: int) -> int:
    """Return the memory of a process (PSS), 0 if it has ended.

    Memory that processes share is divided among them.
    """
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0
