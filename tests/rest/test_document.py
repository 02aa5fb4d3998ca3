"""The OpenAPI document: valid, complete, and the same names tomorrow."""

import json
from pathlib import Path

import pytest
from django.core.management import call_command
from django.urls import get_resolver

from tests.rest.conftest import Rest

OPERATION_IDS = Path(__file__).parent.parent / "cases" / "rest_operations.txt"


@pytest.fixture(scope="module")
def document():
    return json.loads(Rest().get("/openapi.json").content)


def operations(document):
    return [(path, method, operation) for path, methods in document["paths"].items() for method, operation in methods.items()]


def test_it_is_openapi_3_1_and_valid(document, tmp_path):
    call_command("spectacular", validate=True, fail_on_warn=True, format="openapi-json", file=str(tmp_path / "document.json"))
    assert document["openapi"] == "3.1.0"
    assert json.loads((tmp_path / "document.json").read_text()) == document


def test_every_operation_says_what_it_is_with_an_example_and_its_refusals(document):
    for path, method, operation in operations(document):
        where = f"{method} {path}"
        assert operation["summary"] and operation["description"] and operation["tags"], where
        for content in operation.get("requestBody", {}).get("content", {}).values():
            assert content.get("examples"), f"{where}: no example of a request"
        answers = operation["responses"]
        good = [answer for status, answer in answers.items() if status.startswith("2")]
        contents = [content for answer in good for content in answer["content"].values()]
        is_file = any(content["schema"].get("format") == "binary" for content in contents)
        assert is_file or any("examples" in content for content in contents), where
        if operation["security"] != [{}]:
            assert {"401", "403"} <= answers.keys(), where
        for status, answer in answers.items():
            if not status.startswith("2") and path.startswith("/api/"):
                assert list(answer["content"]) == ["application/problem+json"], where


def test_operation_ids_stay_as_they_are(document):
    """Clients are generated from them. A new operation adds a line to the file."""
    ids = sorted(operation["operationId"] for _, _, operation in operations(document))
    assert len(ids) == len(set(ids))
    assert ids == OPERATION_IDS.read_text().split()


def test_every_path_of_the_api_and_of_authzen_is_in_it(document):
    from authzconsole.api.metadata import PATHS
    from authzconsole.rest.urls import urlpatterns

    served = {str(pattern.pattern) for pattern in urlpatterns}
    written = {path.removeprefix("/api/v1/").replace("{address}", "<path:address>").replace("{name}", "<path:name>")
               .replace("{number}", "<int:number>").replace("{table}", "<slug:table>")
               .replace("{generation}", "<slug:generation>").replace("{analysis}", "<slug:analysis>")
               for path in document["paths"]}
    assert served - written == {"openapi.json", "docs", "redoc", ""}
    assert {f"/{path}" for path in PATHS.values()} <= document["paths"].keys()
    assert get_resolver().resolve("/api/v1/entities").func.view_class.__name__ == "Entities"


def test_a_strict_body_is_said_to_be_strict(document):
    schemas = document["components"]["schemas"]
    for name in ("ChangeSet", "ChangeItem", "Register", "Describe", "NewUser", "UserChange", "Activate", "Start", "MakePlan",
                 "Copy", "CloseGap", "Keep", "Apply", "Discard"):
        assert schemas[name]["additionalProperties"] is False, name


@pytest.mark.parametrize("page", ["docs", "redoc"])
def test_the_pages_for_people_take_nothing_from_elsewhere(page):
    answer = Rest().get(f"/{page}")
    policy = dict(part.strip().split(" ", 1) for part in answer["Content-Security-Policy"].split(";"))
    assert answer.status_code == 200 and policy["script-src"] == policy["connect-src"] == "'self'"
    assert "unsafe-eval" not in str(policy) and b"//" not in answer.content.replace(b"<!DOCTYPE", b"")
    assert b"<script>" not in answer.content


def test_only_those_two_pages_allow_styles_in_the_page():
    assert "unsafe-inline" in Rest().get("/docs")["Content-Security-Policy"]
    assert "unsafe-inline" not in Rest().get("/openapi.json")["Content-Security-Policy"]
