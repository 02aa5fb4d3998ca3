"""Folders for the temporary files of Spark: one for each session.

A folder is removed with its session. If the process was killed, the next session removes it.
"""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

_PREFIX, _LOCK = "authzconsole-spark-", "in-use"
# The file descriptor of the lock of each folder. The lock lasts as long as the process.
_locks: dict[str, int] = {}


def create_scratch_folder() -> str:
    """Create a folder and return its path. First remove the folders of sessions without a living process."""
    _remove_abandoned_folders()
    folder = tempfile.mkdtemp(prefix=_PREFIX)
    lock = os.open(os.path.join(folder, _LOCK), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    _locks[folder] = lock
    return folder


def remove_scratch_folder(folder: str) -> None:
    """Remove the folder of a session and release its lock."""
    shutil.rmtree(folder, ignore_errors=True)
    if (lock := _locks.pop(folder, None)) is not None:
        os.close(lock)


def _remove_abandoned_folders() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            # It has no lock yet, or belongs to another account.
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        else:
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)
