"""Forged X-Forwarded-* headers and forged log lines."""

import time

import pytest

from tests.support.web_server import web_server

# for the migrated database that the server gets a copy of
pytestmark = pytest.mark.django_db
FORGED = (
    b"GET /sign-in HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nX-Request-ID: forged\r\n"
    b"X-Forwarded-For: 203.0.113.7\r\nX_Forwarded_For: 203.0.113.8\r\nX-Forwarded-Proto: https\r\n\r\n"
)


@pytest.mark.parametrize(
    ("variables", "is_believed"),
    [
        ({}, False),
        ({"PUBLIC_URL": "https://127.0.0.1", "TRUSTED_PROXIES": "192.0.2.1"}, False),
        ({"PUBLIC_URL": "https://127.0.0.1"}, True),
    ],
)
def test_only_trusted_proxies_may_name_the_client_and_the_scheme(state, variables, is_believed):
    with web_server(state[0], target="tests.server.application:environ_application", **variables) as server:
        answer = server.request(FORGED).decode()
    assert ("HTTP_X_FORWARDED_FOR=203.0.113.7" in answer) is is_believed
    assert ("HTTP_X_FORWARDED_PROTO=https" in answer) is is_believed
    assert "203.0.113.8" not in answer


def test_a_line_feed_in_a_path_does_not_forge_a_log_line(server):
    path = b"/x%0a2026-01-01T00:00:00Z%20[info]%20forged-line"
    server.request(b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n" % path)
    time.sleep(0.5)
    lines = [line for line in server.log.read_text().splitlines() if "forged-line" in line]
    assert lines and all(r"/x\n2026-01-01T00:00:00Z [info] forged-line" in line for line in lines)
