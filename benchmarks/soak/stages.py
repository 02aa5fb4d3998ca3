"""Hold runs at a stage until a fault is ready, so that the fault hits this stage even if it lasts only
milliseconds.

The soak test and the worker communicate through files of a folder: `hold-STAGE` requests to hold the next
run, and `held-STAGE` contains the process id of the worker that holds one.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock

POLL_SECONDS = 0.02
# two faults at one stage happen one after the other
_locks: defaultdict[str, Lock] = defaultdict(Lock)


@contextmanager
def hold_run(folder: Path, stage: str, seconds: float) -> Iterator[int | None]:
    """Hold the next run at the beginning of a stage until the block ends.

    Yield the process id of its worker, or None if no run reached the stage within `seconds`.
    """
    request, held = folder / f"hold-{stage}", folder / f"held-{stage}"
    with _locks[stage]:
        held.unlink(missing_ok=True)
        request.touch()
        deadline = time.monotonic() + seconds
        try:
            while not (pid := _read_number(held)) and time.monotonic() < deadline:
                time.sleep(POLL_SECONDS)
            yield pid
        finally:
            request.unlink()
            held.unlink(missing_ok=True)


def wait_while_held(folder: Path, stage: str, pid: int, check: Callable[[], None]) -> None:
    """Wait in the process of a run while the soak test holds runs at this stage. check: raises an exception
    to end the run.
    """
    request, held = folder / f"hold-{stage}", folder / f"held-{stage}"
    if not request.exists():
        return
    held.write_text(str(pid))
    while request.exists():
        check()
        time.sleep(POLL_SECONDS)


def _read_number(path: Path) -> int | None:
    with suppress(OSError, ValueError):
        return int(path.read_text())
    return None
