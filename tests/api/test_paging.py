"""Pages of a search: complete, in order, and tied to their search by a token that cannot be altered."""

import pytest
from django.core import signing

from authzconsole.api import page_tokens
from entities.address import Address
from entities.services import ensure_entities
from entities.vocabulary import Privilege
from grants.changes.services import change_grants
from grants.evaluation import authzen_search as searching
from tests.api.conftest import OPERATOR

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("people")]

KEYS = sorted(f"lab.{name}" for name in ("a", "B", "a-b", "a.b", "a$", "Z_", "z", "10", "9", "record-1"))
BODY = {"subject": {"type": "user", "id": "alice"}, "action": {"name": "read"}, "resource": {"type": "dataset"}}


@pytest.fixture(autouse=True)
def datasets(people):
    addresses = [Address("dataset", key) for key in KEYS]
    ensure_entities(states=dict.fromkeys(addresses, "live"))
    change_grants(author=OPERATOR, grant=[("user:alice", address, Privilege.READ) for address in addresses])


@pytest.fixture(params=["collected", "walked"])
def way(request, monkeypatch):
    if request.param == "walked":
        monkeypatch.setattr(searching, "FEW_GRANTS", -1)
        monkeypatch.setattr(searching, "MAX_COLLECTED", (-1, -1))


def search(api, page=..., what="resource", body=BODY, **changes):
    body = body | changes | ({} if page is ... else {"page": page})
    return api.search(what, body)


def ids(answer):
    assert answer.status_code == 200, answer.content
    return [result["id"] for result in answer.json()["results"]]


def test_a_complete_answer_has_no_page_unless_it_is_asked_for(api):
    assert list(search(api).json()) == ["results"]
    assert search(api, page={}).json()["page"] == {"next_token": "", "count": len(KEYS), "total": len(KEYS)}


@pytest.mark.parametrize("limit", [1, 3, len(KEYS), 1_000_000, 10**30])
def test_following_the_tokens_meets_each_result_once_in_the_order_of_the_bytes(api, way, limit):
    met, page = [], {"limit": limit}
    while True:
        answer = search(api, page=page).json()
        assert list(answer) == ["page", "results"] and answer["page"]["count"] == len(answer["results"]) <= limit
        met += [result["id"] for result in answer["results"]]
        assert len(met) <= len(KEYS), "the pages do not end"
        if not answer["page"]["next_token"]:
            break
        # the limit is not repeated: the token carries it
        page = {"token": answer["page"]["next_token"]}
    assert met == KEYS


def test_an_answer_longer_than_the_console_gives_at_once_has_a_page_unasked(api, way, monkeypatch):
    monkeypatch.setattr(page_tokens, "MAX_RESULTS", 4)
    answer = search(api).json()
    assert list(answer) == ["page", "results"] and answer["page"]["count"] == 4
    assert ids(search(api, page={"token": answer["page"]["next_token"]})) == KEYS[4:8]


def test_a_limit_of_zero_counts(api):
    answer = search(api, page={"limit": 0}).json()
    assert answer == {"page": {"next_token": "", "count": 0, "total": len(KEYS)}, "results": []}


@pytest.mark.parametrize("what", ["subject", "resource", "action"])
def test_a_limit_of_zero_leads_to_no_page(api, way, what):
    body = BODY | {"resource": {"type": "dataset", "id": "lab.record-1"}}
    page = search(api, page={"limit": 0}, what=what, body=body).json()["page"]
    assert (page["next_token"], page["count"]) == ("", 0)


def test_an_empty_token_comes_before_the_first_page(api):
    first = search(api, page={"limit": 2, "token": ""})
    assert first.json() == search(api, page={"limit": 2}).json() and ids(first) == KEYS[:2]


