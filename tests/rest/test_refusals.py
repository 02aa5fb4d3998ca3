"""Every error is a problem document of one shape, whether the framework, the parser or a service raises it."""

import json
import re
from pathlib import Path

import pytest
from django.db import OperationalError
from rest_framework.serializers import ListSerializer

from analytics.models import AnalysisRun
from authzconsole.common.fields import ErrorMessages, List, StrictSerializer
from authzconsole.common.request_body import MAX_BODY_BYTES
from authzconsole.rest import grants
from entities.vocabulary import Privilege
from grants.journal import ACTIONS
from tests.rest.conftest import problem

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "path", ["/nothing", "/entities/", "/grants/1", "/runs/x", "/runs/1/tables", "/users/"]
)
def test_an_unknown_path_is_a_404_problem(ada, by_session, path):
    for rest in (ada, by_session()):
        problem(rest.get(path), 404)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("put", "/entities", {"GET", "POST", "HEAD"}),
        ("delete", "/grants", {"GET", "POST", "HEAD"}),
        ("post", "/journal", {"GET", "HEAD"}),
        ("options", "/grants", {"GET", "POST", "HEAD"}),
        ("get", "/decisions", {"POST"}),
    ],
)
def test_an_unsupported_method_is_a_405_problem(ada, method, path, allowed):
    answer = ada.client.generic(method.upper(), f"/api/v1{path}", content_type="application/json")
    problem(answer, 405)
    assert set(answer["Allow"].split(", ")) - {"HEAD", "OPTIONS"} == allowed - {"HEAD"}


def test_an_unsupported_accept_header_is_a_406_problem(ada):
    problem(ada.client.get("/api/v1/entities", headers={"Accept": "text/html"}), 406)
    for accept in ("application/json", "*/*", "text/html, */*;q=0.1"):
        assert ada.client.get("/api/v1/entities", headers={"Accept": accept}).status_code == 200


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "multipart/form-data",
        "application/problem+json",
        "",
    ],
)
def test_a_body_of_another_content_type_is_a_415_problem(ada, content_type):
    problem(ada.client.generic("POST", "/api/v1/grants", b'{"grant":[]}', content_type=content_type), 415)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
    ],
)
def test_a_body_that_is_not_a_json_object_is_refused(ada, body):
    problem(ada.post("/grants", body), 400)


def test_a_body_over_the_size_limit_is_a_413_problem_that_names_the_limit(ada):
    refused = problem(ada.post("/grants", b'{"reason":"' + b"x" * MAX_BODY_BYTES + b'"}'), 413)
    assert "1,000,000 bytes" in refused["detail"]


def test_a_change_set_of_the_maximum_number_of_items_fits_into_a_body(ada):
    longest = {
        "principal": "user:" + "ä" * 20,
        "entity": "dataset:sales." + "x" * 200,
        "privileges": list(Privilege),
    }
    assert len(json.dumps({"grant": [longest] * grants.MAX_ITEMS})) < MAX_BODY_BYTES


def test_an_internal_error_is_a_500_problem_and_is_logged(ada, monkeypatch, caplog):
    def fail():
        raise RuntimeError("secret details")

    monkeypatch.setattr(grants, "current_revision", fail)
    ada.client.raise_request_exception = False
    answer = ada.get("/grants")
    refused = problem(answer, 500)
    assert "secret" not in answer.content.decode() and refused["instance"] in refused["detail"]
    assert "secret details" in caplog.text


def test_a_busy_database_is_a_503_problem_with_retry_after(ada, monkeypatch):
    def busy():
        raise OperationalError("database is locked")

    monkeypatch.setattr(grants, "current_revision", busy)
    answer = ada.get("/grants")
    problem(answer, 503)
    assert answer["Retry-After"] == "10"


def test_the_request_id_of_the_caller_is_the_instance(ada):
    answer = ada.client.get("/api/v1/nothing", headers={"X-Request-ID": "mine-1"})
    assert problem(answer, 404)["instance"] == "mine-1"


@pytest.mark.parametrize(
    "path", ["/users/ned", "/policies", "/policies/active", "/analyses", "/journal/proof"]
)
def test_unknown_parameters_are_refused(ada, path):
    problem(ada.get(path, fields="name"), 400)


@pytest.mark.parametrize(
    ("path", "name", "known"),
    [
        ("/plans", "origin", "policy-impact"),
        ("/runs", "analysis", "visibility"),
        ("/journal", "action", "member-add"),
        ("/policies/core", "operation", "view-lineage"),
    ],
)
def test_an_invalid_value_is_refused_with_the_valid_values(ada, path, name, known):
    (error,) = problem(ada.get(path, **{name: "nonsense"}), 400)["errors"]
    assert (
        error["field"] == name
        and error["message"].startswith("`nonsense` is not one of ")
        and known in error["message"]
    )
    assert ada.get(path, **{name: known}).status_code == 200


def test_the_journal_can_be_filtered_by_every_action():
    written = set()
    for folder in ("grants", "authzconsole", "analytics"):
        for path in Path(folder).rglob("*.py"):
            written |= set(re.findall(r'JournalEntry\(\s*"([a-z-]+)"', path.read_text()))
    assert len(written) > 15 and written <= set(ACTIONS)


