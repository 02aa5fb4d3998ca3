"""The server keeps to HTTP on raw connections, and its workers end with it."""

import contextlib
import os
import re
import signal
import subprocess
import time

import pytest

from tests.server.test_bodies import HEALTH, LARGE, head
from tests.support.web_server import receive_all, web_server

# for the migrated database that the server gets a copy of
pytestmark = pytest.mark.django_db
JSON = "Content-Type: application/json"
SMUGGLED = b"GET /healthz?smuggled HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


def answers(raw):
    """Return the status lines of the answers."""
    return re.findall(rb"HTTP/1.1 (\d+)", raw)


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/access/v1/evaluation", [JSON], b"401"),
        ("/access/v1/evaluation", [JSON, "Authorization: Bearer azc_x"], b"401"),
        ("/access/v1/evaluation", ["Content-Type: text/plain"], b"400"),
        ("/access/unknown", [JSON], b"404"),
        ("/.well-known/authzen-configuration", [JSON], b"405"),
        ("/api/v1/grants", [JSON], b"401"),
        ("/api/v1/nothing", [JSON], b"404"),
        ("/healthz", [JSON], b"403"),
        ("/sign-in", [JSON], b"403"),
    ],
)
@pytest.mark.parametrize("is_chunked", [False, True])
def test_the_body_of_a_refused_request_is_not_the_next_request(server, path, headers, status, is_chunked):
    """The body looks like a request. If it was left on the connection, it would be answered."""
    if is_chunked:
        framing, body = ["Transfer-Encoding: chunked"], b"%x\r\n%s\r\n0\r\n\r\n" % (len(SMUGGLED), SMUGGLED)
    else:
        framing, body = [f"Content-Length: {len(SMUGGLED)}"], SMUGGLED
    raw = server.request(head(path, *headers, *framing) + body + HEALTH)
    assert answers(raw) == [status, b"200"], raw


def test_a_connection_is_closed_after_a_body_that_is_too_long(server):
    """The body consists of requests.

    None of them is answered, because the server drops the body and closes the connection.
    """
    body = SMUGGLED * (70_000 // len(SMUGGLED))
    for path in ("/sign-in", "/access/v1/evaluation", "/api/v1/grants"):
        raw = server.request(head(path, JSON, length=len(body)) + body + HEALTH)
        assert len(answers(raw)) == 1 and b"connection: close" in raw.lower(), raw


def test_a_connection_is_closed_if_the_rest_of_a_refused_body_does_not_come(server):
    with server.connect() as connection:
        connection.sendall(head("/sign-in", JSON, length=LARGE) + b"x")
        raw = receive_all(connection)
    assert answers(raw) == [b"413"] and b"connection: close" in raw.lower()


@pytest.mark.parametrize(
    "sent", [b"x" * 500, "Größe – 漢字 \U0001f600".encode(), bytes(range(0x80, 0x100)), b"a\tb c"]
)
def test_the_request_id_is_returned_byte_for_byte(server, token, sent):
    for path in (b"/access/v1/evaluation", b"/api/v1/policies", b"/nothing"):
        raw = server.request(
            b"GET "
            + path
            + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer "
            + token.encode()
            + b"\r\nX-Request-ID: "
            + sent
            + b"\r\nConnection: close\r\n\r\n"
        )
        assert b"\r\nx-request-id: " + sent + b"\r\n" in raw.replace(b"X-Request-ID", b"x-request-id"), raw[
            :800
        ]


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"])
def test_a_wrong_method_is_refused_by_every_authzen_endpoint(server, token, method):
    for path in ("evaluation", "evaluations", "search/subject", "search/resource", "search/action"):
        raw = server.request(
            f"{method} /access/v1/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
            "Connection: close\r\n\r\n".encode()
        )
        start, _, body = raw.partition(b"\r\n\r\n")
        assert start.startswith(b"HTTP/1.1 405") and b"\r\nallow: post" in start.lower()
        assert b"content-type: application/json" in start.lower()
        assert body == (b"" if method == "HEAD" else b'"this endpoint only accepts POST"')


def test_a_304_has_no_content_and_no_length(server, token):
    def read(*headers):
        lines = [
            "GET /api/v1/policies/active HTTP/1.1",
            "Host: 127.0.0.1",
            f"Authorization: Bearer {token}",
            *headers,
            "",
            "",
        ]
        return "\r\n".join(lines).encode()

    etag = re.search(rb'(?i)\r\netag: ("\w+")\r\n', server.request(read("Connection: close")))[1].decode()
    raw = server.request(read(f"If-None-Match: W/{etag}") + HEALTH)
    start, _, rest = raw.partition(b"\r\n\r\n")
    assert start.startswith(b"HTTP/1.1 304") and rest.startswith(b"HTTP/1.1 200")
    assert (
        b"\r\ncontent-length:" not in start.lower()
        and b"\r\ncontent-type:" not in start.lower()
        and etag.encode() in start
    )


@pytest.mark.parametrize("module", ["authzconsole.server_worker", "tests.server.blocked_worker"])
def test_the_workers_of_a_killed_server_end_within_seconds(state, module):
    """Neither connected clients nor an unfinished body nor a blocked interpreter keep a worker running."""
    with contextlib.ExitStack() as cleanup:
        running = cleanup.enter_context(
            web_server(state[0], target=f"{module}:application", PYTHONFAULTHANDLER="1")
        )
        children = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(running.process_id)], capture_output=True, text=True
        )
        workers = [int(pid) for pid in children.stdout.split()]
        assert len(workers) >= 2
        for _ in range(8):
            connection = cleanup.enter_context(running.connect())
            connection.sendall(head("/sign-in", JSON, length=1_000) + b"x")
        os.kill(running.process_id, signal.SIGKILL)
        # without the watch of its parent, a worker runs as long as its clients are connected; one that still loads the
        # console on a busy machine takes longer
        deadline = time.monotonic() + 60
        while remaining := [worker for worker in workers if is_running(worker)]:
            if time.monotonic() > deadline:
                pytest.fail(f"a worker outlives its server:\n{last_words(remaining, running.log)}")
            time.sleep(0.05)


def last_words(workers, log):
    """End the workers, and return the log with what each of their threads was doing."""
    for worker in workers:
        os.kill(worker, signal.SIGABRT)
    time.sleep(5)
    return log.read_text()


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            # an orphan that no process waits for is a zombie
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