@pytest.mark.parametrize("page", [[], "x", None, 1, {"limit": -1}, {"limit": "2"}, {"limit": 1.0}, {"limit": True},
                                  {"limit": None}, {"token": 7}, {"token": None}, {"token": "abc"},
                                  {"token": "a:b:c"}, {"token": "\ud800"}, {"token": "é:é:é"}, {"token": "x" * 10_000}])
def test_a_malformed_page_is_refused(api, page):
    answer = search(api, page=page)
    assert answer.status_code == 400 and answer.json().startswith("`page")


def token(api, **page):
    return search(api, page=page or {"limit": 2}).json()["page"]["next_token"]


def test_an_altered_token_is_refused(api):
    given = token(api)
    for place in range(0, len(given), 7):
        altered = given[:place] + ("A" if given[place] != "A" else "B") + given[place + 1 :]
        assert search(api, page={"token": altered}).status_code == 400, altered
    assert search(api, page={"token": given[:-1]}).status_code == 400


def test_a_value_signed_for_another_purpose_is_no_token(api):
    assert search(api, page={"token": signing.dumps(["x", 2, ""], salt="another")}).status_code == 400


@pytest.mark.parametrize("changes", [
    {"subject": {"type": "user", "id": "bob"}}, {"subject": {"type": "group", "id": "readers"}}, {"action": {"name": "write"}},
    {"resource": {"type": "stream"}}, {"context": {"generation": "core"}}, {"context": {"time": "later"}},
])
def test_a_token_belongs_to_its_search(api, changes):
    answer = search(api, page={"token": token(api)}, **changes)
    assert answer.status_code == 400 and "belongs to another search" in answer.json()


def test_a_token_of_one_kind_of_search_is_none_of_another(api):
    both = BODY | {"resource": {"type": "dataset", "id": "lab.a"}}
    given = search(api, page={"limit": 1}, what="action", body=both).json()["page"]["next_token"]
    assert given and search(api, page={"token": given}, what="subject", body=both).status_code == 400


def test_another_limit_is_refused_and_the_same_is_not(api):
    given = token(api, limit=2)
    assert search(api, page={"token": given, "limit": 3}).status_code == 400
    assert ids(search(api, page={"token": given, "limit": 2})) == KEYS[2:4]


def test_unknown_members_and_the_ignored_id_may_change_between_pages(api):
    given = token(api)
    page = {"token": given, "properties": {}}
    assert ids(search(api, page=page, resource={"type": "dataset", "id": "x"}, trace=1)) == KEYS[2:4]


def test_when_the_active_generation_changes_a_search_begins_anew(api):
    from grants.active_generation import activate_generation
    given = token(api)
    activate_generation(author=OPERATOR, name="proposed")
    assert search(api, page={"token": given}).status_code == 400


def test_what_was_granted_and_revoked_meanwhile_neither_repeats_nor_hides_the_rest(api, way):
    given = token(api, limit=3)
    change_grants(author=OPERATOR, revoke=[("user:alice", Address("dataset", KEYS[2]), Privilege.READ)],
                  grant=[("user:alice", Address("dataset", "lab.0"), Privilege.READ)])
    assert ids(search(api, page={"token": given})) == KEYS[3:6]


@pytest.mark.parametrize(("what", "expected"), [("subject", ["alice", "bob"]), ("action", None)])
def test_the_other_searches_have_pages_too(api, what, expected):
    body = {"subject": {"type": "user", "id": "alice"}, "action": {"name": "read"},
            "resource": {"type": "dataset", "id": "lab.record-1"}}
    whole = [result.get("id") or result["name"] for result in search(api, what=what, body=body).json()["results"]]
    assert expected in (None, whole)
    met, page = [], {"limit": 1}
    while page is not None:
        answer = search(api, page=page, what=what, body=body).json()
        met += [result.get("id") or result["name"] for result in answer["results"]]
        assert len(met) <= len(whole), "the pages do not end"
        page = {"token": answer["page"]["next_token"]} if answer["page"]["next_token"] else None
    assert met == whole and len(met) > 1
