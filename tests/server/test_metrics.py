"""The metrics of the web server include the requests of all its worker processes, and a proxy does not
disclose them.
"""

import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

pytestmark = pytest.mark.django_db


def get(server, path, *headers, host="127.0.0.1"):
    lines = "".join(f"{header}\r\n" for header in headers)
    answer = server.request(
        f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{lines}Connection: close\r\n\r\n".encode()
    ).decode()
    return int(answer.split()[1]), answer


def workers_of(server):
    folder = server.state / "metrics" / f"server-{server.process_id}"
    return {path.name.split("_")[-1] for path in folder.glob("histogram_*.db")}


def test_every_worker_answers_with_the_metrics_of_all(server):
    sent, deadline = 0, time.monotonic() + 30
    with ThreadPoolExecutor(16) as pool:
        # parallel requests, because an idle server may give all connections to the same worker
        while not sent or len(workers_of(server)) < 2 and time.monotonic() < deadline:
            answers = pool.map(lambda _: get(server, "/api/v1/openapi.json")[0], range(16))
            assert set(answers) == {200}, server.log.read_text()[-3_000:]
            sent += 16
    pattern = re.compile(r'authzconsole_request_seconds_count\{endpoint="rest"\} (\S+)')
    counts = {pattern.search(get(server, "/metrics")[1])[1] for _ in range(8)}
    assert len(counts) == 1 and float(counts.pop()) >= sent > 0
    assert len(workers_of(server)) == 2


def test_the_attack_a_name_that_resolves_to_this_machine_gets_no_metrics(server):
    assert get(server, "/metrics", host="evil.example")[0] == 403
    assert get(server, "/readyz", host="evil.example")[1].endswith("not ready\n")


def test_a_request_through_a_local_proxy_needs_the_token(server):
    assert get(server, "/metrics", "X-Forwarded-For: 192.0.2.7")[0] == 403
    status, answer = get(server, "/readyz", "X-Real-IP: 192.0.2.7")
    assert status == 503 and answer.endswith("not ready\n")
