"""The endpoints over real HTTP, with the fixture of the certification: a custom kind `record` under the
instance.
"""

import http.client
import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from authzconsole.common.request_body import MAX_BODY_BYTES
from entities.address import address_of, parse_address
from entities.kinds_file import register_kinds
from entities.services import ensure_entities
from entities.vocabulary import KINDS, Privilege
from tests.api.conftest import request
from tests.support.changes import change_grants

OWN_KINDS = Path(__file__).parent.parent / "cases" / "own_kinds.toml"

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("people")]


@pytest.fixture
def send(live_server, secret):
    """Return a function that sends a request and returns the status, the headers and the JSON body."""

    def send_request(method, path, body=None, **headers):
        address = urlsplit(live_server.url)
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=30)
        try:
            default_headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
            connection.request(method, path, body, default_headers | headers)
            answer = connection.getresponse()
            return answer.status, answer.headers, json.loads(answer.read() or "null")
        finally:
            connection.close()

    return send_request


def test_errors_have_a_status_a_message_and_the_request_id(send):
    for body, headers, expected in (
        (None, {}, 400),
        (b"{", {}, 400),
        (b"{}", {"Content-Type": "text/plain"}, 400),
        (b"x" * (MAX_BODY_BYTES + 1), {}, 413),
        (b"{}", {"Authorization": "Bearer x"}, 401),
    ):
        status, response_headers, answer = send(
            "POST", "/access/v1/evaluation", body, **{"X-Request-ID": "r-2"} | headers
        )
        assert (status, response_headers["X-Request-ID"]) == (expected, "r-2") and isinstance(answer, str)


def test_discovery_needs_no_authentication(send):
    status, _, answer = send("GET", "/.well-known/authzen-configuration", Authorization="")
    assert status == 200 and answer["policy_decision_point"]


@pytest.fixture
def records(people):
    before = dict(KINDS)
    register_kinds(OWN_KINDS)
    first, second = parse_address("record:record-1"), parse_address("record:record-2")
    for address in (first, second):
        ensure_entities(states={address: "live"})
    change_grants(
        grant=[
            ("user:alice", first, Privilege.READ),
            ("user:alice", first, Privilege.WRITE),
            ("user:bob", first, Privilege.READ),
        ]
    )
    yield
    KINDS.clear()
    KINDS.update(before)
    parse_address.cache_clear()
    address_of.cache_clear()


def record_request(subject, operation, resource="record-1"):
    return request(subject, operation, resource, kind="record")


@pytest.mark.usefixtures("records")
def test_the_core_levels_of_the_certification_pass(send):
    def ask(path, body):
        status, _, answer = send("POST", f"/access/v1/{path}", json.dumps(body))
        assert status == 200
        return answer

    rules = [
        ("alice", "read", True),
        ("alice", "write", True),
        ("bob", "read", True),
        ("bob", "write", False),
    ]
    decisions = [ask("evaluation", record_request(subject, name))["decision"] for subject, name, _ in rules]
    assert decisions == [expected for *_, expected in rules]
    defaults = {"subject": {"type": "user", "id": "bob"}, "resource": {"type": "record", "id": "record-1"}}
    batch = ask(
        "evaluations",
        defaults | {"evaluations": [{"action": {"name": "read"}}, {"action": {"name": "write"}}]},
    )
    assert batch == {"evaluations": [{"decision": True}, {"decision": False}]}
    subjects = ask("search/subject", record_request("alice", "read") | {"subject": {"type": "user"}})[
        "results"
    ]
    assert subjects == [{"type": "user", "id": "alice"}, {"type": "user", "id": "bob"}]
    resources = ask("search/resource", record_request("alice", "read") | {"resource": {"type": "record"}})[
        "results"
    ]
    assert resources == [{"type": "record", "id": "record-1"}]
    actions = ask(
        "search/action", {member: record_request("alice", "")[member] for member in ("subject", "resource")}
    )["results"]
    assert [action["name"] for action in actions] == ["read", "write", "list", "get", "READ", "WRITE"]
