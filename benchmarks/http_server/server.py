"""Start the server with the command of `make run`, and send requests over persistent connections."""

import configparser
import contextlib
import json
import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from authzconsole.ops import ROOT
from authzconsole.ops.address import free_port

CONNECTIONS = 4
MAX_START_SECONDS = 60
SECRET_KEY = "only-for-a-benchmark" * 3


@contextlib.contextmanager
def running_server() -> Iterator[int]:
    """Start the web program with its supervisord command and yield its port; stop it at the end."""
    port = free_port()
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "benchmarks.http_server.settings",
        "SECRET_KEY": SECRET_KEY,
    }
    server = subprocess.Popen(
        _command(port), cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _wait_for(port, server)
        yield port
    finally:
        server.terminate()
        server.wait()


def _command(port: int) -> list[str]:
    configuration = configparser.RawConfigParser()
    configuration.read(ROOT / "authzconsole" / "ops" / "supervisord.conf")
    command = configuration["program:web"]["command"]
    variables = {"CONSOLE_PYTHON": sys.executable, "CONSOLE_HOST": "127.0.0.1", "CONSOLE_PORT": str(port)}
    for name, value in variables.items():
        command = command.replace(f"%(ENV_{name})s", value)
    return shlex.split(command)


def _wait_for(port: int, server: subprocess.Popen) -> None:
    deadline = time.monotonic() + MAX_START_SECONDS
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server did not start (exit status {server.poll()})") from None
            time.sleep(0.1)


def request_bytes(path: str, body: dict, headers: dict[str, str]) -> bytes:
    """Return the bytes of an HTTP request; built in advance, so that building it is not measured."""
    raw = json.dumps(body).encode()
    lines = {
        "Host": "127.0.0.1",
        "Content-Type": "application/json",
        "Content-Length": str(len(raw)),
        **headers,
    }
    return (
        "\r\n".join(
            [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in lines.items()), "", ""]
        ).encode()
        + raw
    )


def get_decisions(port: int, requests: Sequence[bytes]) -> list[bool]:
    """Return the decision of each request in order, over CONNECTIONS parallel connections."""
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        parts = list(
            pool.map(
                lambda index: _get_decisions_in_sequence(port, requests[index::CONNECTIONS]),
                range(CONNECTIONS),
            )
        )
    decisions: list[bool] = [False] * len(requests)
    for index, part in enumerate(parts):
        decisions[index::CONNECTIONS] = part
    return decisions


def _get_decisions_in_sequence(port: int, requests: Sequence[bytes]) -> list[bool]:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return [json.loads(_get_body(connection, request))["decision"] for request in requests]


def _get_body(connection: socket.socket, request: bytes) -> bytes:
    connection.sendall(request)
    received = b""
    while b"\r\n\r\n" not in received:
        received += _receive(connection)
    head, _, body = received.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(f"the server returned {head!r} {body!r}")
    length = int(head.lower().partition(b"\r\ncontent-length: ")[2].partition(b"\r\n")[0])
    while len(body) < length:
        body += _receive(connection)
    return body


def _receive(connection: socket.socket) -> bytes:
    if chunk := connection.recv(65_536):
        return chunk
    raise RuntimeError("the server closed the connection")
