"""The Java process that PySpark launches, also before it answers: PySpark keeps the handle only of a process
that answered.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pyspark import java_gateway

# a process ends shortly after its connections
EXIT_SECONDS = 1.0
# the exit status of a shell that reports a killed process is higher by this
SHELL_STATUS = 128


class LaunchedJava:
    """The Java process that was launched in a block; none so far if `process` is None."""

    process: subprocess.Popen | None = None

    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        if self.process is not None and self.is_running():
            self.process.kill()

    def was_killed(self) -> bool:
        """Return whether a signal ended the process, as the kernel does when the memory is full."""
        if self.process is None:
            return False
        with suppress(subprocess.TimeoutExpired):
            status = self.process.wait(EXIT_SECONDS)
            return status < 0 or status > SHELL_STATUS
        return False


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
