"""Test the AuthZEN certification scenario: Basic, Batch, Search and Discovery, with ids only.

The records of the scenario are datasets here: alice can read and write the first, bob can only read it.
"""

import pytest

from entities.address import Address
from entities.vocabulary import Privilege
from tests.api.conftest import RESOURCE_SEARCH, SUBJECT_SEARCH, request
from tests.support.changes import add_grant

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("people")]

RULES = [("alice", "read", True), ("alice", "write", True), ("bob", "read", True), ("bob", "write", False)]
EXTRAS = {
    "context": {"context": {"time": "2026-01-01T00:00:00Z", "ip": "10.0.0.1"}},
    "properties": {
        "subject": {"type": "user", "id": "alice", "properties": {"department": "x"}},
        "action": {"name": "read", "properties": {"method": "GET"}},
        "resource": {"type": "dataset", "id": "lab.record-1", "properties": {"status": "active"}},
    },
    "unknown members": {"foo": "bar", "futureField": {"nested": [1, {"a": None}]}},
}


@pytest.mark.parametrize(("subject", "operation", "decision"), RULES)
def test_basic_returns_the_expected_decision_and_no_other_member(api, subject, operation, decision):
    answer = api.evaluate(request(subject, operation))
    assert answer.status_code == 200 and answer["Content-Type"] == "application/json"
    assert answer.json() == {"decision": decision}


@pytest.mark.parametrize("extra", EXTRAS.values(), ids=EXTRAS)
def test_basic_ignores_members_that_the_decision_does_not_need(api, extra):
    assert api.evaluate(request() | extra).json() == {"decision": True}


def test_basic_is_deterministic(api):
    assert len({api.evaluate(request("bob", "write")).content for _ in range(3)}) == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"subject": {"type": "user", "id": "zoe"}},
        {"subject": {"type": "robot", "id": "alice"}},
        {"resource": {"type": "spaceship", "id": "x"}},
        {"action": {"name": "fly"}},
        {"resource": {"type": "dataset", "id": "lab.unregistered"}},
        {"resource": {"type": "dataset", "id": "not an address"}},
    ],
)
def test_basic_denies_unknown_subjects_resources_and_actions_with_status_200(api, changed):
    answer = api.evaluate(request() | changed)
    assert answer.status_code == 200 and answer.json()["decision"] is False


def test_a_malformed_address_is_reported_in_the_context_of_the_response(api):
    context = api.evaluate(request(resource="not an address")).json()["context"]
    assert context["error"]["status"] == 400 and "`resource.id`" in context["error"]["message"]


def test_basic_explains_only_on_request(api):
    answer = api.evaluate(request("bob", "write", context={"explain": True})).json()
    assert answer["decision"] is False
    assert answer["context"]["sentence"] == "Denied: user:bob lacks WRITE on dataset:lab.record-1."
    assert answer["context"]["missing"] == [{"entity": "dataset:lab.record-1", "privilege": "WRITE"}]


def test_a_generation_in_the_context_is_used_for_the_decision(api):
    answers = {
        g: api.evaluate(request(context={"generation": g})).json()["decision"]
        for g in ("core", "proposed", "final")
    }
    assert answers == {"core": False, "proposed": True, "final": True}


DEFAULTS = {"subject": {"type": "user", "id": "bob"}, "resource": {"type": "dataset", "id": "lab.record-1"}}


def test_batch_answers_each_item_in_order_from_the_defaults(api):
    answer = api.evaluate_all(
        DEFAULTS | {"evaluations": [{"action": {"name": "read"}}, {"action": {"name": "write"}}]}
    )
    assert answer.json() == {"evaluations": [{"decision": True}, {"decision": False}]}


def test_batch_items_can_be_complete_requests(api):
    answer = api.evaluate_all({"evaluations": [request("alice", "write"), request("bob", "write")]})
    assert answer.json() == {"evaluations": [{"decision": True}, {"decision": False}]}


def test_a_member_of_an_item_replaces_the_whole_default(api):
    items = [
        {"context": {"generation": "core"}},
        {"context": {"explain": True}},
        {"subject": {"type": "user"}},
    ]
    answer = api.evaluate_all(
        request(context={"generation": "final", "explain": False}) | {"evaluations": [{}, *items]}
    )
    evaluation, core, explained, halved = answer.json()["evaluations"]
    assert (evaluation, core["decision"]) == ({"decision": True}, False)
    assert explained["decision"] and explained["context"]["generation"] == "final"
    assert halved["decision"] is False and halved["context"]["error"]["message"] == "`subject.id` is missing"


