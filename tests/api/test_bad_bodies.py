"""Invalid requests are refused with a message before any question is evaluated."""

import json

import pytest
from django.test import Client

from authzconsole.api.evaluation import MAX_EVALUATIONS
from authzconsole.common.request_body import MAX_BODY_BYTES
from grants.strict_json import MAX_NESTING, MalformedJson, json_from_bytes
from tests.api.conftest import create_people, create_secret, create_service, request
from tests.support.cast import created_for_several_tests

pytestmark = pytest.mark.django_db

ENDPOINTS = ["evaluation", "evaluations", "search/subject", "search/resource", "search/action"]
WHOLE = json.dumps(request()).encode()
BODIES = {
    "empty": (b"", "the body is empty: send a JSON object"),
    "white space": (b" \n", "the body is empty: send a JSON object"),
    "broken": (b'{"subject":', "the body is not JSON: Expecting value at line 1, column 12"),
    "an array": (b"[]", "the body must be a JSON object"),
    "a string": (b'"alice"', "the body must be a JSON object"),
    "null": (b"null", "the body must be a JSON object"),
    "not a number": (
        WHOLE[:-1] + b', "context": {"a": NaN}}',
        "the body is not acceptable JSON: NaN is not a number in JSON",
    ),
    "infinity": (
        WHOLE[:-1] + b', "a": -Infinity}',
        "the body is not acceptable JSON: -Infinity is not a number in JSON",
    ),
    "twice": (
        WHOLE[:-1] + b', "subject": {"type": "user", "id": "bob"}}',
        "the body is not acceptable JSON: `subject` appears more than once in one object",
    ),
    "twice, inside": (
        b'{"subject": {"type": "user", "id": "alice", "id": "bob"}}',
        "the body is not acceptable JSON: `id` appears more than once in one object",
    ),
    "1,000 deep": (
        b'{"context":' + b"[" * 1_000 + b"]" * 1_000 + b"}",
        "the body is nested too deeply: 64 levels are allowed",
    ),
    "100,000 deep": (
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        "the body is nested too deeply: 64 levels are allowed",
    ),
    "not UTF-8": (b'{"a": "\xff"}', "the body is not UTF-8: byte 8 cannot be read"),
    "UTF-16": ('{"a": 1}'.encode("utf-16"), "the body is not UTF-8: byte 1 cannot be read"),
    "a long number": (b'{"a": ' + b"1" * 5_000 + b"}", "the body is not acceptable JSON"),
    "something after it": (WHOLE + b"{}", "the body is not JSON: Extra data"),
}


@pytest.fixture(scope="module")
def secret(django_db_setup, django_db_blocker):
    """Create the people, and a token, once for all tests: refused requests change nothing."""

    def create():
        create_people()
        create_service()
        return create_secret()

    with created_for_several_tests(create, django_db_blocker) as created:
        yield created


