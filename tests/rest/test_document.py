"""The OpenAPI document is valid and complete, and its operation ids are stable."""

import json
import re
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import connection, transaction
from django.test import Client
from django.urls import get_resolver
from jsonschema import Draft202012Validator

from authzconsole.api.endpoint import PATHS
from authzconsole.api.urls import urlpatterns as api_urls
from authzconsole.management.commands.bootstrap import DEMO_TENANT
from authzconsole.rest.grants import MAX_ITEMS
from grants.policies.catalogue import GENERATIONS
from grants.principals.services import add_role
from tests.rest.conftest import Rest
from tests.support.authors import COMMAND
from tests.support.cast import create_sample_tenant
from tests.support.changes import add_user, bearer

OPERATION_IDS = Path(__file__).parent.parent / "cases" / "rest_operations.txt"


@pytest.fixture(scope="module")
def document():
    return json.loads(Rest().get("/openapi.json").content)


def operations(document):
    return [
        (path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def test_the_document_is_valid_openapi_3_1(document, tmp_path):
    call_command(
        "spectacular",
        validate=True,
        fail_on_warn=True,
        format="openapi-json",
        file=str(tmp_path / "document.json"),
    )
    assert document["openapi"] == "3.1.0"
    assert json.loads((tmp_path / "document.json").read_text()) == document


def test_every_operation_has_a_description_an_example_and_its_error_responses(document):
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
            if status[0] in "45" and path.startswith("/api/"):
                assert list(answer["content"]) == ["application/problem+json"], where


def test_operation_ids_do_not_change(document):
    """Generated clients depend on them. A new operation adds a line to the file."""
    ids = sorted(operation["operationId"] for _, _, operation in operations(document))
    assert len(ids) == len(set(ids))
    assert ids == OPERATION_IDS.read_text().split()


def test_the_document_contains_every_path_of_the_rest_api_and_of_authzen(document):
    from authzconsole.rest.urls import urlpatterns

    served = {re.sub(r"<\w+:(\w+)>", r"{\1}", str(pattern.pattern)) for pattern in urlpatterns}
    written = {path.removeprefix("/api/v1/") for path in document["paths"]}
    assert served - written == {"openapi.json", "docs", "redoc", ""}
    requests = {re.sub(r"<\w+:(\w+)>", r"{\1}", str(pattern.pattern)) for pattern in api_urls}
    assert {f"/{path}" for path in requests if path.startswith("access/")} <= document["paths"].keys()
    assert get_resolver().resolve("/api/v1/entities").func.view_class.__name__ == "EntityList"


def test_the_api_root_redirects_to_the_documentation(client):
    answer = client.get("/api/v1", follow=True)
    assert [url for url, _ in answer.redirect_chain] == [
        "/api/v1/",
        "/api/v1/docs",
    ] and answer.status_code == 200
    response = Client(enforce_csrf_checks=True).post("/api/v1/", {})
    assert response.status_code == 404 and response["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize("page", ["docs", "redoc"])
def test_the_documentation_pages_load_nothing_from_other_hosts(page):
    answer = Rest().get(f"/{page}")
    policy = dict(part.strip().split(" ", 1) for part in answer["Content-Security-Policy"].split(";"))
    assert answer.status_code == 200 and policy["script-src"] == policy["connect-src"] == "'self'"
    assert "unsafe-eval" not in str(policy) and b"//" not in answer.content.replace(b"<!DOCTYPE", b"")
    assert b"<script>" not in answer.content


def test_only_the_documentation_pages_allow_inline_styles():
    assert "unsafe-inline" in Rest().get("/docs")["Content-Security-Policy"]
    assert "unsafe-inline" not in Rest().get("/openapi.json")["Content-Security-Policy"]


def examples(operation):
    for content in operation.get("requestBody", {}).get("content", {}).values():
        yield from (example["value"] for example in content["examples"].values())


def test_the_context_schema_has_the_generations(document):
    members = document["components"]["schemas"]["AuthzenEvaluation"]["properties"]["context"]["properties"]
    assert members["generation"]["enum"] == list(GENERATIONS) and members["explain"]["type"] == "boolean"


def test_each_authzen_error_has_a_matching_example(document, client):
    for path in map("/{}".format, PATHS.values()):
        operation = document["paths"][path]["post"]
        response = {
            status: answer["content"]["application/json"]["examples"]["Refusal"]["value"]
            for status, answer in operation["responses"].items()
            if status != "200"
        }
        assert set(response) == {"400", "401", "403", "405", "413", "429", "503"} and len(
            set(response.values())
        ) == len(response)
        answer = client.get(path)
        assert (answer.status_code, answer.json()) == (405, response["405"])
        assert "Allow" in operation["responses"]["405"]["headers"] and answer["Allow"] == "POST"
    metadata = document["paths"]["/.well-known/authzen-configuration"]["get"]["responses"]["405"]
    refused = client.post("/.well-known/authzen-configuration").json()
    assert metadata["content"]["application/json"]["examples"]["Refusal"]["value"] == refused


def test_the_examples_of_access_requests_are_what_the_endpoints_answer(document, db):
    create_sample_tenant()
    client, headers = Client(), bearer("out", "self")
    path = "/access/v1/requests"
    submit, status, cancel = (
        document["paths"][f"{path}{rest}"] for rest in ("", "/{task}", "/{task}/cancel")
    )
    (example,) = examples(submit["post"])
    body = example | {"subject": {"type": "user", "id": "out"}}

    def conforms(answer, operation) -> dict:
        content = operation["responses"][str(answer.status_code)]["content"][answer["Content-Type"]]
        Draft202012Validator(content["schema"] | {"components": document["components"]}).validate(
            answer.json()
        )
        return answer.json()

    created = client.post(path, body, content_type="application/json", headers=headers)
    assert conforms(created, submit["post"]) and created.status_code == 202
    duplicate = client.post(path, body, content_type="application/json", headers=headers)
    assert conforms(duplicate, submit["post"])["type"].endswith(":duplicate_request")
    url = created["Location"].removeprefix("http://127.0.0.1:8000")
    assert conforms(client.get(url, headers=headers), status["get"])["task"]["status"] == "pending"
    assert conforms(client.get(f"{path}/arq_99", headers=headers), status["get"])["status"] == 404
    for state in (200, 409):
        (example,) = examples(cancel["post"])
        answer = client.post(f"{url}/cancel", example, content_type="application/json", headers=headers)
        assert conforms(answer, cancel["post"]) and answer.status_code == state
    assert (
        client.get(path, headers=headers).status_code == client.post(url, headers=headers).status_code == 405
    )


def test_every_response_documents_the_request_id(document):
    for path, method, operation in operations(document):
        for status, answer in operation["responses"].items():
            assert "X-Request-ID" in answer["headers"], f"{method} {path} {status}"


def test_lists_with_a_limit_document_it(document):
    for name in ("ChangeSet", "MakePlan"):
        properties = document["components"]["schemas"][name]["properties"]
        assert properties["grant"]["maxItems"] == properties["revoke"]["maxItems"] == MAX_ITEMS


def test_parameters_with_fixed_values_document_them(document):
    for path, name in (
        ("/plans", "origin"),
        ("/runs", "analysis"),
        ("/journal", "action"),
        ("/policies/{generation}", "operation"),
    ):
        (parameter,) = [
            item for item in document["paths"][f"/api/v1{path}"]["get"]["parameters"] if item["name"] == name
        ]
        assert len(parameter["schema"]["enum"]) > 4


def test_the_description_states_that_authzen_errors_are_strings(document):
    assert "errors of /access/v1 are one JSON string" in document["info"]["description"]


# these need a finished run or a running worker
NEEDS_A_RUN = {
    "plans_keep",
    "plans_replace_by_groups",
    "plans_narrow_patterns",
    "runs_start",
    "finding_rules_create",
}
# the demo tenant has no redundant grants in the namespace of the example, no records of use, and not the unusual privilege
NEEDS_GRANTS = {"plans_remove_redundant", "plans_remove_unused", "plans_remove_outliers"}
# a scheduled activation needs a time in the future
NEEDS_A_TIME = {"policies_scheduled_create"}
# a token cannot start break-glass access
NEEDS_A_SESSION = {"break_glass_start"}
NOT_TRIED = NEEDS_A_RUN | NEEDS_GRANTS | NEEDS_A_TIME | NEEDS_A_SESSION


@pytest.mark.django_db
def test_the_examples_of_the_document_succeed_in_the_demo_tenant(document):
    call_command("import_tenant", str(DEMO_TENANT), stdout=StringIO())
    with connection.cursor() as cursor:
        # The statistics are those of the rolled-back rows of other tests. With them, PostgreSQL needs more
        # than a minute.
        cursor.execute("ANALYZE")
    add_user("admin", role="administrator", is_principal=False)
    add_role(author=COMMAND, name="data-owners")
    client, tried = Client(headers=bearer("admin", "decide", "read", "administer")), 0
    for path, method, operation in operations(document):
        if "{" in path or operation["operationId"] in NOT_TRIED:
            continue
        for body in examples(operation):
            with transaction.atomic():
                answer = getattr(client, method)(
                    path, json.dumps(body), content_type="application/json", headers={"If-Match": "*"}
                )
                assert answer.status_code in (200, 201, 202), (operation["operationId"], answer.content)
                transaction.set_rollback(True)
            tried += 1
        if operation["operationId"].startswith("authzen_eval"):
            (example,) = operation["responses"]["200"]["content"]["application/json"]["examples"].values()
            assert answer.json() == example["value"]
    assert tried > 15
