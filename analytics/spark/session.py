"""The Spark session of this process: built on first use, reused, and rebuilt if its Java process has died.

INVARIANT: the session is never built before a fork, because a Java handle does not work in a forked process.
A session that was inherited from another process is discarded but not stopped: only the process that built it
may stop it.
"""

import os
import shlex
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JError
from pyspark import SparkContext, java_gateway
from pyspark.sql import SparkSession

from analytics.folders import ScratchError, create_scratch_folder, remove_scratch_folder

# The time that the Java process may take to exit.
SHUTDOWN_SECONDS = 30
# A process ends shortly after its connections.
EXIT_SECONDS = 1.0
# The exit status of a shell that reports a killed process is higher by this.
SHELL_STATUS = 128
# Limits for starting Spark, and for a standalone master to accept a connection.
START_SECONDS = 120
CONNECT_SECONDS = 5
_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
LOG_SETTINGS = Path(__file__).with_name("log4j2.properties").as_uri()

_PARTITIONS = "spark.sql.shuffle.partitions"
# The settings of every session.
_SQL_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
}
# With one partition for each table no step needs an exchange, so a query is one job that is planned once.
_ONE_PARTITION = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    # Generating and compiling code for each step takes longer than processing a few rows without it.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.optimizer.disableHints": "true",
    "spark.sql.shuffle.partitions": "1",
}
_KILLED_MESSAGE = (
    "Spark's Java process was killed while Spark started; the usual reason is that the machine ran out of memory: "
    "free some, or lower SPARK_DRIVER_MEMORY."
)

_owner_pid: int | None = None
_session: SparkSession | None = None
# The folder of the session's temporary files.
_scratch = ""


class SparkUnavailable(Exception):
    """Spark did not start. The message names the master and the reason."""


class SparkExited(SparkUnavailable):
    """The Java process ended while Spark started. Another attempt may succeed.

    If the program that builds the command of Java is killed, Spark's script ends with the same status as for
    wrong settings.
    """


class SparkKilled(SparkExited):
    """The Java process was killed while Spark started."""


class LaunchedJava:
    """The Java process that PySpark launched in a block; none so far if `process` is None.

    PySpark itself keeps the handle only of a process that answered.
    """

    process: subprocess.Popen | None = None

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()

    def was_killed(self) -> bool:
        """Return whether a signal ended the process, as the kernel does when the memory is full."""
        if self.process is None:
            return False
        with suppress(subprocess.TimeoutExpired):
            status = self.process.wait(EXIT_SECONDS)
            return status < 0 or status > SHELL_STATUS
        return False


def spark_session(
    *,
    master: str,
    memory: str,
    settings: Mapping[str, str] | None = None,
    patience_seconds: float = START_SECONDS,
    scratch_parent: str | Path = "",
    has_short_runs: bool = False,
) -> SparkSession:
    """Return the session of this process, or start one.

    memory: the memory of the driver, in Spark's notation (`2g`). settings: further Spark settings, by name.
    scratch_parent: where the session creates a folder for its temporary files; by default the folder of the
    system. has_short_runs: whether to compile the code of Java only once, when the session is started. Raise ScratchError if that fails, SparkExited if the Java process ends, and SparkUnavailable for
    any other reason, after at most `patience_seconds`. A session that was partly started is stopped, so the
    next call can try again.
    """
    global _session, _owner_pid
    if _session is not None and _owner_pid == os.getpid() and is_alive(_session):
        return _session
    _discard_session()
    _check_master(master)
    _owner_pid = os.getpid()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        with record_java() as java, _kill_java_after(patience_seconds, java) as has_timed_out:
            session = _build(master, memory, settings or {}, scratch_parent, has_short_runs)
            is_up = is_alive(session)
    except ScratchError:
        _discard_session()
        raise
    except Exception as error:
        reason, was_killed = first_line(error), java.was_killed()
        _discard_session()
        if has_timed_out():
            raise SparkUnavailable(_no_answer_message(master, patience_seconds)) from error
        if was_killed:
            raise SparkKilled(_KILLED_MESSAGE) from error
        if "JAVA_GATEWAY_EXITED" in reason:
            raise SparkExited(
                f"Spark did not start with SPARK_MASTER {master}: its Java process ended at once, because it was "
                f"killed or because its settings are wrong; the log of the worker has its message."
            ) from error
        raise SparkUnavailable(f"Spark did not start with SPARK_MASTER {master}: {reason}") from error
    if not is_up:
        was_killed = java.was_killed()
        _discard_session()
        if was_killed and not has_timed_out():
            raise SparkKilled(_KILLED_MESSAGE)
        raise SparkUnavailable(_no_answer_message(master, patience_seconds))
    _session = session
    return _session


