"""Cursor pages are complete and without repetition for any size, and cursors cannot be altered."""

import pytest
from django.core import signing

from grants.journal import current_head, current_revision
from grants.models import GroupGrant, User, UserGrant
from tests.rest.conftest import problem
from tests.support.random_tenants import random_tenant, store_tenant

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("seed", range(6))
def test_pages_of_any_size_contain_each_item_once(ada, seed):
    tenant = random_tenant(seed)
    tenant.entities = {
        address: state for address, state in tenant.entities.items() if address.kind != "instance"
    }
    tenant.grants = {grant for grant in tenant.grants if grant[1] in tenant.entities}
    store_tenant(tenant)
    queries = {
        "/entities": [{}, {"kind": "dataset"}, {"parent": "namespace:ns0"}, {"state": "live", "q": "1"}],
        "/users": [{}, {"active": "true"}],
        "/groups": [{}],
        "/members": [{}],
        "/journal": [{}, {"action": "register"}],
        "/grants": [{}, {"within": "namespace:ns0"}, {"principal": "user:user 0", "through_groups": "true"}],
    }
    for path, filters in queries.items():
        for query in filters:
            all_items = ada.all_of(path, **query, limit=1_000)
            assert len({str(item) for item in all_items}) == len(all_items)
            for limit in (1, 7) if seed == 0 and path in ("/users", "/members", "/journal") else (5,):
                assert ada.all_of(path, **query, limit=limit) == all_items, (path, query, limit)
    assert len(ada.all_of("/grants")) == UserGrant.objects.count() + GroupGrant.objects.count()
    assert len(ada.all_of("/users")) == User.objects.count()


def test_changes_between_pages_neither_repeat_nor_skip_unchanged_items(ada):
    first = ada.get("/users", limit=3).json()
    assert [user["name"] for user in first["items"]] == ["ada", "aud", "dee"]
    ada.post("/users", {"name": "abe"})
    ada.post("/users", {"name": "eve"})
    rest = ada.get("/users", limit=100, cursor=first["next"]).json()
    assert [user["name"] for user in rest["items"]] == ["eve", "grp", "ina", "ned", "out"] and rest[
        "next"
    ] is None


def test_a_full_last_page_has_no_cursor(ada):
    assert ada.get("/groups", limit=1).json()["next"] is None
    assert ada.get("/users", limit=7).json()["next"] is None
    assert ada.get("/users", limit=6).json()["next"] is not None


@pytest.mark.parametrize(
    "path", ["/entities", "/users", "/groups", "/members", "/grants", "/journal", "/runs"]
)
def test_a_cursor_that_the_console_did_not_issue_is_refused(ada, path):
    for cursor in ("x", "é", "0", signing.dumps(["x", [0, [1]]]), signing.dumps([0, [1]], salt="other")):
        assert problem(ada.get(path, cursor=cursor), 400)["errors"][0]["field"] == "cursor"


def test_a_cursor_belongs_to_its_list_and_its_filters(ada):
    cursor = ada.get("/entities", limit=2).json()["next"]
    for path, query in (("/entities", {"kind": "dataset"}), ("/users", {}), ("/grants", {})):
        assert "belongs to another list" in problem(ada.get(path, cursor=cursor, **query), 400)["detail"]
    altered = cursor[:-1] + ("A" if cursor[-1] != "A" else "B")
    problem(ada.get("/entities", cursor=altered), 400)
    assert ada.get("/entities", cursor=cursor, limit=9).status_code == 200


def test_an_administrators_cursor_shows_an_ordinary_account_only_visible_entities(ada, by_session):
    cursor = ada.get("/entities", limit=2).json()["next"]
    seen = [entity["address"] for entity in by_session("dee").get("/entities", cursor=cursor).json()["items"]]
    assert set(seen) <= {"namespace:sales", "dataset:sales.orders", "dataset:sales.legacy"}


def test_the_journal_is_listed_newest_first_with_every_filter(ada):
    lines = ada.all_of("/journal", limit=7)
    assert [line["revision"] for line in lines] == list(range(current_revision(), 0, -1))
    filtered = ada.all_of("/journal", principal="user:dee", action="grant")
    assert {line["entity"] for line in filtered} == {"dataset:sales.orders", "dataset:sales.legacy"}
    assert {line["action"] for line in ada.all_of("/journal", entity="dataset:hr.salaries")} == {"register"}
    assert (
        ada.all_of("/journal", actor="nobody") == ada.all_of("/journal", since="2999-01-01T00:00:00Z") == []
    )
    assert ada.all_of("/journal", until="2999-01-01T00:00:00Z", actor="the tests") == lines
    assert [line["revision"] for line in ada.all_of("/journal", from_revision=3, to_revision=5)] == [5, 4, 3]
    for wrong in ({"since": "yesterday"}, {"entity": "x"}):
        problem(ada.get("/journal", **wrong), 400)


def test_the_proof_finds_a_changed_line(ada):
    from grants.models import JournalLine

    head, proof = current_head(), ada.get("/journal/proof").json()
    assert proof == {
        "holds": True,
        "revision": head.revision,
        "first_break": None,
        "verified_to": head.revision,
        "next": None,
        "head_hash": head.hash,
        "key_id": head.key_id,
        "read_only_reason": "",
    }
    JournalLine.objects.filter(revision=4).update(actor="another actor")
    proof = ada.get("/journal/proof").json()
    assert proof["holds"] is False and proof["first_break"]["revision"] == 4
