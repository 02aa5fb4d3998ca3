"""The one Spark session of this process: built when first needed, kept warm, rebuilt when its Java process has died.

INVARIANT: never built before a fork. A Java handle does not survive one; a session of another process is dropped here,
not stopped, because it is that process's to stop.
"""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from analytics.spark.scratch import scratch_make, scratch_remove

PATIENCE_SECONDS = 30
# how long starting may take, and how long a standalone master may take to accept a connection
START_SECONDS = 120
CONNECT_SECONDS = 5
LOG_SETTINGS = Path(__file__).with_name("log4j2.properties").as_uri()

# with one partition a table no step needs an exchange, so a query is one job, planned once
_ONE_PARTITION = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    # to write and compile a program for each step takes longer than to go through a few rows without
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.optimizer.disableHints": "true",
    "spark.sql.shuffle.partitions": "1",
}

_owner_pid: int | None = None
_session: SparkSession | None = None
# what Spark writes beside its results; gone with the session
_scratch = ""


class SparkUnavailable(Exception):
    """Spark did not start; the message says where and why."""


def spark_session(
    *, master: str, memory: str, settings: Mapping[str, str] | None = None, patience_seconds: float = START_SECONDS
) -> SparkSession:
    """The warm session, or a new one. memory: of the driver, as Spark writes it (`2g`). settings: further Spark settings.

    Raises SparkUnavailable, after `patience_seconds` at most; what was half started is gone then, and the next call begins anew.
    """
    global _session, _owner_pid
    if _session is not None and _owner_pid == os.getpid() and is_alive(_session):
        return _session
    _forget()
    _master_check(master)
    _owner_pid = os.getpid()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        with _ended_after(patience_seconds) as patience_is_over:
            session = _build(master, memory, settings or {})
            is_up = is_alive(session)
    except Exception as error:
        reason = first_line(error)
        _forget()
        if patience_is_over():
            raise SparkUnavailable(_silent_sentence(master, patience_seconds)) from error
        raise SparkUnavailable(f"Spark did not start with SPARK_MASTER {master}: {reason}") from error
    if not is_up:
        _forget()
        raise SparkUnavailable(_silent_sentence(master, patience_seconds))
    _session = session
    return _session


def _master_check(master: str) -> None:
    """Spark itself asks a standalone master that is not there again and again for a minute. Raises SparkUnavailable."""
    if not master.startswith("spark://"):
        return
    faults = []
    for place in master.removeprefix("spark://").split(","):
        host, _, port = place.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS):
                return
        except (OSError, ValueError, OverflowError) as error:
            faults.append(f"{place}: {getattr(error, 'strerror', None) or error}")
    raise SparkUnavailable(f"The Spark master at SPARK_MASTER {master} does not answer ({'; '.join(faults)}): start it, or "
                           f"point SPARK_MASTER at another.")


def _silent_sentence(master: str, seconds: float) -> str:
    return (f"The Spark master at SPARK_MASTER {master} did not give this console a place within {seconds:,.0f} s: look "
            f"whether it works and has free workers, or point SPARK_MASTER at another.")


@contextmanager
def _ended_after(seconds: float) -> Iterator:
    """Ends the Java process of a start that takes longer, from outside: the thread that starts it waits for its answer.

    Yields a function that says whether it came to that.
    """
    is_started, is_over = threading.Event(), threading.Event()

    def end_it() -> None:
        wait = seconds
        while not is_started.wait(wait):
            is_over.set()
            # again and again: it may not have been launched yet
            java_kill()
            wait = 1

    watcher = threading.Thread(target=end_it, name="patience with Spark", daemon=True)
    watcher.start()
    try:
        yield is_over.is_set
    finally:
        is_started.set()
        watcher.join()


def java_kill() -> None:
    """End this process's Java process at once, so that whoever waits for its answer gets an error instead."""
    process = getattr(SparkContext._gateway, "proc", None)
    if process is not None and process.poll() is None:
        process.kill()


def session_for_little(session: SparkSession) -> SparkSession:
    """The same Spark for a tenant so small that planning and starting jobs takes longer than the work."""
    little = session.newSession()
    for name, value in _ONE_PARTITION.items():
        little.conf.set(name, value)
    return little


def spark_stop() -> None:
    """Stop this process's session, if it has one, and its Java process."""
    if _session is not None and _owner_pid == os.getpid() and is_alive(_session):
        _session.stop()
    _forget()


def is_alive(session: SparkSession) -> bool:
    """Whether the session's Java process still answers and its context is not stopped."""
    process = getattr(SparkContext._gateway, "proc", None)
    if process is not None and process.poll() is not None:
        return False
    try:
        return not session.sparkContext._jsc.sc().isStopped()
    except (Py4JError, OSError, AttributeError):
        return False


def session_has_died() -> bool:
    """Whether this process had a session whose Java process has ended since."""
    return _session is not None and not is_alive(_session)


def first_line(error: BaseException) -> str:
    """The first line of what an exception says; of a Java exception its own message."""
    try:
        text = str(error.java_exception.toString()) if hasattr(error, "java_exception") else str(error)
    except (Py4JError, OSError):
        text = "Spark's Java process ended"
    return next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)


def _build(master: str, memory: str, settings: Mapping[str, str]) -> SparkSession:
    global _scratch
    _scratch = scratch_make()
    builder = SparkSession.builder.appName("authzconsole").master(master)
    for name, value in {**_defaults(master, memory, _scratch), **settings}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _defaults(master: str, memory: str, scratch: str) -> dict[str, str]:
    common = {
        "spark.driver.memory": memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # asks Java three times more for each column, to name the line in a message
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.warehouse.dir": os.path.join(scratch, "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        # nobody waits for a pause of the collector, only for the end
        "spark.driver.extraJavaOptions": f"-XX:+UseParallelGC -Dderby.system.home={scratch} "
                                         f"-Dlog4j2.configurationFile={LOG_SETTINGS}",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
        "spark.pyspark.python": os.environ["PYSPARK_PYTHON"],
    }
    if not master.startswith("local"):
        return common
    cores = os.cpu_count() or 1
    return common | {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": scratch,
        "spark.sql.shuffle.partitions": str(max(8, 4 * cores)),
    }


def _forget() -> None:
    """Let PySpark launch a new Java process: it keeps the old one's handles in class attributes."""
    global _session, _owner_pid, _scratch
    if _owner_pid == os.getpid():
        if SparkContext._gateway is not None:
            _gateway_end(SparkContext._gateway)
        if _scratch:
            scratch_remove(_scratch)
    _session = _owner_pid = None
    _scratch = ""
    SparkContext._active_spark_context = None
    SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None


def _gateway_end(gateway) -> None:
    """The Java process ends when the pipe to its standard input closes."""
    process = gateway.proc
    with suppress(Py4JError, OSError):
        gateway.shutdown()
    if process is not None:
        process.stdin.close()
        try:
            process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
