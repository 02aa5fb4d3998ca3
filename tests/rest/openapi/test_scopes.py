"""The document states the scope that each operation needs, and this scope suffices."""

import json

from authzconsole.rest.urls import _ENDPOINTS
from tests.rest.conftest import Rest

METHODS = {"get", "post", "put", "patch", "delete"}


def test_every_operation_states_its_scope():
    document = json.loads(Rest().get("/openapi.json").content)
    assert "x-token-scope" not in json.dumps(document)
    scopes = {
        operation["operationId"]: [need["token"] for need in operation["security"] if "token" in need]
        for methods in document["paths"].values()
        for operation in methods.values()
        if operation["security"] != [{}]
    }
    assert scopes["grants_list"] == [["read"]] and scopes["grants_change"] == [["administer"]]
    assert scopes["decisions_ask"] == scopes["authzen_evaluation"] == [["decide"], ["self"]]
    assert scopes["access_requests_create"] == [["administer"], ["self"]]
    assert all(all(len(need) == 1 for need in needs) and needs for needs in scopes.values())


def test_the_scope_in_the_document_is_the_one_that_the_endpoint_checks():
    document = json.loads(Rest().get("/openapi.json").content)
    for endpoint in _ENDPOINTS:
        for method in METHODS:
            if operation := getattr(getattr(endpoint, method, None), "operation", None):
                (stated,) = [
                    stated
                    for methods in document["paths"].values()
                    for stated in methods.values()
                    if stated["operationId"] == operation.id
                ]
                scopes = endpoint.scopes_of(method.upper())
                assert stated["security"] == [*({"token": [scope]} for scope in scopes), {"session": []}]
                named = " or ".join(f"`{scope}`" for scope in scopes)
                assert stated["description"].endswith(f"Scope of the token: {named}.")
