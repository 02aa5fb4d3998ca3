"""The effect of a plan over REST: totals, rows as files, and the confirmation of permissions beyond its
purpose.
"""

import csv
import io
import json

import pytest

from entities.address import parse_address
from grants.models import Plan
from tests.rest.conftest import apply_plan, grant_item, problem
from tests.support.changes import add_user, change_grants, create_plan_from_changes
from tests.support.guardrails import add_guardrail

pytestmark = pytest.mark.django_db

ORDERS, SALES = "dataset:sales.orders", "namespace:sales"


@pytest.fixture
def plan(cast):
    return create_plan_from_changes(
        grant=[("user:out", ORDERS, "READ")], revoke=[("user:dee", ORDERS, "READ")]
    )


def body_of(response):
    return b"".join(response.streaming_content).decode()


def test_the_effect_has_totals_and_the_most_affected_users_entities_and_operations(ada, plan):
    effect = ada.get(f"/plans/{plan.pk}/effect").json()
    rows = [json.loads(line) for line in body_of(ada.get(f"/plans/{plan.pk}/effect/rows.jsonl")).splitlines()]
    for part, intended in (("for", True), ("beyond", False)):
        assert effect[part] == {
            "gained": sum(row["after"] and row["intended"] == intended for row in rows),
            "lost": sum(row["before"] and row["intended"] == intended for row in rows),
        }
    assert (
        effect["generation"] == "final"
        and effect["beyond"] == {"gained": 4, "lost": 0}
        and effect["for"]["lost"] > 0
    )
    assert [user["user"] for user in effect["users"]] == ["out", "dee"]
    assert {entity["entity"] for entity in effect["entities"]} == {ORDERS, SALES}
    assert {
        "kind": "dataset",
        "operation": "read",
        "for": {"gained": 1, "lost": 1},
        "beyond": {"gained": 0, "lost": 0},
    } in effect["operations"]


def test_rows_are_sorted_and_filtered_and_the_same_in_both_formats(ada, plan):
    path = f"/plans/{plan.pk}/effect/rows"
    rows = [json.loads(line) for line in body_of(ada.get(f"{path}.jsonl")).splitlines()]
    keys = [(row["user"], row["entity"], row["operation"]) for row in rows]
    assert keys == sorted(keys) and list(rows[0]) == [
        "user",
        "entity",
        "operation",
        "before",
        "after",
        "intended",
    ]
    table = list(csv.DictReader(io.StringIO(body_of(ada.get(f"{path}.csv")))))
    assert [(row["user"], row["entity"], row["operation"]) for row in table] == keys
    beyond = [
        json.loads(line)
        for line in body_of(ada.get(f"{path}.jsonl?purpose=beyond&entity=namespace")).splitlines()
    ]
    assert {(row["user"], row["operation"]) for row in beyond} == {
        ("out", operation) for operation in ("get", "get-preferences", "list", "search")
    }
    problem(ada.get(f"{path}.jsonl?purpose=good"), 400)


def test_the_effect_depends_on_the_generation(ada, plan):
    effect = ada.get(f"/plans/{plan.pk}/effect?generation=existing").json()
    assert effect["generation"] == "existing" and effect["beyond"] == {"gained": 0, "lost": 0}
    problem(ada.get(f"/plans/{plan.pk}/effect?generation=newest"), 400)


def test_permissions_beyond_the_purpose_must_be_confirmed(ada, plan):
    refused = problem(ada.post(f"/plans/{plan.pk}/apply", {"reason": "x"}), 409)
    assert (
        refused["type"].endswith("unconfirmed-effect")
        and "also gives 4 permissions as side effects" in refused["detail"]
    )
    assert Plan.objects.get(pk=plan.pk).is_proposed
    applied = apply_plan(ada, plan.pk).json()
    assert applied["effect"]["permissions"]["beyond"] == {"gained": 4, "lost": 0}
    assert ada.get(f"/plans/{plan.pk}/effect").json()["beyond"] == {"gained": 4, "lost": 0}


def test_an_applied_plan_keeps_its_effect_and_its_rows(ada, cast):
    # the journal has no lines about the users of the cast
    add_user("pat")
    plan = create_plan_from_changes(grant=[("user:pat", ORDERS, "READ")])
    path = f"/plans/{plan.pk}/effect"
    effect, rows = ada.get(path).json(), body_of(ada.get(f"{path}/rows.jsonl"))
    apply_plan(ada, plan.pk)
    change_grants(revoke=[("user:pat", ORDERS, "READ")])
    assert ada.get(path).json() == effect | {"digest": ""}
    assert body_of(ada.get(f"{path}/rows.jsonl")) == rows
    other = ada.get(f"{path}?generation=existing").json()
    assert other["generation"] == "existing" and other["beyond"] == {"gained": 0, "lost": 0}
    # plans of older versions have no revision
    Plan.objects.filter(pk=plan.pk).update(effect=plan.effect)
    assert body_of(ada.get(f"{path}/rows.jsonl")) == rows


def test_an_applied_plan_about_unknown_data_keeps_its_totals(ada, plan):
    apply_plan(ada, plan.pk)
    effect = ada.get(f"/plans/{plan.pk}/effect").json()
    assert effect["beyond"] == {"gained": 4, "lost": 0} and effect["users"] == []
    assert (
        "some data from that time is not known"
        in problem(ada.get(f"/plans/{plan.pk}/effect/rows.jsonl"), 409)["detail"]
    )


def test_a_discarded_plan_has_no_rows(ada, plan):
    ada.post(f"/plans/{plan.pk}/discard")
    problem(ada.get(f"/plans/{plan.pk}/effect/rows.jsonl"), 409)


def test_the_effect_counts_leftover_grants_and_the_access_that_ends(ada, by_token, cast):
    by_token("dee", "read")
    legacy = parse_address("dataset:sales.legacy")
    plan = create_plan_from_changes(
        grant=[("user:out", legacy, "READ"), ("user:ned", legacy, "READ")],
        revoke=[("user:dee", legacy, "WRITE")],
        deactivate=["dee"],
    )
    effect = ada.get(f"/plans/{plan.pk}/effect").json()
    assert (effect["leftover_created"], effect["leftover_removed"], effect["tokens_ended"]) == (2, 1, 1)
    apply_plan(ada, plan.pk)
    applied = ada.get(f"/plans/{plan.pk}/effect").json()
    assert {name: applied[name] for name in ("leftover_created", "leftover_removed", "tokens_ended")} == {
        "leftover_created": 2,
        "leftover_removed": 1,
        "tokens_ended": 1,
    }


def test_the_effect_names_the_guardrails_that_the_plan_violates_before_and_after_it_is_applied(
    ada, cast, settings
):
    warning = {"forbid": {"privileges": ["WRITE"], "within": SALES}, "level": "warn"}
    add_guardrail("no-writers", warning)
    plan = create_plan_from_changes(grant=[("user:out", ORDERS, "WRITE")])
    violation = f"guardrail no-writers is violated: user:out would hold WRITE on {ORDERS}"
    assert ada.get(f"/plans/{plan.pk}/effect").json()["guardrails"] == [violation]
    changes = {"changes": [["grant", "user:out", ORDERS, "WRITE"]]}
    assert ada.post("/effects", changes).json()["guardrails"] == [violation]
    item = {"grant": [grant_item("user:out", ORDERS, "WRITE")], "dry_run": True, "reason": "x"}
    assert ada.post("/grants", item).json()["effect"]["guardrails"] == [violation]
    settings.APPLY_MAX_CHANGES = 0
    # a job makes and checks the changes of a large plan
    assert ada.get(f"/plans/{plan.pk}/effect").json()["guardrails"] is None
    settings.APPLY_MAX_CHANGES = 10
    apply_plan(ada, plan.pk)
    assert ada.get(f"/plans/{plan.pk}/effect").json()["guardrails"] == [violation]
    assert ada.post("/effects", changes).json()["guardrails"] == []


def test_an_effect_that_changed_since_it_was_read_is_not_applied(ada, plan):
    digest = ada.get(f"/plans/{plan.pk}/effect").json()["digest"]
    # does not make the plan stale, but its user can see the namespace already
    change_grants(grant=[("user:out", "dataset:sales.customers", "READ")])
    body = {"reason": "x", "confirm_beyond": True, "effect": digest}
    refused = problem(ada.post(f"/plans/{plan.pk}/apply", body), 409)
    assert refused["type"].endswith("effect-changed") and Plan.objects.get(pk=plan.pk).is_proposed


def test_an_effect_above_the_limit_is_a_conflict_and_needs_a_confirmation(ada, settings, plan):
    settings.EFFECT_MAX_GRANTS = 0
    refused = problem(ada.get(f"/plans/{plan.pk}/effect"), 409)
    assert refused["type"].endswith("effect-too-large") and "EFFECT_MAX_GRANTS" in refused["detail"]
    problem(ada.post(f"/plans/{plan.pk}/apply", {"reason": "x"}), 409)
    assert apply_plan(ada, plan.pk).status_code == 200
