"""Slow, large and interrupted request bodies."""

import asyncio
import contextlib
import json
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from urllib.parse import urlencode

import pytest

from authzconsole.server.requests import MEMORY_BYTES, BodyLimits, BodyReceiver, ClientDisconnected
from tests.server.conftest import GRACE_SECONDS
from tests.support.web_server import receive_all, web_server

# for the migrated database that the server gets a copy of
pytestmark = pytest.mark.django_db
FORM = "Content-Type: application/x-www-form-urlencoded"
LARGE = 60 * 1024 * 1024
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


def head(path, *headers, length=None):
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", *headers]
    return "\r\n".join(
        [*lines, *([f"Content-Length: {length}"] if length is not None else []), "", ""]
    ).encode()


@contextlib.contextmanager
def slow_bodies(server, count):
    """Send `count` bodies slowly, which do not end before the block does."""
    is_over = threading.Event()

    def send(connections):
        while not is_over.wait(0.05):
            for connection in connections:
                with contextlib.suppress(OSError):
                    connection.sendall(b"x")

    with contextlib.ExitStack() as cleanup, ThreadPoolExecutor(1) as background:
        connections = [cleanup.enter_context(server.connect()) for _ in range(count)]
        for connection in connections:
            connection.sendall(head("/sign-in", FORM, "Cookie: csrftoken=" + "a" * 32, length=10_000) + b"c")
        background.submit(send, connections)
        try:
            yield
        finally:
            is_over.set()


@pytest.mark.parametrize("count", [32, 200])
def test_slow_bodies_do_not_delay_other_requests(server, count):
    seconds = []
    with slow_bodies(server, count):
        for _ in range(5):
            start = time.monotonic()
            assert server.request(HEALTH, timeout=30).startswith(b"HTTP/1.1 200")
            seconds.append(time.monotonic() - start)
    # a server that waits for a body ends it after GRACE_SECONDS
    assert max(seconds) < GRACE_SECONDS / 2


@pytest.mark.parametrize("framing", ["Content-Length: 1000", "Transfer-Encoding: chunked"])
def test_a_slow_body_ends_after_the_deadline(server, framing):
    start = time.monotonic()
    answer = server.request(head("/sign-in", FORM, framing) + b"1\r\nx\r\n")
    assert answer.startswith(b"HTTP/1.1 408") and b"connection: close" in answer.lower()
    assert GRACE_SECONDS - 0.5 < time.monotonic() - start < GRACE_SECONDS + 10


def multipart(size):
    return (
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="f.csv"\r\n\r\n'
        + b"x" * size
        + b"\r\n--b--\r\n",
        "Content-Type: multipart/form-data; boundary=b",
    )


@pytest.mark.parametrize(
    "credentials", ["", "Authorization: Bearer azc_unknown", "Cookie: sessionid=unknown"]
)
@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_large_anonymous_body_is_refused_without_a_file(server, credentials, is_chunked):
    body, content_type = multipart(LARGE)
    headers = [content_type, *([credentials] if credentials else [])]
    with server.connect() as connection:
        if is_chunked:
            connection.sendall(head("/plans/import", *headers, "Transfer-Encoding: chunked"))
            body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        else:
            connection.sendall(head("/plans/import", *headers, length=len(body)))
        open_files = []
        for start in range(0, len(body), 1 << 20):
            # the server reads the rest, so that the client can read the answer
            connection.sendall(body[start : start + (1 << 20)])
            if start >> 20 in (1, 30):
                open_files += server.open_files()
        answer = receive_all(connection)
    assert answer.startswith(b"HTTP/1.1 413") and b"connection: close" in answer.lower()
    assert f"more than {MEMORY_BYTES:,} bytes".encode() in answer
    assert not [target for target in open_files if str(server.state / "tmp") in target or ".upload" in target]
    assert list((server.state / "tmp").iterdir()) == []


def test_a_large_api_request_without_a_valid_token_gets_401(server):
    for path in ("/access/v1/evaluation", "/api/v1/grants"):
        raw = head(
            path, "Content-Type: application/json", "Authorization: Bearer azc_x", length=MEMORY_BYTES * 4
        )
        answer = server.request(raw + b" " * MEMORY_BYTES * 4)
        assert answer.startswith(b"HTTP/1.1 401") and b"connection: close" in answer.lower(), answer


