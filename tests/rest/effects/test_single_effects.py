"""Dry runs report the effect on permissions, and changes can name the effect that they expect."""

from urllib.parse import urlencode

import pytest

from entities.address import parse_address
from entities.models import Entity
from tests.rest.conftest import grant_item
from tests.support.authors import account, database_state
from tests.support.changes import change_grants

pytestmark = pytest.mark.django_db

ORDERS = "dataset:sales.orders"
BODIES = {
    "/grants": {"grant": [grant_item()]},
    "/memberships": {"join": [{"user": "out", "group": "operators"}]},
    "/entities": {"address": "dataset:sales.forecast"},
    "/entities/recreate": {"address": "dataset:sales.legacy"},
}


# method, path, and the body, or for DELETE the query
SINGLE = {
    "member-add": ("post", "/members", {"user": "out", "group": "operators"}),
    "member-remove": ("delete", "/members", {"user": "grp", "group": "operators"}),
    "activate": ("patch", "/users/ina", {"active": True}),
    "deactivate": ("patch", "/users/ned", {"active": False}),
    "remove-user": ("delete", "/users/ned", {"revoke_grants": "true"}),
    "remove-group": ("delete", "/groups/operators", {"revoke_grants": "true"}),
    "generation": ("put", "/policies/active", {"name": "existing"}),
}


def send(rest, method, path, values, **options):
    """Send a single change. options: `dry_run`, `effect_digest` and headers."""
    headers = {name: options.pop(name) for name in ("If_Match",) if name in options}
    if method == "delete":
        options = {name: str(value).lower() for name, value in options.items()}
        return rest.delete(path, query=f"?{urlencode(values | options)}")
    return getattr(rest, method)(path, values | options, **headers)


def change_something():
    addresses = [
        parse_address(address)
        for address in (ORDERS, "dataset:sales.forecast", "dataset:sales.legacy", "dataset:hr.salaries")
    ]
    change_grants(
        grant=[
            (principal, address, "ADMIN")
            for principal in ("user:out", "group:operators", "user:ned", "user:ina")
            for address in addresses
        ]
    )


@pytest.mark.parametrize("path", BODIES)
def test_a_dry_run_reports_the_effect_and_a_change_with_another_one_is_refused(ada, path):
    dry = ada.post(path, BODIES[path] | {"dry_run": True})
    effect = dry.json()["effect"]
    assert (
        dry.status_code == 200
        and effect["for"]["gained"] + effect["beyond"]["gained"] > 0
        and effect["users"]
    )
    assert set(effect) >= {
        "generation",
        "digest",
        "entities",
        "operations",
        "leftover_removed",
        "tokens_ended",
    }
    assert effect["leftover_removed"] == (1 if "recreate" in path else 0)
    change_something()
    before = database_state()
    refused = ada.post(path, BODIES[path] | {"effect_digest": effect["digest"]})
    assert (
        refused.status_code == 409
        and refused.json()["type"].endswith("effect-changed")
        and database_state() == before
    )
    again = refused.json()["effect"]["digest"]
    assert again != effect["digest"]
    assert ada.post(path, BODIES[path] | {"effect_digest": again}).status_code in (200, 201)
    assert database_state() != before


def test_a_deletion_names_its_effect(ada):
    dry = ada.delete(f"/entities/{ORDERS}", query="?dry_run=true").json()
    assert dry["effect"]["for"]["lost"] > 0 and dry["effect"]["leftover_created"] == 3
    change_something()
    refused = ada.delete(f"/entities/{ORDERS}", query=f"?effect_digest={dry['effect']['digest']}")
    assert (
        refused.status_code == 409 and refused.json()["effect"]["for"]["lost"] > dry["effect"]["for"]["lost"]
    )
    digest = refused.json()["effect"]["digest"]
    assert ada.delete(f"/entities/{ORDERS}", query=f"?effect_digest={digest}").status_code == 200
    assert Entity.objects.get(kind="dataset", key="sales.orders").state == "deleted"


def test_a_dry_run_above_the_limit_has_no_numbers(ada, settings):
    settings.EFFECT_MAX_GRANTS = 0
    body = {"grant": [grant_item("user:ned")], "dry_run": True}
    effect = ada.post("/grants", body).json()["effect"]
    assert (effect["for"], effect["digest"], effect["grants"]) == (None, "too-large", 1)


@pytest.mark.parametrize("name", SINGLE)
def test_a_single_change_reports_its_effect_and_is_refused_with_another_one(ada, name):
    before = database_state()
    dry = send(ada, *SINGLE[name], dry_run=True)
    effect = dry.json()["effect"]
    assert dry.status_code == 200 and dry.json()["dry_run"] is True and database_state() == before
    assert (
        sum(effect[part][change] for part in ("for", "beyond") for change in ("gained", "lost")) > 0
        and effect["users"]
    )
    change_something()
    before = database_state()
    refused = send(ada, *SINGLE[name], effect_digest=effect["digest"], If_Match="*")
    assert (
        refused.status_code == 409
        and refused.json()["type"].endswith("effect-changed")
        and database_state() == before
    )
    again = refused.json()["effect"]["digest"]
    assert again != effect["digest"]
    assert (
        send(ada, *SINGLE[name], effect_digest=again, If_Match="*").status_code == 200
        and database_state() != before
    )


