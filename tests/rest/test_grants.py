"""Change sets over REST are atomic, idempotent and report every error; grants are listed and filtered."""

import pytest

from authzconsole.common.periods import NO_LIMITS
from entities.address import parse_address
from entities.services import ensure_entities
from grants.journal import current_revision
from tests.rest.conftest import grant_item, problem
from tests.support.authors import all_grants, database_state, lines_after

pytestmark = pytest.mark.django_db

ORDERS = "dataset:sales.orders"


def test_a_change_set_grants_and_revokes_together(ada):
    revision = current_revision()
    answer = ada.post(
        "/grants",
        {
            "grant": [grant_item("user:out", ORDERS, "READ", "WRITE")],
            "revoke": [grant_item("user:dee")],
            "reason": "because",
            "base_revision": revision,
        },
    )
    assert answer.status_code == 200
    content = answer.json()
    assert content["changed"] and content["revision"] == current_revision() == revision + 3
    assert content["granted"] == [
        {"principal": "user:out", "entity": ORDERS, "privilege": name, **NO_LIMITS}
        for name in ("READ", "WRITE")
    ]
    assert content["revoked"] == [
        {"principal": "user:dee", "entity": ORDERS, "privilege": "READ", **NO_LIMITS}
    ]
    assert {("user:out", ORDERS, "READ"), ("user:out", ORDERS, "WRITE")} <= all_grants()
    assert ("user:dee", ORDERS, "READ") not in all_grants()
    (line, *_) = ada.get("/journal").json()["items"]
    assert (line["actor"], line["reason"], line["request_id"]) == ("ada", "because", answer["X-Request-ID"])


def test_the_same_change_set_again_changes_nothing(ada):
    body = {"grant": [grant_item()], "revoke": [grant_item("user:dee")]}
    ada.post("/grants", body)
    before = database_state()
    answer = ada.post("/grants", body).json()
    assert not answer["changed"] and len(answer["unchanged"]) == 2 and database_state() == before


def test_a_grant_on_an_unregistered_address_registers_it_as_planned(ada):
    answer = ada.post("/grants", {"grant": [grant_item("user:out", "dataset:new.one")]}).json()
    assert answer["planned"] == ["namespace:new", "dataset:new.one"]
    assert ada.get("/entities/dataset:new.one").json()["state"] == "planned"


def test_a_stale_base_is_refused_with_both_revisions(ada):
    stale = current_revision()
    ada.post("/grants", {"grant": [grant_item()]})
    before = database_state()
    refused = problem(ada.post("/grants", {"revoke": [grant_item()], "base_revision": stale}), 409)
    assert refused["type"].endswith(":stale-base")
    assert (refused["base_revision"], refused["revision"]) == (
        stale,
        stale + 1,
    ) and database_state() == before


def test_a_dry_run_reports_the_changes_and_writes_nothing(ada):
    body = {"grant": [grant_item("user:out", "dataset:new.one")], "revoke": [grant_item("user:dee")]}
    before, revision = database_state(), current_revision()
    forecast = ada.post("/grants", body | {"dry_run": True}).json()
    assert database_state() == before and forecast["dry_run"] and forecast["revision"] == revision
    applied = ada.post("/grants", body | {"base_revision": forecast["revision"]}).json()
    for member in ("changed", "granted", "revoked", "planned", "unchanged", "principals", "notices"):
        assert forecast[member] == applied[member], member
    assert forecast["sentence"] == (
        "would grant 1, would revoke 1; 2 addresses would be registered as planned: "
        "namespace:new, dataset:new.one"
    )
    assert (
        applied["sentence"]
        == "granted 1, revoked 1; 2 addresses are only planned: namespace:new, dataset:new.one"
    )


