"""Stop a computation on a standalone cluster that keeps losing executors.

The master starts a new executor for each one that ended, without end, and the driver waits for one that registers. Only the
log of the driver's client says that executors ended, and why.
"""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from analytics.spark.session import SparkUnavailable

MAX_LOST = 10
POLL_SECONDS = 1.0
_CLIENT = "org.apache.spark.deploy.client"
_ENDED = re.compile(r"Executor updated: \S+ is now (?:EXITED|FAILED|LOST)(?: \((.*)\))?")
_NORMAL = "Command exited with code 0"


@contextmanager
def limit_lost_executors(session: SparkSession) -> Iterator[None]:
    """Cancel the jobs of the block after MAX_LOST executors that ended by themselves, stop Spark, and raise SparkUnavailable.
    Other masters than a standalone one limit this themselves.
    """
    context = session.sparkContext
    if not context.master.startswith("spark://"):
        yield
        return
    with _log_of_client(context) as new_lines:
        watch = _Watch(context, new_lines)
        try:
            yield
        except Exception as error:
            if watch.stop():
                context.stop()
                raise SparkUnavailable(_message(watch.reasons[-1])) from error
            raise
        finally:
            watch.stop()


class _Watch:
    """A thread that counts lost executors. reasons: why each one ended."""

    def __init__(self, context: SparkContext, new_lines: Callable[[], str]) -> None:
        self.reasons: list[str] = []
        self._context, self._new_lines, self._over = context, new_lines, threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch of executors", daemon=True)
        self._thread.start()

    def stop(self) -> bool:
        """End the thread. Return whether too many executors were lost."""
        self._over.set()
        self._thread.join()
        return len(self.reasons) >= MAX_LOST

    def _run(self) -> None:
        with suppress(Py4JError, OSError):
            while not self._over.wait(POLL_SECONDS):
                ended = _ENDED.findall(self._new_lines())
                self.reasons += [reason for reason in ended if reason != _NORMAL]
                if len(self.reasons) >= MAX_LOST:
                    # repeated, because the block can start another job
                    self._context.cancelAllJobs()


@contextmanager
def _log_of_client(context: Any) -> Iterator[Callable[[], str]]:
    """Record what the client of the standalone master logs. Yield a function that returns what is new."""
    log4j, scala_context = context._jvm.org.apache.logging.log4j, context._jsc.sc()
    loggers = log4j.LogManager.getContext(scala_context.getClass().getClassLoader(), False)
    configuration, info = loggers.getConfiguration(), log4j.Level.INFO
    writer = context._jvm.java.io.StringWriter()
    appender = log4j.core.appender.WriterAppender.createAppender(None, None, writer, _CLIENT, False, True)
    appender.start()
    # not additive, or the other appenders would get the same level
    logger, root = log4j.core.config.LoggerConfig(_CLIENT, info, False), configuration.getRootLogger()
    logger.addAppender(appender, info, None)
    shown = root.getLevel() if root.getLevel().isMoreSpecificThan(log4j.Level.WARN) else log4j.Level.WARN
    for other in root.getAppenders().values():
        logger.addAppender(other, shown, None)
    configuration.addLogger(_CLIENT, logger)
    loggers.updateLoggers()

    def new_lines() -> str:
        lines = writer.toString()
        # lines that were logged in between remain
        writer.getBuffer().delete(0, len(lines))
        return lines

    try:
        yield new_lines
    finally:
        with suppress(Py4JError, OSError):
            configuration.removeLogger(_CLIENT)
            loggers.updateLoggers()


def _message(reason: str) -> str:
    return (
        f"{MAX_LOST} executors ended ({reason or 'no reason is known'}), and the Spark master would start new ones without end. "
        "The file stderr in the work folder of a Spark worker says why. Usual reasons: they get less memory than "
        "spark.executor.memory and spark.executor.memoryOverhead need, they cannot connect to spark.driver.host and its ports, "
        "or they have another spark.authenticate.secret, Java, Spark or Python (PYSPARK_PYTHON, with pyarrow, numpy and pandas)."
    )
