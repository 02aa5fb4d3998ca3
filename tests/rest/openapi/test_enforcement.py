"""The constraints of the OpenAPI document are those that the endpoints enforce."""

import copy
import json
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from authzconsole.common.request_body import MAX_BODY_BYTES, MAX_DOCUMENT_CHARACTERS, MAX_IMPORT_BYTES
from authzconsole.models import Connection, Finding, Severity, Webhook
from authzconsole.rest.openapi import document
from grants.models import AccessRequest, BreakGlassUse, Plan
from grants.models.reviews import Campaign, CampaignState
from tests.support.authors import account
from tests.support.cast import create_sample_tenant
from tests.support.changes import bearer, create_plan_from_changes

DOCUMENT = document()
SCHEMAS = DOCUMENT["components"]["schemas"]
WRONG_TYPES = {"string": 7, "integer": "7", "boolean": "true", "array": "x", "object": []}
# a body of this length is refused as a whole
REFUSED = {400, 413}
# AuthZEN requires that unknown members are ignored
LENIENT = ("Authzen", "Action", "Context", "Decisions", "Evaluation", "Options", "Resource", "Subject")
# members of the context that the operation of the example does not use have no effect
UNUSED = ("context: artifact", "context: dataset_type", "context: owner")
IN_PATH = {"address": "dataset:sales.orders", "name": "ned", "analysis": "visibility", "generation": "final"}


def operations():
    for path, methods in DOCUMENT["paths"].items():
        yield from ((path, method, operation) for method, operation in methods.items())


def request_schemas():
    """Return the names of the schemas of request bodies, and of the schemas inside them."""
    names, found = (
        set(),
        [operation["requestBody"] for _, _, operation in operations() if "requestBody" in operation],
    )
    while found:
        new = {name for name in references(found) if name not in names}
        names |= new
        found = [SCHEMAS[name] for name in new]
    return names


def references(value):
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"].rpartition("/")[2]
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from references(item)


def resolve_references(schema):
    """Return the schema with its references replaced."""
    for part in (*schema.get("allOf", []), schema):
        if "$ref" in part:
            schema = {**schema, **SCHEMAS[part["$ref"].rpartition("/")[2]]}
    return schema


def test_every_request_schema_and_its_members_are_described_for_readers():
    names = request_schemas()
    assert len(names) > 25
    for name in names:
        schema = SCHEMAS[name]
        if "enum" in schema:
            continue
        description = schema.get("description", "")
        assert description and "Serializer" not in description and "Unknown members" not in description, name
        assert schema.get("additionalProperties") is False or name.startswith(LENIENT), name
        for member, part in schema["properties"].items():
            part = resolve_references(part)
            described = part.get("description") or part.get("items") or part.get("properties")
            assert described or part.get("enum") or name.startswith("Authzen"), f"{name}.{member}"


def test_required_headers_are_required_where_a_request_without_them_is_refused():
    conditional = {
        (path, method): parameter.get("required", False)
        for path, method, operation in operations()
        for parameter in operation.get("parameters", [])
        if parameter["name"] == "If-Match"
    }
    assert {key for key, is_required in conditional.items() if is_required} == {
        key for key in conditional if "428" in DOCUMENT["paths"][key[0]][key[1]]["responses"]
    }
    assert len(conditional) >= 5


@pytest.fixture
def send(db):
    """Send a request of an administrator. The path parameters name resources that exist."""
    create_sample_tenant()
    create_plan_from_changes(grant=[("user:out", "namespace:sales", "READ")])
    client = Client(headers=bearer("ada", "decide", "read", "administer"))
    number, now = Plan.objects.latest("pk").pk, timezone.now()
    Webhook.objects.create(pk=number, url="https://example.com/hook", nonce="x", created_by="ada")
    Connection.objects.create(name="ned", type="hive", url="thrift://metastore.example")
    AccessRequest.objects.create(
        pk=number,
        subject_name="ned",
        created_by="ned",
        creator=account("ned"),
        created_at=now,
        expires_at=now + timedelta(days=1),
    )
    BreakGlassUse.objects.create(pk=number, account_name="ned", started_at=now, ends_at=now, first_revision=1)
    Campaign.objects.create(
        pk=number, title="x", state=CampaignState.OPEN, deadline=now + timedelta(days=1), created_by="ada"
    )
    Finding.objects.create(pk=number, kind="no-backup", severity=Severity.WARNING, since=now)
    in_path = IN_PATH | {"number": str(number)}

    def send_request(path, method, *, body=None, query=None, **headers):
        url = path.format_map(in_path)
        data = json.dumps(body) if body is not None else query
        options = {"content_type": "application/json"} if body is not None or method == "post" else {}
        return getattr(client, method)(url, data, headers={"If-Match": "*"} | headers, **options)

    return send_request


