"""Prepare the process of a server worker."""

import resource
from pathlib import Path

MAX_OPEN_FILES = 65_536


def prepare_process(state: Path) -> Path:
    """Allow many connections and return the folder for temporary files, which have no name and end with the process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    folder = state / "tmp"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder
