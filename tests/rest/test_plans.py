"""Plans and the deletion forecast over REST: create, read, apply, renew and undo plans, each by permitted
callers only.
"""

import pytest

from entities.address import parse_address
from entities.services import ensure_entities
from grants.evaluation.engine import check
from grants.journal import current_revision
from grants.models import Plan
from grants.policies.question import Question
from tests.rest.conftest import apply_plan, grant_item, problem
from tests.support.authors import all_grants, database_state
from tests.support.changes import change_grants, create_plan_from_changes
from tests.support.reports import create_report

pytestmark = pytest.mark.django_db

ORDERS = "dataset:sales.orders"
ITEMS = {
    "grant": [grant_item("user:out", ORDERS, "READ", "WRITE")],
    "revoke": [grant_item("user:ned", ORDERS, "ADMIN")],
}
READ_PATHS = ["", "/items", "/principals", "/effect", "/effect/rows.jsonl", "/effect/rows.csv"]
CHANGE_PATHS = {"/apply": {"reason": "because"}, "/discard": {}, "/inverse": None, "/renewal": None}


@pytest.fixture
def plan(cast):
    return create_plan_from_changes(
        grant=[("user:out", ORDERS, "READ"), ("user:dee", ORDERS, "READ")],
        revoke=[("user:ned", ORDERS, "ADMIN")],
    )


@pytest.mark.parametrize("rest", READ_PATHS)
def test_only_administrators_and_auditors_read_plans(by_session, plan, rest):
    path = f"/plans/{plan.pk}{rest}"
    assert [by_session(name).get(path).status_code for name in ("ada", "aud", "ned", "out", "")] == [
        200,
        200,
        403,
        403,
        401,
    ]
    for number in (0, plan.pk + 1, 10**30):
        problem(by_session("aud").get(f"/plans/{number}{rest}"), 404)
        problem(by_session("ned").get(f"/plans/{number}{rest}"), 403)


@pytest.mark.parametrize("verb", CHANGE_PATHS)
def test_only_administrators_apply_discard_undo_and_renew_plans(by_session, by_token, plan, verb):
    before = all_grants()
    for name in ("aud", "ned", "out"):
        problem(by_session(name).post(f"/plans/{plan.pk}{verb}", CHANGE_PATHS[verb]), 403)
    problem(by_token("ada", "read", "decide").post(f"/plans/{plan.pk}{verb}", CHANGE_PATHS[verb]), 403)
    assert all_grants() == before and Plan.objects.get(pk=plan.pk).is_proposed
    problem(by_session("ada").post(f"/plans/{plan.pk + 1}{verb}", CHANGE_PATHS[verb]), 404)


def test_a_plan_from_a_change_set_is_applied_and_undone(ada, settings):
    before = all_grants()
    created = ada.post("/plans", ITEMS | {"title": "Orders to out"})
    assert created.status_code == 201 and created["Location"] == f"/api/v1/plans/{created.json()['number']}"
    path = created["Location"].removeprefix("/api/v1")
    assert all_grants() == before and created.json()["title"] == "Orders to out"
    assert created.json()["effect"] == {
        "groups": 0,
        "grants": 2,
        "revokes": 1,
        "already": 0,
        "principals": 2,
        "planned": 0,
        "stranded_none": 1,
        "stranded_one": 0,
        "joins": 0,
        "leaves": 0,
        "activations": 0,
        "deactivations": 0,
        "removals": 0,
        "users": 0,
        "registrations": 0,
        "recreations": 0,
        "deletions": 0,
        "periods_removed": 0,
    }
    detail = ada.get(path).json()
    assert (detail["state"], detail["stale"], detail["stranded"]) == (
        "proposed",
        "",
        [{"entity": ORDERS, "admins": 0}],
    )
    assert [(i["verb"], i["privilege"]) for i in ada.all_of(f"{path}/items", limit=2)] == [
        ("grant", "READ"),
        ("grant", "WRITE"),
        ("revoke", "ADMIN"),
    ]
    assert [(p["principal"], p["gains"], p["losses"]) for p in ada.all_of(f"{path}/principals", limit=1)] == [
        ("user:ned", [], [{"privilege": "ADMIN", "kind": "dataset", "entities": 1}]),
        (
            "user:out",
            [
                {"privilege": "READ", "kind": "dataset", "entities": 1},
                {"privilege": "WRITE", "kind": "dataset", "entities": 1},
            ],
            [],
        ),
    ]
    problem(ada.post(f"{path}/apply"), 400)
    problem(ada.post(f"{path}/inverse"), 409)
    # also a plan that a page applies with a job
    settings.APPLY_MAX_CHANGES = 1
    applied = ada.post(f"{path}/apply", {"reason": "quarterly close", "confirm_beyond": True}).json()
    assert (applied["state"], applied["decided_by"], applied["reason"]) == (
        "applied",
        "ada",
        "quarterly close",
    )
    assert ("user:out", ORDERS, "WRITE") in all_grants()
    for verb, body in (("apply", {"reason": "x"}), ("discard", {})):
        assert "was already applied" in problem(ada.post(f"{path}/{verb}", body), 409)["detail"]
    inverse = ada.post(f"{path}/inverse")
    assert inverse.status_code == 201 and inverse.json()["inverse_of"] == created.json()["number"]
    assert apply_plan(ada, inverse.json()["number"], "back").status_code == 200
    assert all_grants() == before
    listed = ada.get("/plans", state="applied", origin="inverse").json()["items"]
    assert [plan["number"] for plan in listed] == [inverse.json()["number"]]


