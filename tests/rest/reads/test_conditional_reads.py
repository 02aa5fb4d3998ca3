"""A read with a matching If-None-Match gets 304 without content."""

import pytest

from tests.rest.conftest import ROOT, problem

ORDERS = "/entities/dataset:sales.orders"
RESOURCES = [ORDERS, "/users/ned", "/policies/active", "/schedules/visibility"]


def get(rest, path, if_none_match, method="get"):
    return getattr(rest.client, method)(f"{ROOT}{path}", headers={"If-None-Match": if_none_match})


@pytest.mark.parametrize("path", RESOURCES)
def test_a_known_etag_gets_304_without_content(ada, path):
    etag = ada.get(path)["ETag"]
    for header in (etag, f"W/{etag}", "*", f'"other", W/{etag}', f'"a,b",{etag}, "c"'):
        for method in ("get", "head"):
            answer = get(ada, path, header, method)
            assert (answer.status_code, answer.content) == (304, b""), header
            assert answer["ETag"] == etag and answer["Cache-Control"] == "no-store" and answer["X-Request-ID"]
            assert "Content-Type" not in answer and "Cookie" in answer["Vary"]
    for header in ('"other"', "", etag.strip('"'), f'"x{etag[1:]}', 'W/"*"'):
        answer = get(ada, path, header)
        assert answer.status_code == 200 and answer.json(), header


def test_a_changed_resource_is_sent_again(ada):
    for path, change in ((ORDERS, {"description": "new"}), ("/users/ned", {"email": "n@example.com"})):
        etag = ada.get(path)["ETag"]
        assert ada.patch(path, change, If_Match=etag).status_code == 200
        assert get(ada, path, etag).status_code == 200


def test_the_etag_of_a_user_covers_every_member_of_the_representation(ada, cast):
    etag = ada.get("/users/ned")["ETag"]
    type(cast["ned"]).objects.filter(username="ned").update(
        is_principal=not ada.get("/users/ned").json()["is_principal"]
    )
    assert get(ada, "/users/ned", etag).status_code == 200


def test_a_change_with_a_matching_if_none_match_is_refused(ada):
    etag = ada.get(ORDERS)["ETag"]
    problem(ada.patch(ORDERS, {"description": "new"}, If_Match=etag, If_None_Match=etag), 412)
    problem(ada.patch(ORDERS, {"description": "new"}, If_Match=etag, If_None_Match="*"), 412)
    assert (
        ada.patch(ORDERS, {"description": "new"}, If_Match=etag, If_None_Match='"other"').status_code == 200
    )


def test_other_errors_come_first(ada, by_session):
    assert get(ada, "/entities/dataset:sales.missing", "*").status_code == 404
    assert get(by_session(), ORDERS, "*").status_code == 401
    assert get(by_session("out"), "/users/ned", "*").status_code == 404


def test_every_operation_with_an_etag_documents_304(ada):
    paths = ada.get("/openapi.json").json()["paths"]
    documented = {
        path for path, methods in paths.items() if "304" in methods.get("get", {}).get("responses", {})
    }
    assert documented == {
        f"{ROOT}/entities/{{address}}",
        f"{ROOT}/users/{{name}}",
        f"{ROOT}/policies/active",
        f"{ROOT}/schedules/{{analysis}}",
    }
    for path in documented:
        operation = paths[path]["get"]
        assert (
            "content" not in operation["responses"]["304"]
            and "ETag" in operation["responses"]["304"]["headers"]
        )
        assert "If-None-Match" in {parameter["name"] for parameter in operation["parameters"]}