@pytest.mark.parametrize(
    ("name", "stranded"), [("deactivate", 6), ("remove-user", 6), ("remove-group", 0), ("member-add", 0)]
)
def test_a_dry_run_counts_the_entities_left_without_administrators(ada, name, stranded):
    dry = send(ada, *SINGLE[name], dry_run=True).json()
    assert (dry["effect"]["stranded_none"], dry["effect"]["stranded_one"], len(dry["stranded"])) == (
        stranded,
        0,
        stranded,
    )
    assert all(row["admins"] == 0 for row in dry["stranded"])


def test_a_new_entity_without_a_creator_has_no_administrator(ada):
    dry = ada.post("/entities", {"address": "dataset:sales.forecast", "dry_run": True}).json()
    assert (dry["effect"]["stranded_none"], dry["stranded"]) == (
        1,
        [{"entity": "dataset:sales.forecast", "admins": 0}],
    )
    deletion = ada.delete(f"/entities/{ORDERS}", query="?dry_run=true").json()
    assert (deletion["effect"]["stranded_none"], deletion["stranded"]) == (0, [])


def test_a_dry_run_of_a_new_name_shows_what_the_old_name_loses_and_the_new_one_gains(ada):
    before = database_state()
    for method, path, new_name in (
        ("patch", "/users/dee", "dora"),
        ("patch", "/groups/operators", "operations"),
    ):
        dry = send(ada, method, path, {"name": new_name}, dry_run=True).json()
        assert (dry["name"], dry["dry_run"]) == (new_name, True)
        changed = {row["user"] for row in dry["effect"]["users"]}
        assert changed == ({"dee", "dora"} if path == "/users/dee" else set())
    assert database_state() == before
    refused = send(ada, "patch", "/users/dee", {"name": "ned"}, dry_run=True)
    assert refused.status_code == 409 and database_state() == before


def test_an_account_becomes_a_principal(ada):
    # existing permits some operations to every principal
    assert ada.put("/policies/active", {"name": "existing"}, If_Match="*").status_code == 200
    dry = send(ada, "patch", "/users/aud", {"is_principal": True}, dry_run=True)
    assert dry.json()["is_principal"] is True and dry["ETag"] == ada.get("/users/aud")["ETag"]
    assert not account("aud").is_principal
    changed = send(
        ada,
        "patch",
        "/users/aud",
        {"is_principal": True},
        effect_digest=dry.json()["effect"]["digest"],
        If_Match="*",
    )
    assert changed.status_code == 200 and changed.json() == ada.get("/users/aud").json()
    assert account("aud").is_principal


def test_an_account_that_sees_no_grants_gets_no_effect(by_session, cast):
    cast["out"].role = "security-administrator"
    cast["out"].save()
    dry = send(by_session("out"), *SINGLE["deactivate"], dry_run=True)
    assert dry.status_code == 200 and dry.json()["effect"] is None and dry.json()["stranded"] == []
    # the digest of an empty effect is known, so an answer to it would tell who holds what
    refused = send(by_session("out"), *SINGLE["deactivate"], effect_digest="x", If_Match="*")
    assert refused.status_code == 403 and "effect" not in refused.json()


@pytest.mark.parametrize(
    ("name", "max_queries"),
    [
        ("member-add", 52),
        ("member-remove", 55),
        ("deactivate", 63),
        ("remove-user", 102),
        ("remove-group", 80),
        ("generation", 54),
    ],
)
def test_the_number_of_queries_of_a_dry_run_does_not_grow(
    ada, django_assert_max_num_queries, name, max_queries
):
    send(ada, *SINGLE[name], dry_run=True)
    with django_assert_max_num_queries(max_queries):
        send(ada, *SINGLE[name], dry_run=True)
    change_something()
    with django_assert_max_num_queries(max_queries):
        send(ada, *SINGLE[name], dry_run=True)


def test_the_effect_of_periods_has_the_totals_at_each_beginning(ada):
    item = grant_item()
    body = {
        "grant": [item | {"valid_from": "2126-01-01T00:00:00Z"}, item | {"entity": "dataset:hr.salaries"}]
    }
    effect = ada.post("/grants", body | {"dry_run": True}).json()["effect"]
    assert (
        effect["times"][0]["at"] < effect["times"][1]["at"] == "2126-01-01T00:00:00Z"
        and len(effect["times"]) == 2
    )
    assert (
        effect["times"][0]["for"] == effect["for"]
        and effect["times"][1]["for"]["gained"] > effect["for"]["gained"]
    )
    assert effect["other_beginnings"] == 0
    number = ada.post("/plans", body).json()["number"]
    plan = ada.get(f"/plans/{number}/effect").json()
    assert plan["times"][1] == effect["times"][1] and plan["digest"] == effect["digest"]
    later = ada.get(f"/plans/{number}/effect", at="2126-01-01T00:00:00Z").json()
    assert (later["for"], later["times"]) == (effect["times"][1]["for"], [])
    rows = b"".join(
        ada.get(f"/plans/{number}/effect/rows.jsonl", at="2126-01-01T00:00:00Z").streaming_content
    ).splitlines()
    assert len(rows) == later["for"]["gained"] + later["beyond"]["gained"]
    member = send(
        ada,
        "post",
        "/members",
        {"user": "out", "group": "operators", "valid_from": "2126-01-01T00:00:00Z"},
        dry_run=True,
    )
    assert [time["for"]["gained"] > 0 for time in member.json()["effect"]["times"]] == [False, True]