@pytest.mark.parametrize("dry_run", [True, False])
def test_notices_name_grants_that_have_no_effect_yet(ada, dry_run):
    sent = {
        "grant": [
            grant_item("user:out", "dataset:sales.legacy"),
            grant_item("user:ina", "dataset:sales.legacy", "WRITE"),
            grant_item("user:out", "dataset:sales.forecast"),
            grant_item("user:out"),
        ],
        "dry_run": dry_run,
    }
    assert ada.post("/grants", sent).json()["notices"] == [
        "dataset:sales.legacy was deleted: a grant on it takes effect only if it is recreated",
        "dataset:sales.forecast is only planned: a grant on it takes effect once it is registered",
        "user:ina is inactive: its grants have no effect until it is active again",
    ]
    sent = {
        "grant": [grant_item("user:out", ORDERS, "WRITE")],
        "revoke": [grant_item("user:dee", "dataset:sales.legacy")],
        "dry_run": dry_run,
    }
    assert ada.post("/grants", sent).json()["notices"] == []


def test_the_summary_names_the_first_five_of_many_planned_addresses(ada):
    many = [grant_item("user:out", f"dataset:sales.new{number}") for number in range(8)]
    assert ada.post("/grants", {"grant": many}).json()["sentence"] == (
        "granted 8; 8 addresses are only planned: "
        + ", ".join(f"dataset:sales.new{n}" for n in range(5))
        + " and 3 more"
    )


def test_a_dry_run_is_refused_if_the_change_would_be_refused(ada):
    problem(ada.post("/grants", {"grant": [grant_item("user:nobody")], "dry_run": True}), 400)
    problem(ada.post("/grants", {"grant": [grant_item()], "dry_run": True, "base_revision": 1}), 409)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (grant_item("user:nobody"), "user:nobody does not exist"),
        (grant_item("dee"), "is not a principal"),
        (grant_item("user:"), "the name is empty"),
        (grant_item("user:dee", "dataset:sales"), "lacks a part"),
        (grant_item("user:dee", "dataset:sales.a\tb"), "contains a character"),
        (grant_item("user:dee", "instance:other"), "is not the instance of this console"),
        (grant_item("user:dee", ORDERS, "read"), "is not one of READ"),
        ({"principal": "user:dee", "entity": ORDERS}, "`privileges`: this member is required"),
        ({"principal": "user:dee", "entity": ORDERS, "privileges": []}, "`privileges`"),
        ({"principal": "user:dee", "entity": 5, "privileges": ["READ"]}, "`entity`: this must be a string"),
        (
            {"principal": "user:dee", "entity": ORDERS, "privileges": ["READ"], "until": "x"},
            "`until`: unknown member",
        ),
        ("user:dee", "an item must be an object"),
        (None, "an item must be an object"),
        (
            grant_item("user:ned", ORDERS, "READ", "READ"),
            "READ on dataset:sales.orders for user:ned repeats grant[17]",
        ),
        (grant_item("user:ned", "DATASET:sales.d3", "READ"), "repeats grant[3]"),
    ],
)
def test_one_invalid_item_is_named_and_nothing_is_granted(ada, wrong, message):
    check_one_invalid_item(ada, wrong, message, count=20, index=17)


def test_one_invalid_item_of_a_thousand_is_named_and_nothing_is_granted(ada):
    check_one_invalid_item(
        ada,
        grant_item("user:nobody", "dataset:sales.orders"),
        "user:nobody does not exist",
        count=1_000,
        index=617,
    )


def check_one_invalid_item(ada, wrong, message, *, count, index):
    items = [grant_item("user:ned", f"dataset:sales.d{number}") for number in range(count)]
    items[index] = wrong
    before = database_state()
    refused = problem(ada.post("/grants", {"grant": items}), 400)
    (error,) = refused["errors"]
    assert (error["list"], error["index"]) == ("grant", index) and message in error["message"], error
    assert database_state() == before


