"""Grants, memberships and plans have periods over REST, and invalid periods are refused with the name of the
member.
"""

from datetime import UTC, datetime, timedelta

import pytest

from grants.models import Membership, UserGrant
from grants.validity import format_time
from tests.rest.conftest import grant_item, problem
from tests.support.authors import database_state

pytestmark = pytest.mark.django_db

ORDERS = "dataset:sales.orders"
NOW = datetime.now(UTC).replace(microsecond=0)
SOON, LATER, PAST = (format_time(NOW + timedelta(days=days)) for days in (1, 9, -1))
LIMITS = {"valid_from": None, "valid_until": SOON}
INVALID = [
    ({"valid_until": "2126-12-05T17:00:00"}, "valid_until", "no time zone"),
    ({"valid_from": "Friday"}, "valid_from", "is not a time"),
    ({"valid_from": 5}, "valid_from", "is not a time"),
    ({"valid_from": LATER, "valid_until": SOON}, "valid_until", "not after the beginning"),
    ({"valid_until": PAST}, "valid_until", "in the past"),
]


def test_a_grant_has_a_period_that_another_change_set_changes(ada):
    answer = ada.post("/grants", {"grant": [grant_item(valid_until=SOON)]}).json()
    assert answer["granted"] == [{"principal": "user:out", "entity": ORDERS, "privilege": "READ", **LIMITS}]
    (grant,) = ada.all_of("/grants", principal="user:out")
    assert {name: grant[name] for name in LIMITS} == LIMITS
    assert not ada.post("/grants", {"grant": [grant_item(valid_until=SOON, valid_from=None)]}).json()[
        "changed"
    ]
    answer = ada.post("/grants", {"grant": [grant_item(valid_until=LATER)], "dry_run": True}).json()
    assert (answer["sentence"], answer["effect"]["grants"]) == ("would change the period of 1", 1)
    answer = ada.post("/grants", {"grant": [grant_item(valid_until=LATER)]}).json()
    assert (answer["granted"], answer["changed_periods"][0]["valid_until"]) == ([], LATER)
    answer = ada.post(
        "/grants", {"revoke": [{name: grant_item()[name] for name in ("principal", "entity", "privileges")}]}
    ).json()
    assert answer["revoked"][0]["valid_until"] == LATER


def test_lists_filter_by_period(ada):
    for privilege, period in (
        ("READ", {"valid_until": SOON}),
        ("WRITE", {"valid_from": SOON}),
        ("ADMIN", {}),
        ("EXECUTE", {"valid_until": SOON}),
    ):
        assert (
            ada.post("/grants", {"grant": [grant_item(**period) | {"privileges": [privilege]}]}).status_code
            == 200
        )
    UserGrant.objects.filter(permission__codename="execute").update(valid_until=NOW)
    found = {
        valid: {row["privilege"] for row in ada.all_of("/grants", principal="user:out", valid=valid)}
        for valid in ("now", "future", "expired", "limited")
    }
    assert found == {
        "now": {"READ", "ADMIN"},
        "future": {"WRITE"},
        "expired": {"EXECUTE"},
        "limited": {"READ", "WRITE", "EXECUTE"},
    }
    assert problem(ada.get("/grants", valid="soon"), 400)["errors"][0]["field"] == "valid"


@pytest.mark.parametrize("period, field, message", INVALID)
def test_invalid_periods_are_refused_with_the_member(ada, period, field, message):
    before = database_state()
    error = problem(
        ada.post("/grants", {"grant": [grant_item(), grant_item(**period) | {"privileges": ["WRITE"]}]}), 400
    )["errors"][0]
    assert (
        (error["list"], error["index"]) == ("grant", 1)
        and f"`{field}`" in error["message"]
        and message in error["message"]
    )
    refused = problem(ada.post("/members", {"user": "out", "group": "operators", **period}), 400)["errors"][0]
    assert refused["field"] == field and message in refused["message"]
    joins = problem(
        ada.post("/memberships", {"join": [{"user": "out", "group": "operators", **period}]}), 400
    )["errors"][0]
    assert joins["field"] == f"join[0].{field}"
    bulk = {
        "verb": "grant",
        "principals": ["user:out"],
        "privileges": ["READ"],
        "entities": [ORDERS],
        **period,
    }
    assert problem(ada.post("/plans/many", bulk), 400)["errors"][0]["field"] == field
    assert database_state() == before


def test_a_revocation_has_no_period(ada):
    assert (
        "unknown member"
        in problem(ada.post("/grants", {"revoke": [grant_item(valid_until=SOON)]}), 400)["errors"][0][
            "message"
        ]
    )
    bulk = {
        "verb": "revoke",
        "principals": ["user:dee"],
        "privileges": ["READ"],
        "entities": [ORDERS],
        "valid_until": SOON,
    }
    assert "only a grant has a period" in problem(ada.post("/plans/many", bulk), 400)["detail"]


def test_memberships_have_periods(ada):
    assert ada.post("/members", {"user": "out", "group": "operators", "valid_until": SOON}).json()["changed"]
    (member,) = ada.all_of("/members", user="out", valid="limited")
    assert member == {"user": "out", "group": "operators", **LIMITS}
    change = {
        "join": [
            {"user": "out", "group": "operators", "valid_until": LATER},
            {"user": "dee", "group": "operators"},
        ]
    }
    answer = ada.post("/memberships", change).json()
    assert [row["user"] for row in answer["joined"]] == ["dee"]
    assert answer["changed_periods"] == [
        {"user": "out", "group": "operators", "valid_from": None, "valid_until": LATER}
    ]
    assert Membership.objects.get(user__username="out").validity.valid_until > NOW + timedelta(days=2)


def test_the_items_of_plans_have_periods(ada):
    ada.post("/grants", {"grant": [grant_item(valid_until=SOON)]})
    plan = ada.post(
        "/plans",
        {
            "grant": [grant_item(valid_until=LATER)],
            "join": [{"user": "out", "group": "operators", "valid_from": SOON}],
        },
    ).json()
    grant, join = ada.all_of(f"/plans/{plan['number']}/items")
    assert (grant["valid_until"], grant["changes_period"], grant["before"]) == (LATER, True, LIMITS)
    assert (join["valid_from"], join["changes_period"]) == (SOON, False)
    removal = {"grant": [grant_item()]}
    assert ada.post("/grants", removal | {"dry_run": True}).json()["effect"]["periods_removed"] == 1
    plan = ada.post("/plans", removal).json()
    assert (plan["effect"]["grants"], plan["effect"]["periods_removed"]) == (1, 1)
    bulk = {
        "verb": "grant",
        "principals": ["user:dee"],
        "privileges": ["WRITE"],
        "within": "namespace:sales",
        "valid_until": SOON,
    }
    many = ada.post("/plans/many", bulk).json()
    assert many["recipe"]["valid_until"] == SOON
    assert {row["valid_until"] for row in ada.all_of(f"/plans/{many['number']}/items")} == {SOON}


def test_a_file_of_changes_has_periods(ada):
    header = "verb,principal,entity,privilege,valid_until\n"
    plan = ada.post("/plans/import", {"document": f"{header}grant,user:out,{ORDERS},READ,{SOON}\n"}).json()
    assert ada.all_of(f"/plans/{plan['number']}/items")[0]["valid_until"] == SOON
    refused = problem(
        ada.post("/plans/import", {"document": f"{header}grant,user:out,{ORDERS},READ,{PAST}\n"}), 400
    )
    assert (refused["errors"][0]["field"], refused["errors"][0]["index"]) == ("valid_until", 2)
