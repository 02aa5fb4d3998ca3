"""Long responses: complete, aborted, to slow readers and to clients that disconnect."""

import contextlib
import re
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from authzconsole.server.requests import MAX_GENERATING
from authzconsole.server.responses import STALLED_SECONDS, in_turn
from tests.support.web_server import receive_all, web_server

# for the migrated database that the server gets a copy of
pytestmark = pytest.mark.django_db
MEGABYTE = 1 << 20


@pytest.fixture(scope="module")
def long_server(state):
    with web_server(state[0], target="tests.server.application:long_application") as running:
        yield running


def get(path):
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()


def content(raw):
    """Return the content of a chunked response and whether it is complete."""
    body, parts = raw.partition(b"\r\n\r\n")[2], []
    while size := int(body.partition(b"\r\n")[0] or b"0", 16):
        body = body.partition(b"\r\n")[2]
        parts.append(body[:size])
        body = body[size + 2 :]
        if not body:
            return b"".join(parts), False
    return b"".join(parts), body.startswith(b"0\r\n\r\n")


@pytest.mark.parametrize(
    "path", ["/generated?20", "/slow?4", "/file?20", "/generated?1", "/generated?0", "/file?0"]
)
def test_a_response_arrives_complete_and_the_connection_stays_open(long_server, path):
    answer = long_server.request(
        get(path) + get("/generated?0").replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    )
    first = answer[: answer.rindex(b"HTTP/1.1 200")]
    size = int(path.partition("?")[2])
    if size > 1:
        assert content(first) == (b"x" * MEGABYTE * size, True)
    else:
        assert first.endswith(b"\r\n\r\n" + b"x" * MEGABYTE * size)


def test_an_error_after_the_start_breaks_the_connection(long_server):
    with long_server.connect() as connection:
        connection.sendall(get("/fails?5"))
        raw = b""
        with contextlib.suppress(ConnectionResetError):
            raw = receive_all(connection)
    assert not raw.endswith(b"0\r\n\r\n")


def test_a_disconnection_ends_the_generation(long_server):
    with long_server.connect() as connection:
        connection.sendall(get("/slow?900"))
        connection.recv(MEGABYTE)
    deadline = time.monotonic() + 20
    while (
        not (ends := re.findall(r"closed after (\d+) of 900", long_server.log.read_text()))
        and time.monotonic() < deadline
    ):
        time.sleep(0.1)
    assert ends and int(ends[0]) < 300, long_server.log.read_text()


def test_only_two_long_responses_are_generated_at_the_same_time():
    lock, active, most = threading.Lock(), [0], [0]

    def chunks():
        for _ in range(5):
            with lock:
                active[0] += 1
                most[0] = max(most[0], active[0])
            time.sleep(0.005)
            with lock:
                active[0] -= 1
            yield b"x"

    with ThreadPoolExecutor(8) as pool:
        counts = list(pool.map(lambda _: len(list(in_turn(chunks()))), range(8)))
    assert counts == [5] * 8 and most == [MAX_GENERATING]


@pytest.mark.slow
def test_200_slow_readers_occupy_neither_threads_nor_memory(long_server):
    with contextlib.ExitStack() as cleanup:
        readers = []
        for _ in range(200):
            readers.append(cleanup.enter_context(open_download(long_server, "/generated?20")))
        start = time.monotonic()
        long_server.request(get("/generated?0").replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        # a server without a free thread waits until the readers are cut off
        assert time.monotonic() - start < STALLED_SECONDS / 3
        # 4 GB are generated
        assert resident_bytes(long_server.process_id) < 1_000 * MEGABYTE
        raw = b"HTTP"
        while not raw.endswith(b"0\r\n\r\n"):
            raw += readers[0].recv(MEGABYTE)
        assert raw.count(b"x") >= 20 * MEGABYTE - 100


def open_download(server, path):
    """Connect and receive the first bytes of the response. Repeat the request while the server is busy, because
    a slow disk generates the earlier responses at the same time.
    """
    deadline = time.monotonic() + 30
    while True:
        connection = server.connect()
        connection.sendall(get(path))
        start = connection.recv(100)
        if not start.startswith(b"HTTP/1.1 503") or time.monotonic() > deadline:
            assert start.startswith(b"HTTP/1.1 200"), start
            return connection
        connection.close()
        time.sleep(0.2)


def resident_bytes(process_id):
    sizes = subprocess.run(
        ["ps", "-o", "rss=", "--ppid", str(process_id)], capture_output=True, text=True
    ).stdout.split()
    return sum(map(int, sizes)) * 1024
