"""Describe the failure of an analysis in one sentence: what happened and what to do."""

import errno
import os
import re

from analytics.analyses import AnalysisError
from analytics.folders import REMEDIES, ScratchError
from analytics.settings import settings
from analytics.spark.session import (
    SparkExited,
    SparkKilled,
    SparkUnavailable,
    first_line,
    has_session_died,
)
from analytics.storage import StorageError, storage_problem, storage_root, without_credentials

MAX_CHARACTERS = 500
_JAVA_MESSAGES = {
    "Read-only file system": errno.EROFS,
    "Permission denied": errno.EACCES,
    "Not a directory": errno.ENOTDIR,
    "Disk quota exceeded": errno.EDQUOT,
    "File too large": errno.EFBIG,
}
# exceptions with a message for users
USER_ERRORS = (AnalysisError, ScratchError, StorageError, SparkUnavailable)
# Java classes in the stack trace of an error about temporary files
_SCRATCH_MARKERS = (
    "DiskBlockObjectWriter",
    "DiskBlockManager",
    "DiskStore",
    "UnsafeSorterSpill",
    "SortShuffleWriter",
    "ShuffleExternalSorter",
    "IndexShuffleBlockResolver",
    "LocalDiskShuffle",
)
# what a Python worker reports if it cannot import a package
_MISSING_PACKAGE = re.compile(
    r"ModuleNotFoundError: No module named '([\w.]+)'|\[PACKAGE_NOT_INSTALLED\] (\w+)"
)
# below this, a file system counts as full
_FULL_BYTES = 1_000_000


def computation_failure(error: BaseException, *, details: str) -> str:
    """Return the message of an error. details: where to find more about an unexpected error."""
    if message := interruption_message(error, 1):
        return message
    if isinstance(error, USER_ERRORS):
        return str(error)
    text = str(error)
    if "No space left on device" in text or isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return full_disk_message(text)
    if (number := _storage_error(text)) is not None:
        return storage_problem(OSError(number, text))
    if "OutOfMemoryError" in text:
        return (
            f"Spark ran out of memory with SPARK_DRIVER_MEMORY {settings.SPARK_DRIVER_MEMORY}: give it more, "
            f"or point SPARK_MASTER at a cluster."
        )
    if match := _MISSING_PACKAGE.search(text):
        return (
            f"A Python process of Spark has no {match[1] or match[2]}: install pyarrow, numpy and pandas on every machine "
            f"of the cluster, for the Python that PYSPARK_PYTHON names."
        )
    if isinstance(error, OSError) and error.errno in REMEDIES:
        return storage_problem(error)
    return _unexpected_error_message(error, details)


def interruption_message(error: BaseException, attempts: int) -> str:
    """Return the message if a process of Spark died, so that another attempt may succeed; otherwise empty."""
    if isinstance(error, SparkKilled):
        return _java_lost_message(attempts, "while Spark started")
    if isinstance(error, SparkExited):
        return str(error)
    if isinstance(error, USER_ERRORS):
        return ""
    if has_session_died():
        return _java_lost_message(attempts)
    # the job of Spark ends with a killed Python worker, but not Spark
    if "Python worker exited unexpectedly" in str(error):
        return _python_worker_lost_message(attempts)
    return ""


def _unexpected_error_message(error: BaseException, details: str) -> str:
    return f"{type(error).__name__}: {without_credentials(first_line(error))[:MAX_CHARACTERS]} ({details})"


def full_disk_message(text: str) -> str:
    """Return a message that names the full folder: the one for temporary files, or the one for snapshots and
    results.

    text: the text of the error. If its paths and its stack trace do not tell which folder is full, their free
    space does.
    """
    error = OSError(errno.ENOSPC, text)
    scratch = str(ScratchError(settings.TEMP_DIR, error))
    if str(settings.TEMP_DIR) in text or any(marker in text for marker in _SCRATCH_MARKERS):
        return scratch
    try:
        root = storage_root()[1]
    except StorageError:
        root = ""
    if root and root in text or not _is_full(str(settings.TEMP_DIR)) or root and _is_full(root):
        return storage_problem(error)
    return scratch


def _is_full(folder: str) -> bool:
    try:
        status = os.statvfs(folder)
    except OSError:
        return False
    return status.f_bavail * status.f_frsize < _FULL_BYTES


def _storage_error(text: str) -> int | None:
    """Return the error number of a Java message about the folder of snapshots and results; None for other
    messages.
    """
    folder = settings.SNAPSHOT_URI
    return next(
        (number for words, number in _JAVA_MESSAGES.items() if words in text and folder in text), None
    )


def _java_lost_message(attempts: int, when: str = "during the run") -> str:
    return (
        f"Spark's Java process ended {when}{_times(attempts)}; the usual reason is that the machine ran out of "
        f"memory. Free some, lower SPARK_DRIVER_MEMORY (now {settings.SPARK_DRIVER_MEMORY}), or point SPARK_MASTER at a "
        f"cluster."
    )


def _python_worker_lost_message(attempts: int) -> str:
    """Return the message of a run that lost a Python worker. Spark has one for each parallel task."""
    master = settings.SPARK_MASTER
    remedy = (
        f"Free some, allow fewer parallel tasks with SPARK_MASTER (local[1]; now {master}), lower SPARK_DRIVER_MEMORY "
        f"(now {settings.SPARK_DRIVER_MEMORY}), or point SPARK_MASTER at a cluster."
        if master.startswith("local")
        else "Raise spark.executor.memoryOverhead or lower spark.executor.cores in SPARK_CONF."
    )
    return (
        f"A Python process of Spark was killed during the run{_times(attempts)}; the usual reason is that its machine ran "
        f"out of memory. {remedy}"
    )


def _times(attempts: int) -> str:
    return f", {attempts} times in a row" if attempts > 1 else ""