def test_a_batch_item_with_a_missing_member_is_denied_in_its_position(api):
    body = {"subject": DEFAULTS["subject"], "action": {"name": "read"}}
    answer = api.evaluate_all(body | {"evaluations": [{"resource": DEFAULTS["resource"]}, {}, 7]})
    assert answer.status_code == 200
    first, second, third = answer.json()["evaluations"]
    assert first == {"decision": True}
    assert second["decision"] is False and second["context"]["error"] == {
        "status": 400,
        "message": "`resource` is missing",
    }
    assert (
        third["decision"] is False
        and third["context"]["error"]["message"] == "`evaluations[2]` must be an object"
    )


@pytest.mark.parametrize("evaluations", [{}, {"evaluations": []}])
def test_a_batch_without_items_is_one_evaluation(api, evaluations):
    assert api.evaluate_all(request() | evaluations).json() == {"decision": True}


@pytest.mark.parametrize(
    ("semantic", "expected"),
    [
        ("execute_all", [True, False, True, False]),
        ("deny_on_first_deny", [True, False]),
        ("permit_on_first_permit", [True]),
    ],
)
def test_each_semantic_stops_at_its_deciding_item(api, semantic, expected):
    items = [{"action": {"name": name}} for name in ("read", "write", "read", "write")]
    answer = api.evaluate_all(
        DEFAULTS | {"evaluations": items, "options": {"evaluations_semantic": semantic}}
    )
    assert [evaluation["decision"] for evaluation in answer.json()["evaluations"]] == expected


def test_an_invalid_item_counts_as_a_denial(api):
    body = DEFAULTS | {"evaluations": [{}, {"action": {"name": "read"}}]}
    stopping = body | {"options": {"evaluations_semantic": "deny_on_first_deny"}}
    assert [len(api.evaluate_all(sent).json()["evaluations"]) for sent in (body, stopping)] == [2, 1]


def ids(answer):
    assert answer.status_code == 200
    return [result.get("id") or result["name"] for result in answer.json()["results"]]


ACTION_SEARCH = {"subject": {"type": "user", "id": "alice"}, "resource": DEFAULTS["resource"]}
SEARCHES = {"subject": SUBJECT_SEARCH, "resource": RESOURCE_SEARCH, "action": ACTION_SEARCH}


def test_search_finds_subjects_with_direct_grants_and_grants_through_groups(api):
    answer = api.search("subject", SUBJECT_SEARCH)
    assert answer.json() == {"results": [{"type": "user", "id": "alice"}, {"type": "user", "id": "bob"}]}
    assert ids(api.search("subject", SUBJECT_SEARCH | {"subject": {"type": "group"}})) == ["readers"]


def test_search_finds_the_resources(api):
    assert api.search("resource", RESOURCE_SEARCH).json() == {
        "results": [{"type": "dataset", "id": "lab.record-1"}]
    }
    group_search = RESOURCE_SEARCH | {"subject": {"type": "group", "id": "readers"}}
    assert ids(api.search("resource", group_search)) == ["lab.record-1"]


def test_search_finds_the_actions_and_each_of_them_evaluates_to_true(api):
    actions = ids(api.search("action", ACTION_SEARCH))
    assert {"read", "write", "list", "READ", "WRITE"} <= set(actions) and "drop" not in actions
    assert all(api.evaluate(request(operation=name)).json()["decision"] for name in actions)


@pytest.mark.parametrize("what", SEARCHES)
def test_search_ignores_a_context_that_no_policy_reads(api, what):
    plain, other = (
        api.search(what, SEARCHES[what] | extra) for extra in ({}, {"context": {"time": "now"}, "foo": 1})
    )
    assert plain.content == other.content


@pytest.mark.parametrize("ignored", ["bob", "no such", "\0", 7, None])
def test_search_ignores_the_id_of_the_searched_entity(api, ignored):
    for what in ("subject", "resource"):
        body = SEARCHES[what] | {what: SEARCHES[what][what] | {"id": ignored}}
        assert api.search(what, body).content == api.search(what, SEARCHES[what]).content
    assert (
        api.search("action", ACTION_SEARCH | {"action": ignored}).content
        == api.search("action", ACTION_SEARCH).content
    )


UNKNOWN = [
    {"subject": {"type": "user", "id": "zoe"}},
    {"subject": {"type": "spaceship", "id": "x"}},
    {"resource": {"type": "spaceship", "id": "x"}},
    {"resource": {"type": "dataset", "id": "not an address"}},
    {"action": {"name": "fly"}},
]


