"""Bulk plans over REST: for a container, selected entities, ghost grants and a change file."""

import pytest

from grants.models import Plan
from tests.rest.conftest import problem
from tests.support.authors import all_grants, database_state
from tests.support.cast import SALES

pytestmark = pytest.mark.django_db

ORDERS, CUSTOMERS = "dataset:sales.orders", "dataset:sales.customers"
BULK = {"verb": "grant", "principals": ["user:out"], "privileges": ["READ"], "within": "namespace:sales"}
SELECTION = {
    "verb": "revoke",
    "principals": ["user:ned"],
    "privileges": ["ADMIN"],
    "entities": [ORDERS, CUSTOMERS],
}
HEADER = "verb,principal,entity,privilege\n"
GOOD = f"{HEADER}grant,user:out,{ORDERS},READ\nrevoke,user:ned,{ORDERS},ADMIN\n"


def plan_items(ada, answer):
    assert answer.status_code == 201, answer.content
    path = answer["Location"].removeprefix("/api/v1")
    return [
        (item["verb"], item["principal"], item["entity"], item["privilege"])
        for item in ada.all_of(f"{path}/items")
    ]


def test_a_bulk_plan_covers_all_live_entities_in_a_container(ada):
    before = all_grants()
    created = ada.post("/plans/many", BULK)
    assert {entity for *_, entity, _ in plan_items(ada, created)} == set(SALES) and created.json()[
        "origin"
    ] == "subtree"
    some = ada.post("/plans/many", BULK | {"kinds": ["dataset"], "itself": False})
    assert plan_items(ada, some) == [
        ("grant", "user:out", CUSTOMERS, "READ"),
        ("grant", "user:out", ORDERS, "READ"),
    ]
    assert some.json()["recipe"] == {
        "verb": "grant",
        "principals": ["user:out"],
        "privileges": ["READ"],
        "within": "namespace:sales",
        "kinds": ["dataset"],
        "itself": False,
    }
    path = some["Location"].removeprefix("/api/v1")
    assert (
        all_grants() == before
        and ada.post(f"{path}/apply", {"reason": "x", "confirm_beyond": True}).status_code == 200
    )
    assert all_grants() - before == {("user:out", ORDERS, "READ"), ("user:out", CUSTOMERS, "READ")}
    assert ada.post("/plans/many", BULK).json()["effect"]["grants"] == 4


def test_a_bulk_plan_covers_selected_entities(ada):
    created = ada.post("/plans/many", SELECTION)
    assert plan_items(ada, created) == [
        ("revoke", "user:ned", CUSTOMERS, "ADMIN"),
        ("revoke", "user:ned", ORDERS, "ADMIN"),
    ]
    assert (created.json()["origin"], created.json()["effect"]["stranded_none"]) == ("selection", 2)
    assert [plan["number"] for plan in ada.get("/plans", origin="selection").json()["items"]] == [
        created.json()["number"]
    ]
    renewed = ada.post(f"/plans/{created.json()['number']}/renewal").json()
    assert renewed["effect"]["revokes"] == 2


@pytest.mark.parametrize(
    ("sent", "status", "words"),
    [
        (BULK | {"entities": [ORDERS]}, 400, "either `within` or `entities`"),
        (
            {name: value for name, value in BULK.items() if name != "within"},
            400,
            "either `within` or `entities`",
        ),
        (SELECTION | {"kinds": ["dataset"]}, 400, "this requires `within`"),
        (BULK | {"kinds": ["widget"]}, 400, "is not a kind"),
        (BULK | {"within": "namespace:nowhere"}, 409, "is not registered"),
        (SELECTION | {"entities": ["dataset:x"]}, 400, "lacks a part"),
    ],
)
def test_an_invalid_bulk_plan_is_refused_with_the_reason(ada, sent, status, words):
    assert words in problem(ada.post("/plans/many", sent), status)["detail"] and not Plan.objects.exists()


def test_a_ghost_plan_revokes_grants_on_deleted_addresses(ada):
    assert plan_items(ada, ada.post("/plans/ghosts", {})) == [
        ("revoke", "user:dee", "dataset:sales.legacy", "WRITE")
    ]
    assert len(plan_items(ada, ada.post("/plans/ghosts", {"namespace": "namespace:sales"}))) == 1
    assert (
        "no grant is on a deleted address"
        in problem(ada.post("/plans/ghosts", {"namespace": "namespace:hr"}), 409)["detail"]
    )
    assert "is not a namespace" in problem(ada.post("/plans/ghosts", {"namespace": ORDERS}), 409)["detail"]
    problem(ada.post("/plans/ghosts", {"namespace": "sales"}), 400)


def test_a_plan_is_created_from_a_change_file(ada):
    created = ada.post("/plans/import", {"document": GOOD + GOOD.split("\n")[1], "title": "Quarter"})
    assert plan_items(ada, created) == [
        ("grant", "user:out", ORDERS, "READ"),
        ("revoke", "user:ned", ORDERS, "ADMIN"),
    ]
    assert (created.json()["title"], created.json()["origin"]) == ("Quarter", "file")
    assert created.json()["recipe"]["note"].startswith("1 line repeats")
    line = f'{{"verb":"grant","principal":"user:out","entity":"{ORDERS}","privilege":"READ"}}\n'
    assert len(plan_items(ada, ada.post("/plans/import", {"document": line}))) == 1


def test_every_invalid_line_of_a_change_file_is_reported(ada):
    before = database_state()
    bad = GOOD + f"give,user:out,{ORDERS},READ\ngrant,user:nobody,{ORDERS},READ\ngrant,x\n"
    refused = problem(ada.post("/plans/import", {"document": bad}), 400)
    assert [(e["list"], e["index"], e.get("field", "")) for e in refused["errors"]] == [
        ("document", 4, "verb"),
        ("document", 5, "principal"),
        ("document", 6, ""),
    ]
    assert (
        refused["detail"].startswith("3 bad lines, so no plan was created; the first is line 4")
        and database_state() == before
    )
    assert "no changes" in problem(ada.post("/plans/import", {"document": HEADER}), 409)["detail"]
    problem(ada.post("/plans/import", GOOD, content_type="text/plain"), 415)


def test_a_change_file_is_sent_as_it_is(ada):
    created = ada.post("/plans/import", GOOD, content_type="text/csv")
    assert len(plan_items(ada, created)) == 2
    refused = problem(ada.post("/plans/import", b"verb\xff", content_type="text/csv"), 400)
    assert "is not UTF-8" in refused["detail"]


def test_selected_outliers_become_a_plan(ada):
    sent = {"principal": "user:dee", "entity": ORDERS, "privileges": ["READ"]}
    created = ada.post("/plans/outliers", {"privileges": [sent]})
    assert plan_items(ada, created) == [("revoke", "user:dee", ORDERS, "READ")]
    assert created.json()["origin"] == "outliers"
    of_group = {
        "principal": "user:grp",
        "entity": "program:sales.shop.workflow.daily",
        "privileges": ["EXECUTE"],
    }
    assert (
        "group:operators"
        in ada.post("/plans/outliers", {"privileges": [sent, of_group]}).json()["recipe"]["note"]
    )
    assert "through groups" in problem(ada.post("/plans/outliers", {"privileges": [of_group]}), 409)["detail"]
    assert ada.post("/plans/outliers", {"privileges": []}).status_code == 400
