"""Prepare the process of a server worker."""

import os
import resource
import threading
import time
from pathlib import Path

MAX_OPEN_FILES = 65_536
PARENT_CHECK_SECONDS = 0.25
# the time for unfinished requests after the parent has ended
LAST_SECONDS = 1


def prepare_process(state: Path) -> Path:
    """Allow many connections, and return the folder for temporary files. The files have no name and are
    deleted with the process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    folder = state / "tmp"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def exit_with_parent(parent: int) -> None:
    """End this process LAST_SECONDS after its parent ended, even if clients are connected.

    granian waits longer for their connections. In the meantime, the next server could not answer all
    requests, because the operating system distributes them among all processes that listen on the port.
    """

    def wait() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_CHECK_SECONDS)
        time.sleep(LAST_SECONDS)
        os._exit(1)

    threading.Thread(target=wait, name="exit-with-parent", daemon=True).start()