def is_searched(what, unknown):
    """Return True if the unknown value is only the id of the searched entity, which is ignored."""
    return what in unknown and unknown[what].get("type") != "spaceship"


@pytest.mark.parametrize(
    ("what", "unknown"), [(w, u) for w in SEARCHES for u in UNKNOWN if not is_searched(w, u)]
)
def test_search_returns_no_results_for_unknown_values(api, what, unknown):
    answer = api.search(what, SEARCHES[what] | unknown)
    assert answer.status_code == 200 and answer.json() == {"results": []}


@pytest.mark.parametrize(
    ("what", "member", "value", "message"),
    [
        ("subject", "action", ..., "`action` is missing"),
        ("subject", "resource", {"type": "dataset"}, "`resource.id` is missing"),
        ("subject", "subject", ..., "`subject` is missing"),
        ("subject", "subject", {"id": "alice"}, "`subject.type` is missing"),
        ("resource", "subject", ..., "`subject` is missing"),
        ("resource", "subject", {"type": "user"}, "`subject.id` is missing"),
        ("resource", "resource", {"id": "x"}, "`resource.type` is missing"),
        ("resource", "action", {}, "`action.name` is missing"),
        ("action", "resource", ..., "`resource` is missing"),
        ("action", "resource", {"type": "dataset"}, "`resource.id` is missing"),
        ("action", "subject", {"type": "user"}, "`subject.id` is missing"),
    ],
)
def test_a_search_with_a_missing_member_is_refused(api, what, member, value, message):
    body = {
        name: content for name, content in (SEARCHES[what] | {member: value}).items() if content is not ...
    }
    answer = api.search(what, body)
    assert (answer.status_code, answer.json()) == (400, message)


def test_a_search_uses_the_context_of_the_question(api):
    """Creating with a custom type requires more privileges, also in a search."""
    body = {
        "subject": {"type": "user", "id": "alice"},
        "action": {"name": "create"},
        "resource": {"type": "dataset"},
    }
    add_grant("user:alice", Address("dataset", "lab.record-2"), Privilege.ADMIN)
    owned = body | {"context": {"dataset_type": "dataset_type:lab.ours"}}
    assert (ids(api.search("resource", body)), ids(api.search("resource", owned))) == (["lab.record-2"], [])
    add_grant("user:alice", Address("dataset_type", "lab.ours"), Privilege.READ)
    assert ids(api.search("resource", owned)) == ["lab.record-2"]


def test_discovery_uses_public_url_and_not_the_host_header(client, settings):
    settings.PUBLIC_URL = "https://pdp.example.com"
    settings.ALLOWED_HOSTS = ["*"]
    answer = client.get("/.well-known/authzen-configuration", headers={"Host": "evil.example.org"})
    assert answer.status_code == 200 and answer["Content-Type"] == "application/json"
    assert answer.json() == {
        "policy_decision_point": "https://pdp.example.com",
        "access_evaluation_endpoint": "https://pdp.example.com/access/v1/evaluation",
        "access_evaluations_endpoint": "https://pdp.example.com/access/v1/evaluations",
        "search_subject_endpoint": "https://pdp.example.com/access/v1/search/subject",
        "search_resource_endpoint": "https://pdp.example.com/access/v1/search/resource",
        "search_action_endpoint": "https://pdp.example.com/access/v1/search/action",
        "access_request_endpoint": "https://pdp.example.com/access/v1/requests",
        "capabilities": ["urn:openid:authzen:capability:access-request"],
    }


def test_every_endpoint_listed_by_discovery_exists(api, client, settings):
    named = client.get("/.well-known/authzen-configuration").json()
    for name, url in named.items():
        if name.endswith("_endpoint"):
            assert api.post(url.removeprefix(settings.PUBLIC_URL), {}).status_code == 400


def test_the_request_id_is_returned_in_every_response(api, client):
    own = {"X-Request-ID": "abc 123"}
    for status, answer in (
        (200, api.post("/access/v1/evaluation", request(), **own)),
        (400, api.post("/access/v1/evaluation", "{", **own)),
        (400, api.post("/access/v1/evaluation", request(), Host="evil.example.org", **own)),
        (401, client.post("/access/v1/evaluation", {}, content_type="application/json", headers=own)),
        (200, client.get("/.well-known/authzen-configuration", headers=own)),
    ):
        assert (answer.status_code, answer["X-Request-ID"]) == (status, "abc 123")
    assert api.evaluate(request())["X-Request-ID"]
