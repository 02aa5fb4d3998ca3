"""The application that the workers of the production server load."""

import multiprocessing
import os
import resource
import shutil
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

from django.conf import settings
from django.urls import get_resolver

from authzconsole.ops.processes import die_with_parent, keep_files_private, outlive_parent

# the server that started this worker, also if it has ended since
_server = multiprocessing.parent_process()
SERVER_PID = os.getppid() if _server is None else _server.pid or os.getppid()

# without this, the workers of a killed server would continue to answer requests, next to those of the next
# server; before the console, because a server can be killed while its workers load it
die_with_parent(signal.SIGTERM, SERVER_PID)()

# prometheus_client reads this variable when it is imported, so nothing before may import it
METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"


def prepare_metrics(state: Path, server_pid: int) -> None:
    """Let the worker processes of one web server share their values, and delete those of servers that no
    longer run.
    """
    folder = state / "metrics"
    for path in folder.glob("server-*"):
        with suppress(ValueError):
            pid = int(path.name.removeprefix("server-"))
            if pid != server_pid and not Path(f"/proc/{pid}").exists():
                shutil.rmtree(path, ignore_errors=True)
    own = folder / f"server-{server_pid}"
    own.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.environ[METRICS_FOLDER] = str(own)


prepare_metrics(settings.STATE_DIR, SERVER_PID)

from authzconsole.wsgi import application as console  # noqa: E402, isort: skip

# after the console, which loads the applications of Django
from authzconsole.server.application import ConsoleServer  # noqa: E402, isort: skip
from authzconsole.server.requests import TrustedProxies  # noqa: E402, isort: skip
from authzconsole.server.requests import BodyLimits  # noqa: E402, isort: skip

__all__ = ["application"]
MAX_OPEN_FILES = 65_536
PARENT_CHECK_SECONDS = 0.25
# the time for unfinished requests after the parent has ended
LAST_SECONDS = 1


def prepare_process(state: Path) -> Path:
    """Allow many connections, and return the folder for temporary files. The files have no name and are
    deleted with the process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    folder = state / "tmp"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def exit_with_parent(parent: int) -> None:
    """End this process LAST_SECONDS after its parent ended, even if clients are connected.

    granian waits longer for their connections. In the meantime, the next server could not answer all
    requests, because the operating system distributes them among all processes that listen on the port.
    """

    def wait() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_CHECK_SECONDS)
        # the operating system ends the process, because granian sometimes blocks all threads when it handles SIGTERM
        signal.alarm(LAST_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)

    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    threading.Thread(target=wait, name="exit-with-parent", daemon=True).start()
    # granian would handle the signal before the thread sets the alarm
    outlive_parent()


keep_files_private()
exit_with_parent(SERVER_PID)

# load the views now instead of during the first request
len(get_resolver().url_patterns)

application = ConsoleServer(
    console,
    limits=BodyLimits(**settings.BODY_LIMITS),
    proxies=TrustedProxies(settings.TRUSTED_PROXIES),
    folder=prepare_process(settings.STATE_DIR),
)