def test_a_stale_plan_is_a_conflict_and_can_be_renewed(ada, plan):
    change_grants(grant=[("user:grp", ORDERS, "READ")])
    before = database_state()
    refused = problem(apply_plan(ada, plan.pk), 409)
    assert refused["type"].endswith(":stale-base") and refused["base_revision"] == plan.base_revision
    assert "renew the plan" in refused["detail"] and database_state() == before
    assert ada.get(f"/plans/{plan.pk}").json()["stale"].startswith("revision ")
    renewed = ada.post(f"/plans/{plan.pk}/renewal").json()
    assert renewed["renewal_of"] == plan.pk and ada.get(f"/plans/{plan.pk}").json()["state"] == "discarded"
    assert apply_plan(ada, renewed["number"]).status_code == 200


def test_all_errors_of_a_change_set_are_reported_and_no_plan_is_created(ada):
    bad = {
        "grant": [
            *ITEMS["grant"],
            grant_item("user:nobody"),
            grant_item("user:out", "dataset:x"),
        ]
    }
    errors = problem(ada.post("/plans", bad), 400)["errors"]
    assert [(error["list"], error["index"]) for error in errors] == [("grant", 1), ("grant", 2)]
    problem(ada.post("/plans", {}), 400)
    assert not Plan.objects.exists()


def test_missing_grants_are_granted_through_a_plan(ada):
    query = {"namespace": "namespace:sales", "user": "grp", "generation": "final"}
    forecast = ada.get("/forecasts/deletion", **query).json()
    assert (forecast["verdict"], forecast["missing"], forecast["next"]) == ("refused", 6, None)
    created = ada.post("/plans/readiness", query | {"principal": "group:operators"}).json()
    assert created["effect"]["grants"] == 6 and created["recipe"] == query | {"principal": "group:operators"}
    apply_plan(ada, created["number"], "the operators take over")
    assert check(Question("user", "grp", "delete", parse_address("namespace:sales"), "final")).is_permitted
    assert ada.get("/forecasts/deletion", **query).json()["verdict"] == "complete"
    assert "nothing is missing" in problem(ada.post("/plans/readiness", query), 409)["detail"]
    problem(ada.post("/plans/readiness", query | {"user": "nobody"}), 409)
    problem(ada.post("/plans/readiness", query | {"namespace": "namespace:nowhere"}), 409)


def test_grants_are_copied_through_a_plan(ada):
    created = ada.post(
        "/plans/copy", {"source": "user:ned", "target": "group:operators", "within": "namespace:sales"}
    )
    assert created.status_code == 201 and created.json()["effect"]["grants"] == 6
    assert (
        "is both"
        in problem(ada.post("/plans/copy", {"source": "user:ned", "target": "user:ned"}), 409)["detail"]
    )


def test_the_forecast_pages_through_the_entities_that_block_a_deletion(by_session):
    ensure_entities(states={parse_address(f"stream:sales.s{number}"): "live" for number in range(5)})
    aud, query = by_session("aud"), {"namespace": "namespace:sales", "user": "ned", "generation": "final"}
    first = aud.get("/forecasts/deletion", **query, limit=2).json()
    assert (first["missing"], first["verdict"], first["gone"], first["grants_kept"]) == (
        5,
        "inconsistent",
        4,
        7,
    )
    assert aud.all_of("/forecasts/deletion", **query, limit=2) == [
        f"stream:sales.s{number}" for number in range(5)
    ]
    assert [step["outcome"] for step in first["steps"] if step["live"]] == [
        "goes",
        "goes",
        "stops",
        "not reached",
    ]
    assert first["source"]["seed"] == "002"
    for wrong in ({"namespace": "namespace:nowhere"}, {"namespace": ORDERS}):
        problem(aud.get("/forecasts/deletion", **query | wrong), 409)


