"""Long polling: requests wait for a journal line without occupying the threads of the server."""

import asyncio
import json
import time

import pytest

from authzconsole.server import waiting
from authzconsole.server.waiting import JournalWatch
from tests.support.web_server import receive_all


def request(token, method, path, body=""):
    return (
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}"
    ).encode()


def content(raw):
    head, _, body = raw.partition(b"\r\n\r\n")
    assert raw.split()[1] in (b"200", b"201"), raw
    return json.loads(body), head


@pytest.fixture
def revision(server, token):
    newest, _ = content(server.request(request(token, "GET", "/api/v1/journal?limit=1")))
    return newest["items"][0]["revision"]


@pytest.mark.django_db
def test_twenty_waiting_requests_get_a_new_line_and_block_no_other_request(server, token, revision):
    connections = [server.connect() for _ in range(20)]
    for connection in connections:
        connection.sendall(request(token, "GET", f"/api/v1/journal?after={revision}&wait=30"))
    time.sleep(0.1)
    start = time.monotonic()
    assert b"ok" in server.request(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
    assert time.monotonic() - start < 10
    content(
        server.request(request(token, "POST", "/api/v1/groups", json.dumps({"name": f"group-{revision}"})))
    )
    for connection in connections:
        with connection:
            page, head = content(receive_all(connection))
            assert [line["action"] for line in page["items"]] == [
                "group-add"
            ] and b"x-console-wait" not in head.lower()
    assert time.monotonic() - start < 15


@pytest.mark.django_db
def test_a_wait_ends_with_an_empty_page(server, token, revision):
    start = time.monotonic()
    page, head = content(server.request(request(token, "GET", f"/api/v1/journal?after={revision}&wait=1")))
    assert (
        page == {"items": [], "next": None}
        and 1 <= time.monotonic() - start < 8
        and b"x-console-wait" not in head.lower()
    )


def test_the_number_of_waiting_requests_is_limited_and_one_query_serves_all(monkeypatch):
    monkeypatch.setattr(waiting, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(waiting, "MAX_WAITING", 3)
    revisions = iter([5, 5, 6])
    calls = []

    async def read():
        calls.append(1)
        return next(revisions)

    async def run():
        watch = JournalWatch(read)
        waits = [asyncio.create_task(watch.wait(5, 10)) for _ in range(3)]
        await asyncio.sleep(0)
        assert await watch.wait(5, 10) is False
        return await asyncio.gather(*waits)

    assert asyncio.run(run()) == [True, True, True] and len(calls) == 3
