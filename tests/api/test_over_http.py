"""The endpoints over real HTTP."""

import http.client
import json
from urllib.parse import urlsplit

import pytest

from authzconsole.api.bodies import LONGEST_BODY_BYTES
from tests.api.conftest import request

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("people")]


@pytest.fixture
def send(live_server, secret):
    """Sends as it is told; returns status, headers and the JSON of the answer."""
    def sent(method, path, body=None, **headers):
        address = urlsplit(live_server.url)
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=30)
        try:
            usual = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
            connection.request(method, path, body, usual | headers)
            answer = connection.getresponse()
            return answer.status, answer.headers, json.loads(answer.read() or "null")
        finally:
            connection.close()

    return sent


def test_an_evaluation_a_batch_and_a_search_answer(send):
    status, headers, answer = send("POST", "/access/v1/evaluation", json.dumps(request()), **{"X-Request-ID": "r-1"})
    assert (status, answer, headers["X-Request-ID"]) == (200, {"decision": True}, "r-1")
    items = {"evaluations": [{}, {"action": {"name": "drop"}}]}
    assert send("POST", "/access/v1/evaluations", json.dumps(request() | items))[2] == {
        "evaluations": [{"decision": True}, {"decision": False}]}
    body = {"subject": {"type": "user"}, "action": {"name": "read"}, "resource": {"type": "dataset", "id": "lab.record-1"}}
    assert send("POST", "/access/v1/search/subject", json.dumps(body))[2]["results"][1] == {"type": "user", "id": "bob"}


def test_errors_come_back_as_a_status_and_a_sentence_with_the_request_id(send):
    for body, headers, expected in ((None, {}, 400), (b"{", {}, 400), (b"{}", {"Content-Type": "text/plain"}, 400),
                                    (b"x" * (LONGEST_BODY_BYTES + 1), {}, 413), (b"{}", {"Authorization": "Bearer x"}, 401)):
        status, sent, answer = send("POST", "/access/v1/evaluation", body, **{"X-Request-ID": "r-2"} | headers)
        assert (status, sent["X-Request-ID"]) == (expected, "r-2") and isinstance(answer, str)


def test_discovery_is_open(send):
    status, _, answer = send("GET", "/.well-known/authzen-configuration", Authorization="")
    assert status == 200 and answer["policy_decision_point"]
