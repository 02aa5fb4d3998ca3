"""Folders for temporary files, and messages about folders that cannot be written. Nothing here imports
Django.

Each temporary folder has a lock that lasts as long as its process. If the process was killed, the next
process that creates a folder removes it.
"""

import errno
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from entities.errors import Refusal

_PREFIX, _LOCK = "authzconsole-", "in-use"
# The file descriptor of the lock of each folder.
_locks: dict[str, int] = {}
# A folder without a lock after this time belongs to a process that was killed.
LOCK_SECONDS = 3_600

# The problem and its remedy, by error number.
REMEDIES = {
    errno.ENOSPC: "it is full: free some space",
    errno.EDQUOT: "the quota is used up: free some space",
    errno.EROFS: "it is read-only",
    errno.EACCES: "it is not writable",
    errno.EPERM: "it is not writable",
    errno.ENOTDIR: "there is a file where a folder is expected: remove it",
    errno.EEXIST: "there is a file where a folder is expected: remove it",
    errno.ENOENT: "it does not exist: create it",
    errno.EFBIG: "its files may not become that large: raise the limit",
}


class ScratchError(Refusal):
    """The folder for temporary files cannot be used. The message names the folder and the remedy."""

    status = 503

    def __init__(self, folder: str | Path, error: OSError):
        super().__init__(folder_problem("The folder for temporary files", folder, error, "STATE_DIR"))


def folder_problem(title: str, folder: str | Path, error: OSError, setting: str) -> str:
    """Return a sentence that names a folder that cannot be written, its problem and how to solve it.

    setting: the variable that chooses the folder.
    """
    remedy = REMEDIES.get(error.errno or 0, str(error))
    return f"{title}, {folder}, cannot be written: {remedy}, or point {setting} at another place."


def create_scratch_folder(parent: str | Path = "") -> str:
    """Create a folder in `parent` and return its path. First remove the folders of processes that have ended.

    parent: by default the system's folder for temporary files. Raise ScratchError if the folder cannot be
    created.
    """
    parent = str(parent) or tempfile.gettempdir()
    _remove_abandoned_folders(parent)
    folder = ""
    try:
        folder = tempfile.mkdtemp(prefix=_PREFIX, dir=parent)
        # The lock file gets its name only after it is locked, so that no other process can lock it first.
        hidden = os.path.join(folder, f".{_LOCK}")
        lock = os.open(hidden, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        _locks[folder] = lock
        os.rename(hidden, os.path.join(folder, _LOCK))
    except OSError as error:
        if folder:
            remove_scratch_folder(folder)
        raise ScratchError(parent, error) from error
    return folder


def remove_scratch_folder(folder: str) -> None:
    """Remove a folder and release its lock."""
    shutil.rmtree(folder, ignore_errors=True)
    if (lock := _locks.pop(folder, None)) is not None:
        os.close(lock)


@contextmanager
def scratch_folder(parent: str | Path) -> Iterator[str]:
    """Create a folder for the temporary files of the block. Raise ScratchError if it cannot be created."""
    folder = create_scratch_folder(parent)
    try:
        yield folder
    finally:
        remove_scratch_folder(folder)


def _remove_abandoned_folders(parent: str) -> None:
    for folder in Path(parent).glob(f"{_PREFIX}*"):
        try:
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
        except FileNotFoundError:
            # It has no lock yet, or its process was killed before it had one.
            if _is_old(folder):
                shutil.rmtree(folder, ignore_errors=True)
            continue
        except OSError:
            # It belongs to another account.
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        else:
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)


def _is_old(folder: Path) -> bool:
    try:
        return time.time() - folder.stat().st_mtime > LOCK_SECONDS
    except OSError:
        return False