@pytest.mark.parametrize(("raw", "message"), BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_body_that_is_not_a_json_object_is_refused_with_a_message(api, endpoint, raw, message):
    answer = api.post(f"/access/v1/{endpoint}", raw)
    assert answer.status_code == 400 and answer["Content-Type"] == "application/json"
    assert answer.json().startswith(message)


SURROGATE_BODIES = {
    "in a subject": rb'{"subject": {"type": "user", "id": "alice\ud800"}}',
    "in ignored properties": rb'{"subject": {"properties": {"deep": ["\uDFFF"]}}}',
    "in a member name": rb'{"context": {"\udc00": 1}}',
    "in the wrong order": rb'{"context": {"name": "\ude00\ud83d"}}',
    "in an item": rb'{"evaluations": [{"subject": {"type": "user", "id": "\ud800x"}}]}',
    "after an escaped backslash": rb'{"action": {"name": "\\\ud800"}}',
    "in a page token": rb'{"page": {"token": "\ud800"}}',
}


@pytest.mark.parametrize("raw", SURROGATE_BODIES.values(), ids=SURROGATE_BODIES)
@pytest.mark.parametrize("path", [*(f"/access/v1/{endpoint}" for endpoint in ENDPOINTS), "/api/v1/decisions"])
def test_a_lone_surrogate_is_refused_in_every_string_and_member_name(api, path, raw):
    answer = api.post(path, WHOLE[:-1] + b", " + raw[1:] if b"page" in raw else raw)
    assert answer.status_code == 400 and "contains a lone surrogate" in answer.content.decode()


@pytest.mark.parametrize("name", [rb"\ud83d\ude00", rb"\\ud800", "\U0001f600".encode()])
def test_surrogate_pairs_and_escaped_backslashes_are_accepted(api, name):
    assert (
        api.post(
            "/access/v1/evaluation", WHOLE[:-1] + b', "context": {"' + name + b'": "' + name + b'"}}'
        ).status_code
        == 200
    )


@pytest.mark.parametrize(
    "content_type",
    [
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/jsonx",
        "multipart/form-data; boundary=x",
        "application/xml",
    ],
)
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_content_type_other_than_json_is_refused_with_400(api, endpoint, content_type):
    answer = api.post(f"/access/v1/{endpoint}", WHOLE, content_type=content_type)
    assert (answer.status_code, answer.json()) == (400, "the Content-Type must be application/json")


@pytest.mark.parametrize(
    "content_type", ["application/json", "application/json; charset=utf-8", "Application/JSON"]
)
def test_the_json_content_type_can_have_parameters(api, content_type):
    assert api.post("/access/v1/evaluation", WHOLE, content_type=content_type).json() == {"decision": True}


ERRORS = [
    ({"subject": ...}, "`subject` is missing"),
    ({"action": {"name": 123}}, "`action.name` must be a string"),
    (
        {"subject": {"type": "user", "id": "alice", "properties": "x"}},
        "`subject.properties` must be an object",
    ),
    ({"context": {"generation": "newest"}}, "`context.generation`: `newest` is not a generation of rules"),
]


@pytest.mark.parametrize(("changes", "message"), ERRORS)
@pytest.mark.parametrize("endpoint", ["evaluation", "evaluations"])
def test_a_malformed_evaluation_is_refused_and_the_member_is_named(api, endpoint, changes, message):
    body = {name: value for name, value in (request() | changes).items() if value is not ...}
    answer = api.post(f"/access/v1/{endpoint}", body)
    assert answer.status_code == 400 and answer.json().startswith(message)


@pytest.mark.parametrize("text", [" alice", "alice ", "Alice", "ALICE", "alice\t", "user:alice"])
def test_names_are_matched_exactly(api, text):
    assert api.evaluate(request(text)).json()["decision"] is False


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"evaluations": {}}, "`evaluations` must be an array"),
        ({"evaluations": None}, "`evaluations` must be an array"),
        ({"evaluations": "x"}, "`evaluations` must be an array"),
        ({"evaluations": [{}], "options": []}, "`options` must be an object"),
        (
            {"evaluations": [{}], "options": {"evaluations_semantic": "any"}},
            "`options.evaluations_semantic` must be one of",
        ),
        (
            {"evaluations": [{}], "options": {"evaluations_semantic": []}},
            "`options.evaluations_semantic` must be one of",
        ),
        ({"evaluations": [{}], "subject": "alice"}, "`subject` must be an object"),
        ({"evaluations": [{}], "action": {"name": 123}}, "`action.name` must be a string"),
        ({"evaluations": [{}], "context": 1}, "`context` must be an object"),
        (
            {"evaluations": [{}] * (MAX_EVALUATIONS + 1)},
            "`evaluations` has 1,001 items; the limit is 1,000 per request",
        ),
    ],
)
def test_a_malformed_batch_is_refused_as_a_whole(api, body, message):
    answer = api.evaluate_all(request() | body)
    assert answer.status_code == 400 and answer.json().startswith(message)


def test_a_body_over_the_size_limit_is_refused_with_413(api):
    long = request(context={"filler": "x" * MAX_BODY_BYTES})
    answer = api.evaluate(long)
    assert (answer.status_code, answer.json()) == (
        413,
        "the body is longer than 1,000,000 bytes, which is the limit",
    )