def test_a_plan_from_policy_impact_keeps_existing_permissions(by_session, ada, settings, tmp_path):
    settings.SNAPSHOT_URI = str(tmp_path)
    change_grants(grant=[("user:out", "namespace:hr", "ADMIN")])
    lost = ("out", "dataset:hr.salaries", "drop", True, False)
    run = create_report(
        tmp_path,
        {"rows": [], "operations": [], "detail": [lost]},
        analysis="policy-impact",
        revision=current_revision(),
        options={"generation": "existing", "to_generation": "final"},
        summary={},
    )
    created = ada.post(
        "/plans/policy-impact", {"run": run.pk, "namespace": "namespace:hr", "prefer": "fewest"}
    )
    assert created.status_code == 201 and created.json()["effect"]["grants"] == 1
    assert created.json()["recipe"]["note"].startswith("It keeps 1 permission that would be lost.")
    for name in ("aud", "ned"):
        problem(by_session(name).post("/plans/policy-impact", {"run": run.pk}), 403)
    for sent, status in (
        ({"run": run.pk + 1}, 404),
        ({"run": run.pk, "namespace": "namespace:sales"}, 409),
        ({"run": run.pk, "namespace": ORDERS}, 400),
        ({}, 400),
        ({"run": run.pk, "group": "x"}, 409),
    ):
        problem(ada.post("/plans/policy-impact", sent), status)
    other = create_report(tmp_path, {"rows": []}, revision=current_revision())
    problem(ada.post("/plans/policy-impact", {"run": other.pk}), 409)
    settings.SNAPSHOT_URI = str(tmp_path / "elsewhere")
    problem(ada.post("/plans/policy-impact", {"run": run.pk}), 410)


def role_report(folder):
    """Create a report in which `dee` and `out` are role 1, and `ned` is role 2."""
    return create_report(
        folder,
        {
            "rows": [(1, 2, 1, 2, ""), (2, 1, 1, 1, "")],
            "members": [(1, "dee"), (1, "out"), (2, "ned")],
            "permissions": [(1, ORDERS, "READ"), (2, "namespace:sales", "ADMIN")],
            "detail": [],
        },
        analysis="role-mining",
        revision=current_revision(),
        summary={},
    )


def test_a_plan_from_role_mining_replaces_direct_grants_by_groups(by_session, ada, settings, tmp_path):
    settings.SNAPSHOT_URI = str(tmp_path)
    change_grants(grant=[("user:out", ORDERS, "READ"), ("user:dee", ORDERS, "READ")])
    run = role_report(tmp_path)
    created = ada.post("/plans/role-mining", {"run": run.pk})
    assert created.status_code == 201, created.json()
    assert [created.json()["effect"][name] for name in ("groups", "joins", "grants", "revokes")] == [
        2,
        3,
        2,
        3,
    ]
    assert created.json()["recipe"] == {"run": run.pk, "roles": [1, 2]}
    chosen = ada.post("/plans/role-mining", {"run": run.pk, "roles": [{"role": 1, "group": "order-readers"}]})
    path = chosen["Location"].removeprefix("/api/v1")
    items = [(item["verb"], item["principal"]) for item in ada.all_of(f"{path}/items", limit=2)]
    assert items[0] == ("add", "group:order-readers") and len(items) == 6
    for name in ("aud", "ned"):
        problem(by_session(name).post("/plans/role-mining", {"run": run.pk}), 403)
    for sent, status in (
        ({"run": run.pk + 1}, 404),
        ({"run": run.pk, "roles": [{"role": 3}]}, 409),
        ({"run": run.pk, "roles": [{"role": 1, "group": "operators"}]}, 409),
        ({"run": run.pk, "roles": []}, 400),
        ({"run": run.pk, "roles": [{"group": "x"}]}, 400),
        ({}, 400),
    ):
        problem(ada.post("/plans/role-mining", sent), status)
    other = create_report(tmp_path, {"rows": []}, revision=current_revision())
    problem(ada.post("/plans/role-mining", {"run": other.pk}), 409)
    settings.SNAPSHOT_URI = str(tmp_path / "elsewhere")
    problem(ada.post("/plans/role-mining", {"run": run.pk}), 410)


@pytest.mark.parametrize("verb", ["inverse", "renewal"])
def test_an_invalid_or_unexpected_body_is_refused(ada, plan, verb):
    path = f"/plans/{plan.pk}/{verb}"
    problem(ada.post(path, b"{"), 400)
    assert problem(ada.post(path, {"reason": "x"}), 400)["errors"][0]["field"] == "reason"
    assert Plan.objects.count() == 1


def test_unknown_origins_are_refused_with_the_valid_values(ada, plan):
    refused = problem(ada.get("/plans", origin="nonsense"), 400)
    assert refused["errors"][0]["field"] == "origin" and "change-set, copy, readiness" in refused["detail"]
    assert ada.get("/plans", origin="change-set").json()["items"]
