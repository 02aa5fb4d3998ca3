"""Folders for what Spark writes beside its results: one a session, gone with it, or with the next session where it was killed."""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

_PREFIX, _LOCK = "authzconsole-spark-", "in-use"
# the lock of each folder, held as long as its process lives
_held: dict[str, int] = {}


def scratch_make() -> str:
    """A new folder; first goes what sessions left that are no more."""
    _abandoned_remove()
    folder = tempfile.mkdtemp(prefix=_PREFIX)
    lock = os.open(os.path.join(folder, _LOCK), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    _held[folder] = lock
    return folder


def scratch_remove(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if (lock := _held.pop(folder, None)) is not None:
        os.close(lock)


def _abandoned_remove() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            # no lock yet, or another account's
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        else:
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)
