"""Check whether this machine can run Spark, which needs Java 17 or newer."""

import os
import re
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

MIN_JAVA_VERSION = 17
REMEDY = "install it (Debian and Ubuntu: apt-get install openjdk-17-jre-headless) or point JAVA_HOME at one"


def java_problem() -> str:
    """Return why Spark cannot start on this machine, with a remedy; empty if it can start."""
    home = os.environ.get("JAVA_HOME", "")
    java = Path(home, "bin", "java") if home else shutil.which("java")
    if java is None:
        return f"Java is missing, and Spark needs Java {MIN_JAVA_VERSION} or newer: {REMEDY}."
    if not os.access(java, os.X_OK):
        return (
            f"JAVA_HOME is {home}, where there is no bin/java, and Spark needs Java {MIN_JAVA_VERSION} or newer: "
            f"{REMEDY}."
        )
    try:
        version = _java_version(str(java), os.stat(java).st_mtime_ns)
    except JavaInterrupted:
        # it may work the next time: starting Spark shows whether it does
        return ""
    except (OSError, ValueError):
        version = 0
    if version < MIN_JAVA_VERSION:
        problem = f"has version {version}" if version else "does not report its version"
        return f"The Java at {java} {problem}, and Spark needs Java {MIN_JAVA_VERSION} or newer: {REMEDY}."
    return ""


class JavaInterrupted(Exception):
    """Java was killed before it reported its version, or took too long."""


@lru_cache(maxsize=8)
def _java_version(java: str, changed_at: int) -> int:
    """Return the major version. changed_at: a cache key, so that a replaced binary is read again.

    Raise JavaInterrupted, OSError, or ValueError for other output. A version that is unknown is not cached,
    because otherwise all later runs of this process would fail.
    """
    try:
        process = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=20)
    except subprocess.TimeoutExpired as error:
        raise JavaInterrupted(str(error)) from error
    if process.returncode < 0:
        raise JavaInterrupted(f"it was ended by signal {-process.returncode}")
    match = re.search(r'version "(?:1\.)?(\d+)', process.stderr)
    if match is None:
        raise ValueError(process.stderr)
    return int(match[1])