def _check_master(master: str) -> None:
    """Raise SparkUnavailable if no standalone master accepts a connection.

    Spark itself would retry for a minute.
    """
    if not master.startswith("spark://"):
        return
    faults = []
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS):
                return
        except (OSError, ValueError, OverflowError) as error:
            faults.append(f"{address}: {getattr(error, 'strerror', None) or error}")
    raise SparkUnavailable(
        f"The Spark master at SPARK_MASTER {master} does not answer ({'; '.join(faults)}): start it, or "
        f"point SPARK_MASTER at another."
    )


def _no_answer_message(master: str, seconds: float) -> str:
    if master.startswith("local"):
        return (
            f"Spark did not start within {seconds:,.0f} s, because this machine is slow or busy: run the analysis again when "
            f"it has less to do, or give it more processors."
        )
    return (
        f"The Spark master at SPARK_MASTER {master} did not accept this console within {seconds:,.0f} s: check whether it "
        f"works and has free workers, or point SPARK_MASTER at another."
    )


@contextmanager
def _kill_java_after(seconds: float, java: LaunchedJava) -> Iterator[Callable[[], bool]]:
    """Kill the Java process if the block takes longer. The thread in the block cannot do it, because it waits
    for that process.

    Yield a function that tells whether the time has passed.
    """
    is_started, is_over = threading.Event(), threading.Event()

    def kill_when_over() -> None:
        wait = seconds
        while not is_started.wait(wait):
            is_over.set()
            # Repeat: the process may not have been launched yet.
            java.kill()
            wait = 1

    watcher = threading.Thread(target=kill_when_over, name="limit for the start of Spark", daemon=True)
    watcher.start()
    try:
        yield is_over.is_set
    finally:
        is_started.set()
        watcher.join()


def kill_java() -> None:
    """Kill the Java process of this process at once. Threads that wait for its answer get an error."""
    process = getattr(SparkContext._gateway, "proc", None)
    if process is not None and process.poll() is None:
        process.kill()


def java_process_id() -> int | None:
    """Return the number of the Java process of this process; None if it has none, or did not start it."""
    process = getattr(SparkContext._gateway, "proc", None)
    return process.pid if process is not None and process.poll() is None else None


def submitted_session() -> SparkSession:
    """Return the session of the Spark that spark-submit started for this process; without spark-submit, start one with
    the settings of the environment.
    """
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = SparkSession.builder.appName("authzconsole").getOrCreate()
    context = session.sparkContext
    if context.master.startswith("local") and not context.getConf().contains(_PARTITIONS):
        session.conf.set(_PARTITIONS, _local_partitions())
    for name, value in _SQL_SETTINGS.items():
        session.conf.set(name, value)
    return session


def session_for_small_tenant(session: SparkSession) -> SparkSession:
    """Return a session of the same Spark with settings for a tenant so small that planning takes longer than
    the work.
    """
    small = session.newSession()
    for name, value in _ONE_PARTITION.items():
        small.conf.set(name, value)
    return small


def stop_spark() -> None:
    """Stop the session of this process, if it has one, and its Java process."""
    if _session is not None and _owner_pid == os.getpid() and is_alive(_session):
        _session.stop()
    _discard_session()


def is_alive(session: SparkSession) -> bool:
    """Return whether the session's Java process answers and its context is not stopped."""
    process = getattr(SparkContext._gateway, "proc", None)
    if process is not None and process.poll() is not None:
        return False
    try:
        return not session.sparkContext._jsc.sc().isStopped()
    except (Py4JError, OSError, AttributeError):
        return False