def test_a_large_request_with_a_token_is_read(server, token):
    question = {
        "subject": {"type": "user", "id": "admin"},
        "action": {"name": "get"},
        "resource": {"type": "namespace", "id": "a"},
        "context": {"padding": "x" * MEMORY_BYTES * 4},
    }
    raw = json.dumps(question).encode()
    headers = ["Content-Type: application/json", f"Authorization: Bearer {token}", "Connection: close"]
    answer = server.request(head("/access/v1/evaluation", *headers, length=len(raw)) + raw)
    assert answer.startswith(b"HTTP/1.1 200") and b'"decision"' in answer, answer
    chunked = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (raw[:10], raw[10:])) + b"0\r\n\r\n"
    answer = server.request(head("/access/v1/evaluation", *headers, "Transfer-Encoding: chunked") + chunked)
    assert answer.startswith(b"HTTP/1.1 200") and b'"decision"' in answer, answer
    assert server.request(head("/access/v1/evaluation", *headers, length=LARGE) + b" " * LARGE).startswith(
        b"HTTP/1.1 413"
    )


def test_a_signed_in_import_of_a_large_file_works(server, password):
    connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
    cookies = {}

    def send(method, path, body=b"", content_type="application/x-www-form-urlencoded"):
        cookie = "; ".join(f"{name}={value}" for name, value in cookies.items())
        connection.request(
            method, path, body, {"Content-Type": content_type, "Cookie": cookie, "Host": "127.0.0.1"}
        )
        response = connection.getresponse()
        for line in response.headers.get_all("Set-Cookie") or []:
            name, _, value = line.partition(";")[0].partition("=")
            cookies[name] = value
        return response.status, response.read().decode()

    form_token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', send("GET", "/sign-in")[1])[1]
    fields = {"username": "admin", "password": password, "csrfmiddlewaretoken": form_token}
    assert send("POST", "/sign-in", urlencode(fields).encode())[0] == 302
    page = send("GET", "/plans/import")[1]
    form_token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page)[1]
    field = (
        f'--b\r\nContent-Disposition: form-data; name="csrfmiddlewaretoken"\r\n\r\n{form_token}\r\n'.encode()
    )
    for size, message in ((3 * 1024 * 1024, 'class="bad'), (9 * 1024 * 1024, "8 MB are allowed")):
        status, page = send(
            "POST", "/plans/import", field + multipart(size)[0], "multipart/form-data; boundary=b"
        )
        assert status == 400 and ("8 MB are allowed" in page) == ("allowed" in message)
    connection.close()


def test_a_client_that_expects_to_continue_sends_no_refused_body(server, token):
    with server.connect() as connection:
        connection.sendall(head("/sign-in", FORM, "Expect: 100-continue", length=MEMORY_BYTES + 1))
        assert receive_all(connection).startswith(b"HTTP/1.1 413")
    with server.connect() as connection:
        connection.sendall(
            head(
                "/access/v1/evaluation",
                "Content-Type: application/json",
                f"Authorization: Bearer {token}",
                "Expect: 100-continue",
                "Connection: close",
                length=2,
            )
        )
        assert connection.recv(1_000).startswith(b"HTTP/1.1 100")
        connection.sendall(b"{}")
        assert receive_all(connection).startswith(b"HTTP/1.1 400")


def test_requests_on_one_connection_are_answered_in_order(server):
    small = head("/access/v1/evaluation", length=2) + b"{}"
    chunked = head("/sign-in", FORM, "Transfer-Encoding: chunked") + b"3\r\na=b\r\n0\r\n\r\n"
    health = HEALTH.replace(b"Connection: close\r\n", b"")
    answer = server.request(small + health + chunked + health.replace(b"GET", b"HEAD") + HEALTH)
    assert re.findall(rb"HTTP/1.1 (\d+)", answer) == [b"400", b"200", b"403", b"200", b"200"]


@pytest.mark.parametrize(
    "body",
    [
        b"zz\r\na=b\r\n0\r\n\r\n",
        b"-3\r\na=b\r\n0\r\n\r\n",
        b"3\na=b\n0\n\n",
        b"3;" + b"a" * 40_000 + b"\r\na=b\r\n0\r\n\r\n",
        b"10000000000000003\r\na=b\r\n0\r\n\r\n",
        b"3\r\na=b\r\nzz\r\n",
    ],
    ids=["size", "negative", "LF", "extension", "overflow", "second"],
)
def test_the_attack_malformed_chunks_get_400_and_end_the_connection(server, body):
    """The bytes after a malformed chunk are never handled as another request."""
    answer = server.request(head("/sign-in", FORM, "Transfer-Encoding: chunked") + body + HEALTH)
    assert answer.startswith(b"HTTP/1.1 400") and b"connection: close" in answer.lower()
    assert (
        answer.endswith(b"the request body is malformed or incomplete\n") and answer.count(b"HTTP/1.1") == 1
    )