def test_all_errors_of_a_change_set_are_reported_together(ada):
    refused = problem(
        ada.post(
            "/grants",
            {
                "grant": [
                    grant_item(),
                    grant_item("user:nobody", ORDERS, "READ", "WRITE"),
                    {"principal": 1},
                    grant_item("user:out", "rubbish"),
                ],
                "revoke": [grant_item("group:nobody"), grant_item("user:out")],
            },
        ),
        400,
    )
    assert [(error["list"], error["index"]) for error in refused["errors"]] == [
        ("grant", 1),
        ("grant", 2),
        ("grant", 3),
        ("revoke", 0),
        ("revoke", 1),
    ]
    assert "repeats grant[0]" in refused["errors"][-1]["message"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "nothing to change"),
        ({"grant": [], "revoke": []}, "nothing to change"),
        (
            {"grant": [grant_item("user:ned", f"dataset:sales.d{n}") for n in range(1_001)]},
            "the limit is 1,000",
        ),
        ({"grant": {}}, "grant"),
        ({"grant": [grant_item()], "base_revision": True}, "base_revision: this must be an integer"),
        (
            b'{"base_revision": ' + b"7" * 5_000 + b"}",
            "it contains a number with 5,000 digits; 1,000 are allowed",
        ),
        ({"grant": [grant_item()], "reason": "\0"}, "reason: it contains the character"),
        ({"grant": [grant_item()], "reason": "\ud800"}, "reason: it contains half of a surrogate pair"),
    ],
)
def test_an_invalid_change_set_is_refused_as_a_whole(ada, body, message):
    before = database_state()
    assert message in problem(ada.post("/grants", body), 400)["detail"]
    assert database_state() == before


def test_the_number_of_queries_does_not_grow_with_the_items(ada, django_assert_max_num_queries):
    counts = []
    # the ids of the permissions are read and cached once
    ada.post("/grants", {"grant": [grant_item()]})
    for size in (2, 200):
        places = [parse_address(f"dataset:sales.s{size}-{n}") for n in range(size)]
        ensure_entities(states=dict.fromkeys(places, "live"))
        items = [grant_item("user:ned", str(place)) for place in places]
        with django_assert_max_num_queries(40) as queries:
            assert ada.post("/grants", {"grant": items}).status_code == 200
        counts.append(len(queries))
    assert counts[0] == counts[1]


def listed_grants(rest, **query):
    return {
        (grant["principal"], grant["entity"], grant["privilege"]) for grant in rest.all_of("/grants", **query)
    }


def test_grants_are_listed_by_entity_by_principal_and_through_groups(ada):
    assert listed_grants(ada) == all_grants()
    assert listed_grants(ada, entity=ORDERS) == {grant for grant in all_grants() if grant[1] == ORDERS}
    assert listed_grants(ada, principal="user:grp") == set()
    through = listed_grants(ada, principal="user:grp", through_groups="true")
    assert (
        through
        == listed_grants(ada, principal="group:operators")
        == {grant for grant in all_grants() if grant[0] == "group:operators"}
    )
    inside = {grant for grant in all_grants() if grant[1].split(":")[1].startswith("sales")}
    assert listed_grants(ada, within="namespace:sales") == inside
    assert listed_grants(ada, within="application:sales.shop") == {
        grant for grant in all_grants() if "sales.shop" in grant[1]
    }
    assert (
        listed_grants(ada, principal="user:nobody")
        == listed_grants(ada, entity="dataset:sales.nothing")
        == set()
    )
    assert ada.get("/grants").json()["revision"] == current_revision()


def test_a_listed_grant_has_its_author_time_and_reason(ada):
    ada.post("/grants", {"grant": [grant_item()], "reason": "because"})
    (grant,) = ada.get("/grants", principal="user:out").json()["items"]
    assert (grant["granted_by"], grant["reason"], grant["state"]) == ("ada", "because", "live")
    assert grant["granted_at"].endswith("Z")


def test_changes_are_journaled_in_the_order_of_the_service(ada):
    revision = current_revision()
    ada.post("/grants", {"grant": [grant_item()], "revoke": [grant_item("user:dee")]})
    assert [line[0] for line in lines_after(revision)] == ["revoke", "grant"]
