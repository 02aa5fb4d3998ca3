"""One shape for every refusal, whoever refuses: the framework, the reading of a body, the law."""

import json

import pytest
from django.db import OperationalError

from authzconsole.api.bodies import LONGEST_BODY_BYTES
from authzconsole.rest import grants
from tests.rest.conftest import problem

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("path", ["/", "/nothing", "/entities/", "/grants/1", "/runs/x", "/runs/1/tables", "/users/"])
def test_a_path_that_leads_nowhere(ada, by_session, path):
    for rest in (ada, by_session()):
        problem(rest.get(path), 404)


@pytest.mark.parametrize(("method", "path", "allowed"), [
    ("put", "/entities", {"GET", "POST", "HEAD"}), ("delete", "/grants", {"GET", "POST", "HEAD"}),
    ("post", "/journal", {"GET", "HEAD"}), ("options", "/grants", {"GET", "POST", "HEAD"}), ("get", "/decisions", {"POST"}),
])
def test_a_method_that_is_not_offered(ada, method, path, allowed):
    answer = ada.client.generic(method.upper(), f"/api/v1{path}", content_type="application/json")
    problem(answer, 405)
    assert set(answer["Allow"].split(", ")) - {"HEAD", "OPTIONS"} == allowed - {"HEAD"}


def test_an_answer_that_is_not_offered(ada):
    problem(ada.client.get("/api/v1/entities", headers={"Accept": "text/html"}), 406)
    for accept in ("application/json", "*/*", "text/html, */*;q=0.1"):
        assert ada.client.get("/api/v1/entities", headers={"Accept": accept}).status_code == 200


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
                                          "multipart/form-data", "application/problem+json", ""])
def test_a_body_of_another_type(ada, content_type):
    problem(ada.client.generic("POST", "/api/v1/grants", b'{"grant":[]}', content_type=content_type), 415)


@pytest.mark.parametrize("body", [
    b"", b" ", b"{", b"[]", b"null", b'"x"', b"{}x", b'{"grant": NaN}', b'{"grant": [], "grant": []}', b'{"\xff": 1}',
    b"\xef\xbb\xbf{}", b'{"grant": ' + b"[" * 1_000 + b"]" * 1_000 + b"}", b"{'grant': []}",
])
def test_a_body_that_is_no_json_object(ada, body):
    problem(ada.post("/grants", body), 400)


def test_a_body_over_the_limit_names_the_limit(ada):
    refused = problem(ada.post("/grants", b'{"reason":"' + b"x" * LONGEST_BODY_BYTES + b'"}'), 413)
    assert "1,000,000 bytes" in refused["detail"]


def test_a_change_set_of_the_most_items_fits_into_a_body(ada):
    longest = {"principal": "user:" + "ä" * 20, "entity": "dataset:sales." + "x" * 200,
               "privileges": ["READ", "WRITE", "EXECUTE", "ADMIN"]}
    assert len(json.dumps({"grant": [longest] * grants.MOST_ITEMS})) < LONGEST_BODY_BYTES


def test_a_fault_of_the_console_is_told_as_one_and_named_in_the_log(ada, monkeypatch, caplog):
    def broken():
        raise RuntimeError("secret details")

    monkeypatch.setattr(grants, "current_revision", broken)
    ada.client.raise_request_exception = False
    answer = ada.get("/grants")
    refused = problem(answer, 500)
    assert "secret" not in answer.content.decode() and refused["instance"] in refused["detail"]
    assert "secret details" in caplog.text


def test_a_database_that_is_busy_asks_to_come_again(ada, monkeypatch):
    def busy():
        raise OperationalError("database is locked")

    monkeypatch.setattr(grants, "current_revision", busy)
    answer = ada.get("/grants")
    problem(answer, 503)
    assert answer["Retry-After"] == "10"


def test_the_callers_request_id_is_the_instance(ada):
    answer = ada.client.get("/api/v1/nothing", headers={"X-Request-ID": "mine-1"})
    assert problem(answer, 404)["instance"] == "mine-1"


@pytest.mark.parametrize("path", ["/users/ned", "/policies", "/policies/active", "/analyses", "/journal/proof"])
def test_a_parameter_where_there_are_none_is_refused(ada, path):
    problem(ada.get(path, fields="name"), 400)