@pytest.mark.parametrize(
    ("member", "sent", "message"),
    [
        ("name", {}, "this member is required"),
        ("name", {"name": None}, "this must not be null"),
        ("name", {"name": ""}, "this must not be empty"),
        ("reason", {"name": "x", "reason": "x" * 2_001}, "this is longer than the limit of 2,000 characters"),
    ],
)
def test_validation_errors_of_the_framework_use_the_messages_of_the_console(ada, member, sent, message):
    refused = problem(ada.post("/groups", sent), 400)
    assert (
        refused["errors"] == [{"field": member, "message": message}]
        and refused["detail"] == f"{member}: {message}"
    )


def test_type_errors_use_the_messages_of_the_console(ada):
    assert problem(ada.post("/grants", {"grant": {}}), 400)["detail"] == "grant: this must be a list"
    many = {"verb": "grant", "principals": [], "privileges": ["READ"], "within": "namespace:sales"}
    assert (
        problem(ada.post("/plans/many", many), 400)["detail"] == "principals: this must have at least 1 items"
    )
    assert problem(ada.get("/journal", limit="0"), 400)["detail"] == "limit: this must be 1 or more"
    assert problem(ada.get("/members", limit="1001"), 400)["detail"] == "limit: this must be 1000 or less"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", "this must be a time such as 2026-02-01T08:00:00Z"),
        ("2026-02-01", "this must be a time such as 2026-02-01T08:00:00Z"),
        (
            "2026-02-01T08:00:00",
            "`2026-02-01T08:00:00` has no time zone: add Z for UTC, or an offset such as +01:00",
        ),
        ("2026-02-30T08:00:00Z", "`2026-02-30T08:00:00Z` is not a time: there is no such day or hour"),
    ],
)
def test_a_time_has_a_zone(ada, text, message):
    assert problem(ada.get("/journal", since=text), 400)["detail"] == f"since: {message}"
    rule = {"kind": "one-admin-holder", "pattern": "*", "until": text, "reason": "x"}
    assert problem(ada.post("/finding-rules", rule), 400)["detail"] == f"until: {message}"


def strict_serializers(base=StrictSerializer):
    for serializer_class in base.__subclasses__():
        yield serializer_class
        yield from strict_serializers(serializer_class)


def test_every_field_has_the_messages_of_the_console(ada):
    # import every endpoint
    ada.get("/analyses")
    fields = [
        (serializer_class, field)
        for serializer_class in strict_serializers()
        for field in serializer_class().fields.values()
    ]
    assert len(fields) > 100
    for serializer_class, field in fields:
        for checked_field in filter(None, (field, getattr(field, "child", None))):
            # list serializers only document a list, which an envelope reads; unvalidated fields report no
            # errors
            is_unvalidated = type(checked_field).__name__ == "_UnvalidatedField"
            assert isinstance(checked_field, ErrorMessages | ListSerializer) or is_unvalidated, (
                serializer_class,
                field,
            )


def test_a_list_above_its_limit_is_one_error_however_many_items_are_invalid(ada):
    """The errors of 490,000 items took 14 seconds and 900 MB, from a body of 1 MB of an ordinary account."""
    for sent, limit in (({"reason": "x", "parts": [1] * 11}, 10), ({"reason": "x", "parts": [{}] * 11}, 10)):
        refused = problem(ada.post("/access-requests", sent), 400)
        assert refused["errors"] == [
            {"field": "parts", "message": f"this has more items than the limit of {limit}"}
        ]


def test_every_list_with_validated_items_has_a_limit(ada):
    # import every endpoint
    ada.get("/analyses")
    lists = [
        (serializer_class.__name__, name, field.max_length)
        for serializer_class in strict_serializers()
        for name, field in serializer_class().fields.items()
        if isinstance(field, List | ListSerializer) and type(field.child).__name__ != "_UnvalidatedField"
    ]
    assert len(lists) > 20
    assert [(serializer_class, name) for serializer_class, name, limit in lists if limit is None] == []


def test_the_error_about_unknown_members_lists_the_first_of_them(ada):
    refused = problem(ada.post("/groups", {f"a{number}": 1 for number in range(20_000)}), 400)
    assert [error["field"] for error in refused["errors"]] == ["a0", "a1", "a10", "a100", "a1000"]


def test_errors_name_the_allowed_methods_and_media_types(ada):
    refused = ada.client.generic("DELETE", "/api/v1/grants")
    assert problem(refused, 405)["detail"] == "this path only accepts GET and POST"
    refused = ada.client.get("/api/v1/entities", headers={"Accept": "text/html"})
    assert problem(refused, 406)["detail"] == (
        "this path cannot answer in a format of the Accept header: send application/json, or no Accept header"
    )


@pytest.mark.parametrize(
    ("sent", "field"),
    [({"group": "nothing", "user": "ned"}, "group"), ({"group": "operators", "user": "nobody"}, "user")],
)
def test_an_invalid_membership_names_the_member(ada, sent, field):
    assert [error["field"] for error in problem(ada.post("/members", sent), 400)["errors"]] == [field]


def test_an_invalid_parameter_is_named(ada):
    assert problem(ada.get("/grants", within="dataset:sales.orders"), 400)["errors"][0]["field"] == "within"


@pytest.mark.parametrize("sent", [b"{", b"[]", b"5", b'{"force": true}'])
def test_an_invalid_body_does_not_cancel_a_run(ada, sent):
    run = AnalysisRun.objects.create(type="visibility", options={})
    problem(ada.post(f"/runs/{run.pk}/cancel", sent), 400)
    assert AnalysisRun.objects.get().state == "waiting"
    for nothing in (b"", b" ", b"{}"):
        assert ada.post(f"/runs/{run.pk}/cancel", nothing).status_code == 200
