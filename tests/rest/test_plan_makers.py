"""Plans for many entities, for ghost grants and of a file, through REST."""

import pytest

from entities.address import parse_address
from entities.services import ensure_entities
from grants.changes.services import change_grants
from grants.models import Plan
from tests.rest.conftest import problem
from tests.support.authors import all_grants, database_state
from tests.support.cast import SALES, SETUP

pytestmark = pytest.mark.django_db

ORDERS, CUSTOMERS = "dataset:sales.orders", "dataset:sales.customers"
MANY = {"verb": "grant", "principals": ["user:out"], "privileges": ["READ"], "within": "namespace:sales"}
CHOSEN = {"verb": "revoke", "principals": ["user:ned"], "privileges": ["ADMIN"], "entities": [ORDERS, CUSTOMERS]}
HEADER = "verb,principal,entity,privilege\n"
GOOD = f"{HEADER}grant,user:out,{ORDERS},READ\nrevoke,user:ned,{ORDERS},ADMIN\n"


def items(ada, answer):
    assert answer.status_code == 201, answer.content
    path = answer["Location"].removeprefix("/api/v1")
    return [(item["verb"], item["principal"], item["entity"], item["privilege"]) for item in ada.all_of(f"{path}/items")]


def test_all_that_lives_in_a_container(ada):
    before = all_grants()
    made = ada.post("/plans/many", MANY)
    assert {entity for *_, entity, _ in items(ada, made)} == set(SALES) and made.json()["origin"] == "subtree"
    some = ada.post("/plans/many", MANY | {"kinds": ["dataset"], "itself": False})
    assert items(ada, some) == [("grant", "user:out", CUSTOMERS, "READ"), ("grant", "user:out", ORDERS, "READ")]
    assert some.json()["recipe"] == {"verb": "grant", "principals": ["user:out"], "privileges": ["READ"],
                                     "within": "namespace:sales", "kinds": ["dataset"], "itself": False}
    path = some["Location"].removeprefix("/api/v1")
    assert all_grants() == before and ada.post(f"{path}/apply", {"reason": "x"}).status_code == 200
    assert all_grants() - before == {("user:out", ORDERS, "READ"), ("user:out", CUSTOMERS, "READ")}
    assert ada.post("/plans/many", MANY).json()["effect"]["grants"] == 4


def test_what_was_chosen_one_by_one(ada):
    made = ada.post("/plans/many", CHOSEN)
    assert items(ada, made) == [("revoke", "user:ned", CUSTOMERS, "ADMIN"), ("revoke", "user:ned", ORDERS, "ADMIN")]
    assert (made.json()["origin"], made.json()["effect"]["stranded_none"]) == ("selection", 2)
    assert [plan["number"] for plan in ada.get("/plans", origin="selection").json()["items"]] == [made.json()["number"]]
    renewed = ada.post(f"/plans/{made.json()['number']}/renewal").json()
    assert renewed["effect"]["revokes"] == 2


@pytest.mark.parametrize(("sent", "status", "words"), [
    (MANY | {"entities": [ORDERS]}, 400, "either `within` or `entities`"),
    ({name: value for name, value in MANY.items() if name != "within"}, 400, "either `within` or `entities`"),
    (CHOSEN | {"kinds": ["dataset"]}, 400, "this requires `within`"), (MANY | {"verb": "take"}, 400,
                                                                       "verb: `take` is not one of"),
    (MANY | {"principals": []}, 400, "principals"), (MANY | {"privileges": ["OWN"]}, 400, "privileges"),
    (MANY | {"kinds": ["widget"]}, 400, "is not a kind"), (MANY | {"itself": "yes"}, 400, "itself"),
    (MANY | {"within": "namespace:nowhere"}, 409, "is not registered"), (MANY | {"within": ORDERS}, 409, "is not a container"),
    (MANY | {"kinds": ["namespace"]}, 409, "contains no entities of kind namespace"),
    (MANY | {"principals": ["user:x"]}, 409, "user:x is not known"),
    (MANY | {"principals": ["user:ned"], "privileges": ["ADMIN"]}, 409, "nothing to grant"),
    (CHOSEN | {"entities": ["dataset:sales.legacy"]}, 409, "only live entities"),
    (CHOSEN | {"entities": ["dataset:x"]}, 400, "lacks a part"), (CHOSEN | {"entities": [""]}, 400, "entities"),
])
def test_what_cannot_be_made_for_many_says_why(ada, sent, status, words):
    assert words in problem(ada.post("/plans/many", sent), status)["detail"] and not Plan.objects.exists()


def test_ghosts_are_taken_back(ada):
    assert items(ada, ada.post("/plans/ghosts", {})) == [("revoke", "user:dee", "dataset:sales.legacy", "WRITE")]
    assert len(items(ada, ada.post("/plans/ghosts", {"namespace": "namespace:sales"}))) == 1
    assert "no grant is on a deleted address" in problem(ada.post("/plans/ghosts", {"namespace": "namespace:hr"}), 409)["detail"]
    assert "is not a namespace" in problem(ada.post("/plans/ghosts", {"namespace": ORDERS}), 409)["detail"]
    problem(ada.post("/plans/ghosts", {"namespace": "sales"}), 400)


def test_a_file_is_taken_as_text(ada):
    made = ada.post("/plans/import", {"document": GOOD + GOOD.split("\n")[1], "title": "Quarter"})
    assert items(ada, made) == [("grant", "user:out", ORDERS, "READ"), ("revoke", "user:ned", ORDERS, "ADMIN")]
    assert (made.json()["title"], made.json()["origin"]) == ("Quarter", "file")
    assert made.json()["recipe"]["note"].startswith("1 line repeats")
    line = f'{{"verb":"grant","principal":"user:out","entity":"{ORDERS}","privilege":"READ"}}\n'
    assert len(items(ada, ada.post("/plans/import", {"document": line}))) == 1


def test_every_bad_line_of_a_file_is_an_error(ada):
    before = database_state()
    bad = GOOD + f"give,user:out,{ORDERS},READ\ngrant,user:nobody,{ORDERS},READ\ngrant,x\n"
    refused = problem(ada.post("/plans/import", {"document": bad}), 400)
    assert [(e["list"], e["index"], e.get("field", "")) for e in refused["errors"]] == [
        ("document", 4, "verb"), ("document", 5, "principal"), ("document", 6, "")]
    assert refused["detail"].startswith("3 bad lines, so no plan was made; the first is line 4") and database_state() == before
    assert "no changes" in problem(ada.post("/plans/import", {"document": HEADER}), 409)["detail"]
    for sent in ({}, {"document": ""}, {"document": 1}, {"document": "\ud800"}, {"document": GOOD, "file": "x"}):
        problem(ada.post("/plans/import", sent), 400)
    problem(ada.post("/plans/import", GOOD, Content_Type="text/csv"), 415)


def test_a_plan_for_many_costs_queries_by_the_chunk(by_token, django_assert_max_num_queries):
    rest = by_token("ada")
    rest.get("/analyses")
    for first, last in ((0, 2), (2, 300)):
        addresses = [parse_address(f"dataset:sales.more{number}") for number in range(first, last)]
        ensure_entities(states=dict.fromkeys(addresses, "live"))
        change_grants(author=SETUP, grant=[("user:ned", address, "ADMIN") for address in addresses])
        with django_assert_max_num_queries(23):
            assert rest.post("/plans/many", MANY).status_code == 201
