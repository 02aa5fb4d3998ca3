"""Data stewards over REST: what they read in their namespaces, and how administrators assign them."""

import pytest

from entities.address import parse_address
from grants.stewards.services import add_steward
from tests.rest.conftest import grant_item, problem
from tests.support.authors import database_state
from tests.support.cast import SALES, SETUP

pytestmark = pytest.mark.django_db

ORDERS, SALARIES = "dataset:sales.orders", "dataset:hr.salaries"


@pytest.fixture
def steward(cast, by_session):
    """Make `out`, a user without grants, a data steward of the namespace `sales`."""
    add_steward(author=SETUP, namespace=parse_address("namespace:sales"), principal="user:out")
    return by_session("out")


def test_a_steward_reads_everything_in_the_namespace(steward):
    listed = {entity["address"] for entity in steward.get("/entities").json()["items"]}
    assert listed == {*SALES, "dataset:sales.forecast", "dataset:sales.legacy"}
    assert steward.get(f"/entities/{ORDERS}").status_code == 200
    assert {grant["principal"] for grant in steward.get("/grants", entity=ORDERS).json()["items"]} == {
        "user:dee",
        "user:ina",
        "user:ned",
    }
    for entity in (ORDERS, "namespace:sales"):
        assert {row["user"] for row in steward.get("/who-can", entity=entity).json()["items"]} >= {"ned"}
    assert steward.get("/who-can.csv", entity=ORDERS).status_code == 200
    assert {line["entity"] for line in steward.get("/journal", entity=ORDERS).json()["items"]} == {ORDERS}
    assert [row["principal"] for row in steward.get("/stewards").json()["items"]] == ["user:out"]


def test_a_steward_reads_nothing_else(steward):
    problem(steward.get(f"/entities/{SALARIES}"), 404)
    assert (
        steward.get("/grants", entity=SALARIES).json()["items"]
        == steward.get("/grants").json()["items"]
        == []
    )
    for entity in (SALARIES, "instance:cdap"):
        problem(steward.get("/who-can", entity=entity), 404)
        problem(steward.get("/journal", entity=entity), 403)
    for path in (
        "/journal",
        "/journal/proof",
        "/plans",
        "/runs",
        f"/differences?entity={ORDERS}&since=1",
        "/evidence",
    ):
        problem(steward.get(path), 403)
    problem(steward.get("/grants", principal="user:ned"), 403)
    problem(steward.get("/users/ned"), 404)


def test_a_steward_changes_nothing(steward):
    before = database_state()
    item = grant_item()
    for path, body in (
        ("/grants", {"grant": [item]}),
        ("/stewards", {"namespace": "namespace:sales", "principal": "user:dee"}),
        ("/entities", {"address": "dataset:sales.new"}),
    ):
        problem(steward.post(path, body), 403)
    problem(steward.patch(f"/entities/{ORDERS}", {"description": "x"}, If_Match="*"), 403)
    assert database_state() == before


def test_an_administrator_assigns_lists_and_removes_stewards(ada, by_session):
    body = {"namespace": "namespace:sales", "principal": "group:operators", "reason": "owns the data"}
    assert ada.post("/stewards", body).json()["changed"] and not ada.post("/stewards", body).json()["changed"]
    ada.post("/stewards", {"namespace": "namespace:hr", "principal": "user:dee"})
    assert [
        (row["principal"], row["reason"])
        for row in ada.get("/stewards", namespace="namespace:sales").json()["items"]
    ] == [("group:operators", "owns the data")]
    assert (
        len(ada.all_of("/stewards", limit=1)) == len(by_session("aud").get("/stewards").json()["items"]) == 2
    )
    assert by_session("grp").get("/stewards").json()["items"][0]["namespace"] == "namespace:sales"
    assert by_session("ned").get("/stewards").json()["items"] == []
    problem(ada.post("/stewards", body | {"namespace": "namespace:nowhere"}), 400)
    problem(ada.post("/stewards", body | {"principal": "user:nobody"}), 409)
    assert ada.delete("/stewards", query="?namespace=namespace:sales&principal=group:operators").json()[
        "changed"
    ]
    assert by_session("grp").get("/stewards").json()["items"] == []