def test_a_body_of_exactly_the_size_limit_is_accepted(api):
    raw = json.dumps(request(context={"filler": ""})).encode()
    assert api.post("/access/v1/evaluation", raw + b" " * (MAX_BODY_BYTES - len(raw))).json() == {
        "decision": True
    }


@pytest.mark.parametrize("method", ["get", "put", "delete", "patch", "options", "head"])
def test_another_method_is_refused_with_405(client, method):
    answer = getattr(client, method)("/access/v1/evaluation")
    assert answer.status_code == 405 and answer["Allow"] == "POST"


@pytest.mark.parametrize("method", ["post", "put", "delete", "patch", "options"])
def test_the_metadata_endpoint_only_accepts_get_and_head(method):
    client = Client(enforce_csrf_checks=True)
    assert client.head("/.well-known/authzen-configuration").status_code == 200
    answer = getattr(client, method)("/.well-known/authzen-configuration")
    assert (answer.status_code, answer["Allow"], answer["Content-Type"]) == (
        405,
        "GET, HEAD",
        "application/json",
    )
    assert answer.json() == "this endpoint only accepts GET and HEAD"


@pytest.mark.parametrize(
    "path", ["/access", "/access/", "/access/v1", "/access/v2/evaluation", "/access/v1/evaluation/x"]
)
@pytest.mark.parametrize("method", ["get", "post"])
def test_an_unknown_path_under_access_is_answered_with_json(secret, path, method):
    client = Client(enforce_csrf_checks=True)
    for headers in ({}, {"Authorization": f"Bearer {secret}"}):
        answer = getattr(client, method)(path, headers=headers)
        assert (answer.status_code, answer["Content-Type"]) == (404, "application/json")
        assert answer.json().startswith("this API has no such path")


@pytest.mark.parametrize(
    "path",
    [
        "/access/v1/evaluation/",
        "/access/v1/evaluations/",
        "/access/v1/search/subject/",
        "/.well-known/authzen-configuration/",
    ],
)
def test_paths_with_a_trailing_slash_are_not_found(api, path):
    assert api.post(path, request()).status_code == 404


def test_an_internal_error_returns_a_message_with_the_request_id(api, monkeypatch):
    def fails(*args, **kwargs):
        raise RuntimeError("the disk is on fire")

    monkeypatch.setattr("authzconsole.api.evaluation.answer_questions", fails)
    api.client.raise_request_exception = False
    answer = api.post("/access/v1/evaluation", request(), **{"X-Request-ID": "r-7"})
    assert (answer.status_code, answer["X-Request-ID"]) == (500, "r-7")
    assert answer.json() == (
        "internal error; the log of the console has the details under the request id "
        f"{answer.wsgi_request.id}"
    )


def test_brackets_in_strings_do_not_count_as_nesting():
    text = "[{" * 500 + '\\"' * 200
    assert json_from_bytes(json.dumps({"a": [text, {"b": text}]}).encode(), text_name="it") == {
        "a": [text, {"b": text}]
    }


def test_nesting_up_to_the_limit_is_accepted():
    deepest = b"[" * MAX_NESTING + b"]" * MAX_NESTING
    assert json_from_bytes(deepest, text_name="it")
    with pytest.raises(MalformedJson, match="too deeply"):
        json_from_bytes(b"[" + deepest + b"]", text_name="it")


@pytest.mark.parametrize(
    "raw", [b'"' + b'\\"' * 400_000, b'"\\' * 300_000, b'{"a' * 300_000, b"[" * 63 + b'"' * 500_000]
)
def test_hostile_texts_are_refused_in_linear_time(raw):
    with pytest.raises(MalformedJson):
        json_from_bytes(raw + b"[{" * 100, text_name="it")


def test_a_duplicate_among_very_many_members_is_refused():
    members = ",".join(f'"{number}":1' for number in range(60_000))
    with pytest.raises(MalformedJson, match="`7` appears more than once"):
        json_from_bytes(f'{{{members},"7":2}}'.encode(), text_name="it")