def has_session_died() -> bool:
    """Return whether this process has a session without a living Java process."""
    return _session is not None and not is_alive(_session)


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's message; for an exception from Java, the first line of the Java
    message.
    """
    try:
        text = str(error.java_exception.toString()) if hasattr(error, "java_exception") else str(error)
    except (Py4JError, OSError):
        text = "Spark's Java process ended"
    return next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)


def _build(
    master: str, memory: str, settings: Mapping[str, str], scratch_parent: str | Path, has_short_runs: bool
) -> SparkSession:
    global _scratch
    _scratch = create_scratch_folder(scratch_parent)
    properties = Path(_scratch, "spark.properties")
    try:
        write_properties(properties, {**_defaults(master, memory, _scratch, has_short_runs), **settings})
    except OSError as error:
        raise ScratchError(_scratch, error) from error
    with properties_argument(properties):
        return SparkSession.builder.getOrCreate()


def _defaults(master: str, memory: str, scratch: str, has_short_runs: bool) -> dict[str, str]:
    # In a short run, the second compiler of Java takes longer than it saves.
    compilers = "-XX:TieredStopAtLevel=1 " if has_short_runs else ""
    common = {
        "spark.app.name": "authzconsole",
        "spark.master": master,
        "spark.driver.memory": memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Spark records jobs and plans for its web interface, even if the interface is off. The 1,000 plans that it
        # keeps by default fill the memory of a session that runs many analyses.
        "spark.ui.retainedJobs": "50",
        "spark.ui.retainedStages": "100",
        "spark.ui.retainedTasks": "2000",
        "spark.sql.ui.retainedExecutions": "10",
        # This feature calls Java three more times for each column, to name the line in an error message.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        **_SQL_SETTINGS,
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.warehouse.dir": os.path.join(scratch, "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        # Only the total time matters, not the length of a pause. Without memory, Java can lose the thread that accepts
        # connections and run on; a process that ends is replaced.
        "spark.driver.extraJavaOptions": f"{compilers}-XX:+UseParallelGC -XX:+ExitOnOutOfMemoryError -Dderby.system.home={scratch} -Djava.io.tmpdir={scratch} "
        f"-Dlog4j2.configurationFile={LOG_SETTINGS}",
        "spark.pyspark.python": os.environ["PYSPARK_PYTHON"],
        **_authentication(master),
    }
    if not master.startswith("local"):
        return common
    return common | {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": scratch,
        # Hadoop sets the mode of local files itself and ignores the umask of the process.
        "spark.hadoop.fs.permissions.umask-mode": "077",
        _PARTITIONS: _local_partitions(),
    }


def _local_partitions() -> str:
    """Return the number of partitions of a shuffle on this machine."""
    return str(max(8, 4 * (os.cpu_count() or 1)))


def _authentication(master: str) -> dict[str, str]:
    """Return the settings that authenticate and encrypt all connections between the processes of Spark.

    Spark generates the secret of a local master, YARN and Kubernetes itself. A standalone master and its
    workers must know the secret, so there SPARK_CONF sets `spark.authenticate` and
    `spark.authenticate.secret`.
    """
    if master.startswith("spark://"):
        return {}
    return {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}


def _discard_session() -> None:
    """Make PySpark launch a new Java process next time, by clearing the class attributes with the handles of
    the old one.
    """
    global _session, _owner_pid, _scratch
    if _owner_pid == os.getpid():
        if SparkContext._gateway is not None:
            _close_gateway(SparkContext._gateway)
        if _scratch:
            remove_scratch_folder(_scratch)
    _session = _owner_pid = None
    _scratch = ""
    SparkContext._active_spark_context = None
    SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None


def _close_gateway(gateway: JavaGateway) -> None:
    """Close the gateway and wait for its Java process, which ends when the pipe to its standard input is
    closed.
    """
    process = gateway.proc
    with suppress(Py4JError, OSError):
        gateway.shutdown()
    if process is not None:
        process.stdin.close()
        try:
            process.wait(SHUTDOWN_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def record_java() -> Iterator[LaunchedJava]:
    """Yield the Java process that PySpark launches in the block."""
    launched, popen = LaunchedJava(), java_gateway.Popen

    def launch(*arguments, **options):
        launched.process = popen(*arguments, **options)
        return launched.process

    java_gateway.Popen = launch
    try:
        yield launched
    finally:
        java_gateway.Popen = popen


def write_properties(path: Path, settings: Mapping[str, str]) -> None:
    """Write a Java properties file that only its owner can read.

    The arguments of a process are visible to all users of the machine, so settings are passed in a file.
    """
    lines = [f"{_escape(name)}={_escape(value)}\n" for name, value in settings.items()]
    with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="ascii") as file:
        file.writelines(lines)


def _escape(text: str) -> str:
    """Escape the characters with a meaning in a properties file, and all characters outside of printable
    ASCII.
    """
    return "".join(
        f"\\{character}"
        if character in "\\=:#! "
        else character
        if " " < character < "\x7f"
        else _unicode_escapes(character)
        for character in text
    )


def _unicode_escapes(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[first : first + 4]}" for first in range(0, len(units), 4))


@contextmanager
def properties_argument(path: Path) -> Iterator[None]:
    """Let PySpark start Java with this properties file; the settings of spark-defaults.conf still apply."""
    previous = os.environ.get(_ARGUMENTS)
    arguments = (
        f"--load-spark-defaults --properties-file {shlex.quote(str(path))} {previous or 'pyspark-shell'}"
    )
    os.environ[_ARGUMENTS] = arguments
    try:
        yield
    finally:
        if previous is None:
            del os.environ[_ARGUMENTS]
        else:
            os.environ[_ARGUMENTS] = previous
