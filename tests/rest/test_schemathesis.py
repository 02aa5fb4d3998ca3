"""Generate valid and invalid requests from the OpenAPI document: none fails, and every response is
documented.
"""

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from jsonschema import Draft202012Validator
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi import checks

from analytics.models import AnalysisRun
from authzconsole.wsgi import application
from grants.models import Plan
from tests.support.cast import create_sample_tenant
from tests.support.changes import bearer, create_plan_from_changes

pytestmark = [pytest.mark.django_db, pytest.mark.slow]


def check_server_error(ctx, response, case):
    """Refuse status 5xx, except of /readyz, which answers 503 because the test runs without Redis and
    workers.
    """
    if case.path == "/readyz" and response.status_code == 503:
        return None
    return not_a_server_error(ctx, response, case)


CHECKS = [
    check_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]
# AuthZEN requires that unknown members are ignored
LENIENT = {"Decisions", "AuthZEN Authorization API 1.0"}
# requests of each operation and mode
EXAMPLES = 10
TOO_LONG = 413


@pytest.fixture(autouse=True)
def open_connection(db):
    """Keep the database connection open after a request, because it holds the transaction with the test data."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@pytest.fixture
def authorization(db, monkeypatch):
    monkeypatch.setattr("analytics.runs.selectors.redis_problem", lambda: "Redis does not answer")
    create_sample_tenant()
    AnalysisRun.objects.create(type="delete-readiness", options={})
    create_plan_from_changes(grant=[("user:out", "dataset:sales.orders", "READ")])
    return bearer("ada", "decide", "read", "administer")


def test_no_generated_request_fails_and_every_response_is_documented(authorization):
    schema = schemathesis.openapi.from_wsgi("/api/v1/openapi.json", application)
    faults, called = [], 0
    for operation in (result.ok() for result in schema.get_all_operations()):
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            sent = []
            try:
                _call_all(schema.raw_schema, operation, mode, authorization, sent)
            except (Failure, FailureGroup) as failure:
                faults.append(
                    f"{operation.label}, {mode.value}: {_failure_text(failure)}\nsent: {_body_text(sent[-1])}"
                )
            called += len(sent)
    assert not faults, "\n\n".join(faults)
    assert called > 33 * EXAMPLES


def _conforms(document: dict, request_body: dict, body: object) -> bool:
    body_schema = request_body["content"]["application/json"]["schema"]
    return Draft202012Validator(body_schema | {"components": document["components"]}).is_valid(body)


def _rejection_check(document: dict):
    """Return a check that invalid requests are refused. It accepts requests that are valid after all (such as
    an invalid item schema with an empty list), and status 413, which Schemathesis does not count as a
    refusal."""

    def check(ctx, response, case):
        if response.status_code == TOO_LONG:
            return None
        try:
            return checks.negative_data_rejection(ctx, response, case)
        except Failure as failure:
            request_body = case.operation.definition.raw.get("requestBody")
            if "in body" in f"{failure}" and request_body and _conforms(document, request_body, case.body):
                return None
            raise

    return check


def _call_all(document, operation, mode, authorization, sent: list):
    """Call an operation with generated cases. sent: receives each request; the failed request is the last."""
    strict = mode == GenerationMode.NEGATIVE and LENIENT.isdisjoint(operation.tags)

    @seed(1)
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode), is_known=st.booleans())
    def call(case, is_known):
        if is_known and mode == GenerationMode.POSITIVE:
            _use_existing_names(case)
        sent.append(case)
        case.call_and_validate(
            headers=authorization, checks=[*CHECKS, *([_rejection_check(document)] if strict else [])]
        )

    try:
        call()
    except Unsatisfiable:
        # an operation without parameters has no invalid requests
        assert mode == GenerationMode.NEGATIVE


def _use_existing_names(case):
    """Use addresses and names of the test tenant, because generated ones never exist."""
    name = "operators" if "/groups" in case.path else "ned"
    known = {
        "address": "dataset:sales.orders",
        "entity": "dataset:sales.orders",
        "principal": "user:ned",
        "user": "ned",
        "group": "operators",
        "name": name,
        "number": AnalysisRun.objects.earliest("pk").pk,
        "table": "rows",
        "generation": "final",
        "analysis": "visibility",
        "creator": "dee",
    }
    if "/plans" in case.path or "/forecasts" in case.path:
        known |= {
            "number": Plan.objects.latest("pk").pk,
            "namespace": "namespace:sales",
            "source": "user:ned",
            "target": "user:dee",
        }
    for part in (case.path_parameters, case.query, case.body):
        if isinstance(part, dict) or hasattr(part, "keys"):
            for member in set(part) & set(known):
                part[member] = known[member]
    if isinstance(case.body, dict):
        case.body.pop("base_revision", None)
        for item in [*case.body.get("grant", []), *case.body.get("revoke", [])]:
            item.update(principal="user:ned", entity="dataset:sales.orders")
    case.headers["If-Match"] = "*"


def _failure_text(failure) -> str:
    parts = getattr(failure, "exceptions", [failure])
    return "; ".join(
        f"{part}"[:600] + f" (answered {getattr(part, 'status_code', 'otherwise')})" for part in parts
    )


def _body_text(case) -> str:
    body = repr(case.body)
    return f"{body[:1_000]} ({len(body):,} characters)"
