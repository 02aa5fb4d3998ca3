"""Entities over REST: list, read, register, describe, delete and recreate them, also as a dry run."""

from urllib.parse import quote

import pytest

from entities.vocabulary import Privilege
from grants.journal import current_revision
from tests.rest.conftest import grant_item, problem
from tests.support.authors import database_state, entity_states, lines_after
from tests.support.changes import activate_generation

pytestmark = pytest.mark.django_db

ORDERS = "/entities/dataset:sales.orders"


def addresses(rest, **query):
    return [entity["address"] for entity in rest.all_of("/entities", **query)]


def test_the_filters_narrow_the_list(ada):
    assert addresses(ada) == sorted(entity_states(), key=lambda address: address.split(":", 1))
    assert addresses(ada, kind="namespace") == ["namespace:hr", "namespace:sales"]
    assert addresses(ada, state="deleted") == ["dataset:sales.legacy"]
    assert addresses(ada, parent="namespace:hr") == addresses(ada, q="SALARIES") == ["dataset:hr.salaries"]
    assert (
        addresses(ada, q="dataset:sales.or")
        == addresses(ada, address="DATASET:sales.orders")
        == ["dataset:sales.orders"]
    )
    assert addresses(ada, within="application:sales.shop") == [
        "application:sales.shop",
        "program:sales.shop.workflow.daily",
    ]
    assert addresses(ada, kind="dataset", state="live", q="o", parent="namespace:sales") == [
        "dataset:sales.customers",
        "dataset:sales.orders",
    ]
    assert addresses(ada, parent="namespace:nowhere") == addresses(ada, within="namespace:nowhere") == []


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"kind": "table"}, "kind"),
        ({"parent": "sales"}, "parent"),
        ({"q": "\0"}, "q"),
        ({"kinds": "dataset"}, "kinds"),
    ],
)
def test_an_invalid_filter_is_refused(ada, query, field):
    assert problem(ada.get("/entities", **query), 400)["errors"][0]["field"] == field


def test_a_repeated_parameter_is_refused(ada):
    problem(ada.client.get("/api/v1/entities?kind=dataset&kind=stream"), 400)


@pytest.mark.parametrize(
    "key", ["etl/host.com@REALM", "a/recreate", "recreate", "a%2Fb", "ä#", "a//b", "x/dry_run=1;y"]
)
def test_any_address_can_be_read_by_path_and_by_parameter(ada, key):
    address = f"kerberosprincipal:{key}"
    created = ada.post("/entities", {"address": address})
    assert created.status_code == 201
    assert created["Location"] == f"/api/v1/entities/{quote(address, safe=':@')}"
    assert ada.client.get(created["Location"]).json()["address"] == address
    assert ada.client.get(f"/api/v1/entities/{quote(address)}").json()["address"] == address
    assert addresses(ada, address=address) == [address]


def test_registering_makes_an_address_live_once(ada):
    revision = current_revision()
    body = {"address": "dataset:sales.new", "description": "new", "creator": "dee", "reason": "because"}
    created = ada.post("/entities", body)
    assert created.status_code == 201
    assert created.json()["entity"]["description"] == "new" and created.json()["revision"] == revision + 2
    again = ada.post("/entities", body)
    assert again.status_code == 200 and again.json()["changed"] is False
    assert current_revision() == revision + 2


def test_the_creator_receives_the_grants_of_the_active_generation(ada):
    activate_generation("core")
    ada.post("/entities", {"address": "dataset:sales.new", "creator": "dee"})
    assert {
        grant["privilege"] for grant in ada.get("/grants", entity="dataset:sales.new").json()["items"]
    } == set(Privilege)


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        (
            "/entities",
            {"address": "dataset:nowhere.x"},
            "namespace:nowhere, which contains it, is not registered",
        ),
        ("/entities", {"address": "dataset:sales.legacy"}, "recreate it instead"),
        ("/entities/recreate", {"address": "dataset:sales.never"}, "was never deleted"),
        ("/entities", {"address": "dataset:sales.new", "creator": "nobody"}, "user:nobody does not exist"),
    ],
)
def test_invalid_changes_are_refused_with_and_without_dry_run(ada, path, body, message):
    before = database_state()
    for dry_run in (False, True):
        assert message in problem(ada.post(path, body | {"dry_run": dry_run}), 409)["detail"]
    assert database_state() == before


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"address": "dataset:sales"}, "address"),
        ({"address": "dataset:sales.\u202ex"}, "address"),
        ({"address": "dataset:sales.x", "description": "a\0b"}, "description"),
        ({"address": "dataset:sales.x", "creator": "a\nb"}, "creator"),
    ],
)
def test_an_invalid_registration_names_the_member(ada, body, field):
    before = database_state()
    assert [error["field"] for error in problem(ada.post("/entities", body), 400)["errors"]] == [field]
    assert database_state() == before


