"""Holders of ADMIN read and change the grants on their entities over REST, if delegation is on."""

import pytest

from tests.rest.conftest import grant_item, problem
from tests.support.authors import database_state
from tests.support.changes import add_grant

pytestmark = pytest.mark.django_db

ITEM = grant_item()


@pytest.fixture(autouse=True)
def delegation(settings):
    settings.DELEGATION = True


def test_a_delegate_reads_the_grants_on_its_entities(by_session):
    ned = by_session("ned")
    holders = {
        grant["principal"] for grant in ned.get("/grants", entity="dataset:sales.orders").json()["items"]
    }
    assert holders == {"user:dee", "user:ina", "user:ned"}
    assert ned.get("/grants", entity="dataset:sales.orders", principal="user:dee").json()["items"]
    assert {grant["principal"] for grant in ned.get("/grants").json()["items"]} == {"user:ned"}
    assert {grant["principal"] for grant in ned.get("/grants", within="namespace:sales").json()["items"]} == {
        "user:ned"
    }


def test_a_delegate_reads_nothing_else(by_session):
    add_grant("user:dee", "dataset:hr.salaries", "READ")
    ned = by_session("ned")
    for entity in ("dataset:hr.salaries", "dataset:hr.nothing"):
        assert ned.get("/grants", entity=entity).json()["items"] == []
        problem(ned.get("/grants", entity=entity, principal="user:dee"), 403)
    problem(ned.get("/grants", principal="user:dee"), 403)
    problem(
        ned.get("/grants", entity="dataset:sales.orders", principal="user:grp", through_groups="true"), 403
    )
    assert {
        grant["principal"]
        for grant in by_session("dee").get("/grants", entity="dataset:sales.orders").json()["items"]
    } == {"user:dee"}


def test_a_delegate_changes_grants_and_sees_no_effect(by_session):
    ned = by_session("ned")
    forecast = ned.post("/grants", {"grant": [ITEM], "dry_run": True}).json()
    assert forecast["granted"] and forecast["effect"] is None and forecast["stranded"] == []
    assert ned.post("/grants", {"grant": [ITEM]}).json()["granted"]
    assert ned.post("/grants", {"revoke": [ITEM]}).json()["revoked"]


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_digest_tells_nothing_about_entities_and_users_that_one_does_not_see(by_session, dry_run):
    """A change without an effect has a known digest, so an answer to it would tell who holds what, and what
    exists.
    """
    known = (
        by_session("ada")
        .post("/grants", {"grant": [ITEM | {"principal": "user:ned"}], "dry_run": True})
        .json()
    )
    answers = set()
    for entity in ("dataset:hr.salaries", "dataset:hr.nothing", "dataset:sales.orders"):
        for digest in (known["effect"]["digest"], "x"):
            refused = by_session("out").post(
                "/grants",
                {
                    "grant": [ITEM | {"entity": entity, "principal": "user:ned"}],
                    "effect_digest": digest,
                    "dry_run": dry_run,
                },
            )
            answers.add((problem(refused, 403)["type"], refused.json()["detail"]))
    assert len(answers) == 1


@pytest.mark.parametrize(
    "item",
    [
        {"entity": "dataset:hr.salaries"},
        {"privileges": ["EXECUTE", "ADMIN"]},
        {"entity": "dataset:hr.salaries", "principal": "user:nobody"},
    ],
)
def test_a_delegate_is_refused_beyond_its_rights(item, by_session):
    before = database_state()
    items = [ITEM, ITEM | {"privileges": ["WRITE"]} | item]
    for dry_run in (True, False):
        problem(by_session("ned").post("/grants", {"grant": items, "dry_run": dry_run}), 403)
    assert database_state() == before


@pytest.mark.parametrize("name", ["dee", "grp", "out", "aud"])
def test_other_accounts_change_nothing(name, by_session):
    problem(by_session(name).post("/grants", {"grant": [ITEM]}), 403)


def test_delegates_change_nothing_but_grants(by_session):
    ned = by_session("ned")
    for path, body in (
        ("/groups", {"name": "new"}),
        ("/plans", {"grant": [ITEM]}),
        ("/members", {"group": "operators", "user": "out"}),
        ("/entities", {"address": "dataset:sales.new"}),
    ):
        problem(ned.post(path, body), 403)
