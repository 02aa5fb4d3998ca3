"""Choose the folder in which the worker processes of the web server share the values of their metrics.

prometheus_client reads PROMETHEUS_MULTIPROC_DIR when it is imported, so nothing here may import it.
"""

import os
import shutil
from contextlib import suppress
from pathlib import Path

FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


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
    os.environ[FOLDER_VARIABLE] = str(own)