def test_an_interrupted_body_is_not_handled(server, token):
    raw = (
        head(
            "/interrupted-body",
            "Content-Type: application/json",
            f"Authorization: Bearer {token}",
            length=100,
        )
        + b"{}"
    )
    with server.connect() as connection:
        connection.sendall(raw)
    time.sleep(0.5)
    assert server.request(HEALTH).startswith(b"HTTP/1.1 200")
    log = server.log.read_text()
    assert "interrupted-body" not in log and "Traceback" not in log


def test_the_attack_a_body_that_the_path_does_not_accept_is_refused_before_it_is_read(server, token):
    """Otherwise announced bodies of one account would occupy the places of large bodies."""
    authorization = f"Authorization: Bearer {token}"
    for path, length in (
        ("/access/v1/evaluation", 1_000_001),
        ("/api/v1/grants", 1_000_001),
        ("/api/v1/plans/import", 12_010_001),
        ("/plans/import", 10 * 1024 * 1024 + 1),
    ):
        with server.connect() as connection:
            connection.sendall(
                head(
                    path, "Content-Type: application/json", authorization, "Connection: close", length=length
                )
            )
            connection.settimeout(GRACE_SECONDS - 1)
            answer = connection.recv(10_000)
            assert answer.startswith(b"HTTP/1.1 413"), (path, answer)
            is_problem = b"application/problem+json" in answer
            assert is_problem is path.startswith("/api/"), answer
        assert list((server.state / "tmp").iterdir()) == []


def test_the_attack_large_bodies_of_one_account_leave_places_for_others(server, token):
    """Each account has four of the sixteen places of a worker."""
    with contextlib.ExitStack() as cleanup:
        connections, refused = [], 0
        for _ in range(40):
            connection = cleanup.enter_context(server.connect())
            connection.sendall(
                head(
                    "/api/v1/plans/import",
                    "Content-Type: application/json",
                    f"Authorization: Bearer {token}",
                    length=12_000_000,
                )
            )
            connections.append(connection)
        for connection in connections:
            connection.sendall(b" " * (MEMORY_BYTES + 10))
        time.sleep(1)
        for connection in connections:
            connection.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                refused += connection.recv(1_000).startswith(b"HTTP/1.1 429")
        # two workers
        assert 40 - 2 * 4 <= refused < 40


def test_one_account_does_not_take_the_places_of_another(tmp_path):
    async def scenario():
        receiver, is_over = BodyReceiver(BodyLimits(max_large_per_account=2), tmp_path), asyncio.Event()

        async def send_slowly(account):
            chunks = iter([b"x" * (MEMORY_BYTES + 1)])

            async def receive():
                for chunk in chunks:
                    return {"type": "http.request", "body": chunk, "more_body": True}
                await is_over.wait()
                return {"type": "http.disconnect"}

            async def find_account():
                return account

            await receiver.receive_body(
                receive, 1_000_000, address="", max_bytes=1_000_000, find_account=find_account
            )

        tasks = [asyncio.create_task(send_slowly(account)) for account in (1, 1, 1, 2, 2)]
        await asyncio.sleep(0.1)
        refused = [task.done() and task.exception().status for task in tasks]
        is_over.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        # all places are free again
        last = asyncio.create_task(send_slowly(1))
        await asyncio.gather(last, return_exceptions=True)
        return refused, type(last.exception())

    assert asyncio.run(scenario()) == ([False, False, 429, False, False], ClientDisconnected)


def test_health_is_answered_while_all_threads_are_busy(state):
    with (
        web_server(state[0], target="tests.server.application:busy_application") as busy,
        contextlib.ExitStack() as cleanup,
    ):
        waiting = HEALTH.replace(b"/healthz", b"/busy")
        connections = [cleanup.enter_context(busy.connect()) for _ in range(40)]
        for connection in connections:
            connection.sendall(waiting)
        time.sleep(0.2)
        for _ in range(5):
            start = time.monotonic()
            assert busy.request(HEALTH).startswith(b"HTTP/1.1 200")
            assert time.monotonic() - start < 0.5


def test_health_has_an_answer_with_and_without_a_body(server):
    answer = server.request(HEALTH)
    assert answer.startswith(b"HTTP/1.1 200") and answer.endswith(b"ok")
    answer = server.request(HEALTH.replace(b"GET", b"HEAD"))
    assert answer.startswith(b"HTTP/1.1 200") and not answer.endswith(b"ok")
