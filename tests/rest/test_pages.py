"""Pages by cursor: complete, without repetition, whatever their size; and cursors that nobody can bend."""

import pytest
from django.core import signing

from grants.journal import current_revision
from grants.models import GroupGrant, User, UserGrant
from tests.rest.conftest import problem
from tests.support.random_tenants import random_tenant, store_tenant

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("seed", range(6))
def test_pages_of_any_size_hold_everything_once(ada, seed):
    tenant = random_tenant(seed)
    tenant.entities = {address: state for address, state in tenant.entities.items() if address.kind != "instance"}
    tenant.grants = {grant for grant in tenant.grants if grant[1] in tenant.entities}
    store_tenant(tenant)
    queries = {
        "/entities": [{}, {"kind": "dataset"}, {"parent": "namespace:ns0"}, {"state": "live", "q": "1"}],
        "/users": [{}, {"active": "true"}], "/groups": [{}], "/members": [{}], "/journal": [{}, {"action": "register"}],
        "/grants": [{}, {"within": "namespace:ns0"}, {"principal": "user:user 0", "through_groups": "true"}],
    }
    for path, several in queries.items():
        for query in several:
            whole = ada.all_of(path, **query, limit=1_000)
            assert len({str(item) for item in whole}) == len(whole)
            for limit in (1, 7) if seed == 0 else (5,):
                assert ada.all_of(path, **query, limit=limit) == whole, (path, query, limit)
    assert len(ada.all_of("/grants")) == UserGrant.objects.count() + GroupGrant.objects.count()
    assert len(ada.all_of("/users")) == User.objects.count()


def test_a_list_that_changes_between_pages_neither_repeats_nor_skips_what_stayed(ada):
    first = ada.get("/users", limit=3).json()
    assert [user["name"] for user in first["items"]] == ["ada", "aud", "dee"]
    ada.post("/users", {"name": "abe"})
    ada.post("/users", {"name": "eve"})
    rest = ada.get("/users", limit=100, cursor=first["next"]).json()
    assert [user["name"] for user in rest["items"]] == ["eve", "grp", "ina", "ned", "out"] and rest["next"] is None


def test_a_full_last_page_says_that_it_is_the_last(ada):
    assert ada.get("/groups", limit=1).json()["next"] is None
    assert ada.get("/users", limit=7).json()["next"] is None
    assert ada.get("/users", limit=6).json()["next"] is not None


@pytest.mark.parametrize("path", ["/entities", "/users", "/groups", "/members", "/grants", "/journal", "/runs"])
def test_a_cursor_that_was_not_given_here_is_refused(ada, path):
    for cursor in ("x", "é", "0", signing.dumps(["x", [0, [1]]]), signing.dumps([0, [1]], salt="other")):
        assert problem(ada.get(path, cursor=cursor), 400)["errors"][0]["field"] == "cursor"


def test_a_cursor_belongs_to_its_list_and_its_filters(ada):
    cursor = ada.get("/entities", limit=2).json()["next"]
    for path, query in (("/entities", {"kind": "dataset"}), ("/users", {}), ("/grants", {})):
        assert "belongs to another list" in problem(ada.get(path, cursor=cursor, **query), 400)["detail"]
    altered = cursor[:-1] + ("A" if cursor[-1] != "A" else "B")
    problem(ada.get("/entities", cursor=altered), 400)
    assert ada.get("/entities", cursor=cursor, limit=9).status_code == 200


def test_a_cursor_of_what_everybody_sees_shows_an_ordinary_account_only_its_own(ada, by_session):
    cursor = ada.get("/entities", limit=2).json()["next"]
    seen = [entity["address"] for entity in by_session("dee").get("/entities", cursor=cursor).json()["items"]]
    assert set(seen) <= {"namespace:sales", "dataset:sales.orders", "dataset:sales.legacy"}


def test_the_journal_is_read_from_the_newest_line_on_with_every_filter(ada):
    lines = ada.all_of("/journal", limit=7)
    assert [line["revision"] for line in lines] == list(range(current_revision(), 0, -1))
    chosen = ada.all_of("/journal", principal="user:dee", action="grant")
    assert {line["entity"] for line in chosen} == {"dataset:sales.orders", "dataset:sales.legacy"}
    assert {line["action"] for line in ada.all_of("/journal", entity="dataset:hr.salaries")} == {"register"}
    assert ada.all_of("/journal", actor="nobody") == ada.all_of("/journal", since="2999-01-01T00:00:00Z") == []
    assert ada.all_of("/journal", until="2999-01-01T00:00:00Z", actor="the tests") == lines
    assert [line["revision"] for line in ada.all_of("/journal", from_revision=3, to_revision=5)] == [5, 4, 3]
    for wrong in ({"since": "yesterday"}, {"from_revision": "-1"}, {"principal": "dee"}, {"entity": "x"},
                  {"to_revision": "9" * 30}):
        problem(ada.get("/journal", **wrong), 400)


def test_the_proof_finds_a_line_that_was_altered(ada):
    from grants.models import JournalLine

    assert ada.get("/journal/proof").json() == {"holds": True, "revision": current_revision(), "first_break": None}
    JournalLine.objects.filter(revision=4).update(actor="somebody else")
    proof = ada.get("/journal/proof").json()
    assert proof["holds"] is False and proof["first_break"]["revision"] == 4