def test_a_dry_run_forecasts_and_writes_nothing(ada):
    before = database_state()
    new = ada.post("/entities", {"address": "dataset:sales.forecast", "dry_run": True})
    assert new.status_code == 200 and new.json()["forecast"]["applying"] == [
        {"principal": "group:operators", "privileges": ["READ"], "pattern": ""}
    ]
    deletion = ada.delete("/entities/namespace:sales", query="?dry_run=true").json()
    assert (
        deletion["dry_run"]
        and deletion["forecast"]["entities"]["dataset"] == 2
        and deletion["forecast"]["grants_kept"] == 9
    )
    assert database_state() == before


def test_deleting_and_recreating_report_the_result(ada):
    revision = current_revision()
    deleted = ada.delete(ORDERS, query="?reason=because").json()
    assert deleted["entity"]["state"] == "deleted" and deleted["changed"]
    assert [line[0] for line in lines_after(revision)] == ["delete"]
    assert "was deleted already" in problem(ada.delete(ORDERS), 409)["detail"]
    recreated = ada.post("/entities/recreate", {"address": "dataset:sales.orders"})
    assert recreated.status_code == 201 and recreated.json()["entity"]["state"] == "live"
    assert "the platform itself" in problem(ada.delete("/entities/instance:cdap"), 409)["detail"]


def test_a_description_change_requires_the_current_etag(ada):
    first_read = ada.get(ORDERS)
    problem(ada.patch(ORDERS, {"description": "mine"}), 428)
    changed = ada.patch(ORDERS, {"description": "mine", "reason": "because"}, If_Match=first_read["ETag"])
    assert (
        changed.json()["description"] == "mine"
        and changed["ETag"] == ada.get(ORDERS)["ETag"] != first_read["ETag"]
    )
    refused = ada.patch(ORDERS, {"description": "theirs"}, If_Match=first_read["ETag"])
    problem(refused, 412)
    assert refused["ETag"] == changed["ETag"] and ada.get(ORDERS).json()["description"] == "mine"
    assert (
        ada.patch(ORDERS, {"description": "x"}, If_Match=f'"other", W/"weak", {changed["ETag"]}').status_code
        == 200
    )
    assert ada.patch(ORDERS, {"description": "y"}, If_Match="*").status_code == 200
    problem(ada.delete(ORDERS, **{"If-Match": first_read["ETag"]}), 412)
    assert ada.delete(ORDERS, **{"If-Match": ada.get(ORDERS)["ETag"]}).status_code == 200


def test_a_planned_address_without_grants_can_be_deleted(ada):
    path = "/entities/dataset:typo.orders"
    item = grant_item("user:out", "dataset:typo.orders")
    ada.post("/grants", {"grant": [item]})
    assert "revoke the grants on it instead" in problem(ada.delete(path), 409)["detail"]
    ada.post("/grants", {"revoke": [item]})
    before, revision = database_state(), current_revision()
    detail = problem(ada.delete("/entities/namespace:typo"), 409)["detail"]
    assert "dataset:typo.orders, which is inside it, keeps its address" in detail and "revoke" not in detail
    forecast = ada.delete(path, query="?dry_run=true").json()
    assert (
        forecast["sentence"] == "dataset:typo.orders would be deleted, 1 entity in total; nothing was changed"
    )
    assert database_state() == before
    for address in ("dataset:typo.orders", "namespace:typo"):
        deleted = ada.delete(f"/entities/{address}").json()
        assert (
            deleted["sentence"] == f"{address} was only planned; it is no longer registered"
            and deleted["entity"] is None
        )
        problem(ada.get(f"/entities/{address}"), 404)
    assert [line[::2] for line in lines_after(revision)] == [
        ("delete", "dataset:typo.orders", "it was planned"),
        ("delete", "namespace:typo", "it was planned"),
    ]
    problem(ada.delete(path), 404)


@pytest.mark.parametrize(
    ("path", "address", "sentence"),
    [
        (
            "/entities",
            "dataset:sales.forecast",
            "dataset:sales.forecast would be registered; 1 grant on it would start to count; nothing was changed",
        ),
        (
            "/entities/recreate",
            "dataset:sales.legacy",
            "dataset:sales.legacy would be recreated; 1 grant on it would start to count; nothing was changed",
        ),
        ("/entities", "dataset:sales.new", "dataset:sales.new would be registered; nothing was changed"),
        ("/entities", "dataset:sales.orders", "dataset:sales.orders is live already: nothing changed"),
    ],
)
def test_a_dry_run_is_reported_in_the_conditional(ada, path, address, sentence):
    assert (
        ada.post(path, {"address": address, "creator": "dee", "dry_run": True}).json()["sentence"] == sentence
    )


def test_a_dry_run_names_the_grants_of_the_creator(ada):
    activate_generation("core")
    forecast = ada.post(
        "/entities", {"address": "dataset:sales.new", "creator": "dee", "dry_run": True}
    ).json()
    assert f"user:dee would get {', '.join(Privilege)} on it as its creator" in forecast["sentence"]
