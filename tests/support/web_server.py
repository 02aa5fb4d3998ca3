"""Run the web server with the command of `make run`, and talk to it over sockets."""

import configparser
import os
import re
import shlex
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from authzconsole.ops import ROOT
from authzconsole.ops.address import ListenAddress, free_port, health_status

MAX_START_SECONDS = 90
_NOT_INHERITED = (
    "DATABASE_URL",
    "REDIS_URL",
    "DJANGO_SETTINGS_MODULE",
    "PUBLIC_URL",
    "PROXIES",
    "CONSOLE_TEST_STATE",
)


@dataclass(frozen=True)
class WebServer:
    """A running web server: its port, process id, state folder and log file."""

    port: int
    process_id: int
    state: Path
    log: Path

    def connect(self, *, timeout: float = 30) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout)

    def request(self, raw: bytes, *, timeout: float = 30) -> bytes:
        """Send bytes and return all bytes of the answer until the server closes the connection."""
        with self.connect(timeout=timeout) as connection:
            connection.sendall(raw)
            return receive_all(connection)

    def open_files(self) -> list[str]:
        """Return the targets of the descriptors of the worker processes."""
        children = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(self.process_id)], capture_output=True, text=True
        )
        targets = []
        for descriptor in [
            entry for child in children.stdout.split() for entry in Path(f"/proc/{child}/fd").glob("*")
        ]:
            try:
                targets.append(os.readlink(descriptor))
            except OSError:
                continue
        return targets


def receive_all(connection: socket.socket) -> bytes:
    received = b""
    while chunk := connection.recv(1 << 20):
        received += chunk
    return received


def state_environment(state: Path, **variables: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
    return {**inherited, "STATE_DIR": str(state), "SECRET_KEY": "only-for-a-test" * 4, **variables}


def manage(state: Path, *arguments: str) -> str:
    """Run manage.py for this state folder and return its output."""
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=state_environment(state),
        text=True,
        capture_output=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def prepare_state(state: Path, database: str) -> str:
    """Copy a migrated SQLite database into the state folder, create the first administrator and return the
    password.
    """
    with (
        closing(sqlite3.connect(database)) as source,
        closing(sqlite3.connect(state / "console.sqlite3")) as copy,
    ):
        source.backup(copy)
    code = (
        "from authzconsole.management.commands.bootstrap import *; print(create_first_administrator()); "
        "collect_static_files(); User.objects.update(must_change_password=False)"
    )
    return re.search(r"\('admin', '(\S+)'\)", manage(state, "shell", "-c", code))[1]


@contextmanager
def web_server(
    state: Path, *, target: str = "authzconsole.server_worker:application", **variables: str
) -> Iterator[WebServer]:
    """Run the supervisord command of the web program; it ends with all its connections at the end."""
    port = free_port()
    log = state / f"web-{port}.log"
    configuration = configparser.RawConfigParser()
    configuration.read(ROOT / "authzconsole" / "ops" / "supervisord.conf")
    command = configuration["program:web"]["command"].replace(
        "authzconsole.server_worker:application", target
    )
    for name, value in {"PYTHON": sys.executable, "HOST": "127.0.0.1", "PORT": str(port)}.items():
        command = command.replace(f"%(ENV_CONSOLE_{name})s", value)
    with log.open("w") as output:
        process = subprocess.Popen(
            shlex.split(command),
            cwd=ROOT,
            env=state_environment(state, **variables),
            stdout=output,
            stderr=output,
        )
    try:
        deadline = time.monotonic() + MAX_START_SECONDS
        while health_status(ListenAddress("127.0.0.1", port, "")) is None:
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        yield WebServer(port, process.pid, state, log)
    finally:
        process.terminate()
        process.wait()