def invalid_values(schema):
    """Yield a value that breaks each constraint of a schema, with the name of the constraint."""
    schema = resolve_references(schema)
    if isinstance(schema.get("type"), list):
        (not_null,) = (name for name in schema["type"] if name != "null")
        schema = schema | {"type": not_null}
    if schema.get("type") in WRONG_TYPES:
        yield "type", WRONG_TYPES[schema["type"]]
    if "maxLength" in schema:
        yield "maxLength", "x" * (schema["maxLength"] + 1)
    if schema.get("minLength"):
        yield "minLength", ""
    if "pattern" in schema:
        yield "pattern", "\x01"
    if "enum" in schema:
        yield "enum", "no such value"
    if "maximum" in schema:
        yield "maximum", schema["maximum"] + 1
    if "minimum" in schema:
        yield "minimum", schema["minimum"] - 1
    if schema.get("minItems"):
        yield "minItems", []
    if "maxItems" in schema:
        yield "maxItems", [{}] * (schema["maxItems"] + 1)
    if "items" in schema:
        for constraint, value in invalid_values(schema["items"]):
            yield f"items.{constraint}", [value]
    for name, part in schema.get("properties", {}).items() if schema.get("type") == "object" else ():
        for constraint, value in invalid_values(part):
            yield f"{name}.{constraint}", {name: value}


def invalid_bodies(schema, example):
    for name, part in schema["properties"].items():
        for constraint, value in invalid_values(part):
            yield f"{name}: {constraint}", {**example, name: value}
    for name in schema.get("required", []):
        yield f"{name}: required", {key: value for key, value in example.items() if key != name}
    if schema.get("additionalProperties") is False:
        yield "additionalProperties", {**example, "no_such_member": 1}


def test_every_documented_constraint_of_a_body_is_enforced(send):
    count, faults = 0, []
    for path, method, operation in operations():
        # a batch reports the fault of an item in its place, and an action search ignores the action
        if "requestBody" not in operation or operation["operationId"] in (
            "decisions_ask",
            "authzen_evaluations",
        ):
            continue
        (content,) = operation["requestBody"]["content"].values()
        schema, (example,) = resolve_references(content["schema"]), content["examples"].values()
        for constraint, body in invalid_bodies(schema, copy.deepcopy(example["value"])):
            if constraint.startswith(UNUSED):
                continue
            answer = send(path, method, body=body)
            if answer.status_code not in REFUSED:
                faults.append((path, constraint, answer.status_code))
            count += 1
    assert not faults
    assert count > 200


@pytest.mark.parametrize("path", ["/api/v1/decisions", "/access/v1/evaluations"])
def test_a_batch_has_the_documented_maximum(send, path):
    schema = resolve_references(
        DOCUMENT["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    )
    count = schema["properties"]["evaluations"]["maxItems"]
    assert send(path, "post", body={"evaluations": [{}] * count}).status_code == 200
    assert send(path, "post", body={"evaluations": [{}] * (count + 1)}).status_code == 400


def test_every_documented_constraint_of_a_parameter_is_enforced(send):
    count, faults = 0, []
    for path, method, operation in operations():
        if "tables" in path or path.startswith("/api/v1/runs/"):
            # these need a finished run
            continue
        parameters = [
            parameter for parameter in operation.get("parameters", []) if parameter["in"] == "query"
        ]
        valid = {parameter["name"]: "x" for parameter in parameters if parameter.get("required")}
        for parameter in parameters:
            for constraint, value in invalid_values(parameter["schema"]):
                if constraint == "type" and parameter["schema"]["type"] == "string":
                    continue
                query = valid | {parameter["name"]: "no" if constraint == "type" else str(value)}
                url = path if method == "get" else f"{path}?{parameter['name']}={query[parameter['name']]}"
                answer = send(url, method, query=query if method == "get" else None)
                if answer.status_code != 400:
                    faults.append((url, parameter["name"], constraint, answer.status_code))
                count += 1
    assert not faults
    assert count > 60


def test_a_missing_if_match_is_refused_where_it_is_required(send):
    for path, method, operation in operations():
        if any(
            parameter["name"] == "If-Match" and parameter.get("required")
            for parameter in operation.get("parameters", [])
        ):
            (content,) = operation["requestBody"]["content"].values()
            (example,) = content["examples"].values()
            answer = send(path, method, body=example["value"], **{"If-Match": '"other"'})
            assert answer.status_code == 412, path


def test_an_import_accepts_the_longest_document_that_its_schema_allows(send):
    assert SCHEMAS["ChangeFile"]["properties"]["document"]["maxLength"] == MAX_DOCUMENT_CHARACTERS
    line = "grant,user:out,namespace:sales,READ\n"
    for padding in ("x", "é", "\U0001f600"):
        text = f"verb,principal,entity,privilege\n{line}#"
        longest = text + padding * (MAX_DOCUMENT_CHARACTERS - len(text))
        body = {"document": longest, "title": padding * 300}
        assert MAX_BODY_BYTES < len(json.dumps(body)) <= MAX_IMPORT_BYTES
        answer = send("/api/v1/plans/import", "post", body=body)
        # the last line is no change; the document as a whole is read
        assert answer.status_code == 400 and answer.json()["errors"][0]["index"] == 3, answer.content[:300]
    complete = "verb,principal,entity,privilege\n" + line * ((MAX_DOCUMENT_CHARACTERS - 40) // len(line))
    assert len(complete) > MAX_DOCUMENT_CHARACTERS - 100
    assert send("/api/v1/plans/import", "post", body={"document": complete}).status_code == 201
    assert (
        send(
            "/api/v1/plans/import", "post", body={"document": "x" * (MAX_DOCUMENT_CHARACTERS + 1)}
        ).status_code
        == 400
    )
    assert send("/api/v1/plans/import", "post", body={"document": "x" * MAX_IMPORT_BYTES}).status_code == 413
    assert send("/api/v1/plans", "post", body={"title": "x" * MAX_BODY_BYTES}).status_code == 413
