"""Pages of a search are complete, ordered, and bound to their search by a signed token."""

import pytest
from django.core import signing

from entities.address import Address
from entities.services import ensure_entities
from entities.vocabulary import Privilege
from grants.evaluation import authzen_search
from tests.api.conftest import RESOURCE_SEARCH
from tests.support.changes import change_grants

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("people")]

KEYS = sorted(f"lab.{name}" for name in ("a", "B", "a-b", "a.b", "a$", "Z_", "z", "10", "9", "record-1"))


@pytest.fixture(autouse=True)
def datasets(people):
    addresses = [Address("dataset", key) for key in KEYS]
    ensure_entities(states=dict.fromkeys(addresses, "live"))
    change_grants(grant=[("user:alice", address, Privilege.READ) for address in addresses])


@pytest.fixture(params=["collected", "walked"])
def strategy(request, monkeypatch):
    if request.param == "walked":
        monkeypatch.setattr(authzen_search, "FEW_GRANTS", -1)
        monkeypatch.setattr(authzen_search, "MAX_COLLECTED", (-1, -1))


def search(api, page=..., what="resource", body=RESOURCE_SEARCH, **changes):
    body = body | changes | ({} if page is ... else {"page": page})
    return api.search(what, body)


def ids(answer):
    assert answer.status_code == 200, answer.content
    return [result["id"] for result in answer.json()["results"]]


def test_a_complete_response_has_a_page_member_only_on_request(api):
    assert list(search(api).json()) == ["results"]
    assert search(api, page={}).json()["page"] == {"next_token": "", "count": len(KEYS), "total": len(KEYS)}


@pytest.mark.parametrize("limit", [1, 3, len(KEYS), 1_000_000, 10**30])
def test_paging_returns_each_result_once_in_byte_order(api, strategy, limit):
    collected, page = [], {"limit": limit}
    while True:
        answer = search(api, page=page).json()
        assert (
            list(answer) == ["page", "results"] and answer["page"]["count"] == len(answer["results"]) <= limit
        )
        collected += [result["id"] for result in answer["results"]]
        assert len(collected) <= len(KEYS), "the pages do not end"
        if not answer["page"]["next_token"]:
            break
        # the limit is not sent again because the token contains it
        page = {"token": answer["page"]["next_token"]}
    assert collected == KEYS


def test_a_response_longer_than_the_limit_is_paged_without_request(api, strategy, monkeypatch):
    monkeypatch.setattr("authzconsole.api.search.MAX_RESULTS", 4)
    answer = search(api).json()
    assert list(answer) == ["page", "results"] and answer["page"]["count"] == 4
    assert ids(search(api, page={"token": answer["page"]["next_token"]})) == KEYS[4:8]


def test_a_limit_of_zero_returns_only_counts(api):
    answer = search(api, page={"limit": 0}).json()
    assert answer == {"page": {"next_token": "", "count": 0, "total": len(KEYS)}, "results": []}


@pytest.mark.parametrize("what", ["subject", "resource", "action"])
def test_a_limit_of_zero_has_no_next_token(api, strategy, what):
    body = RESOURCE_SEARCH | {"resource": {"type": "dataset", "id": "lab.record-1"}}
    page = search(api, page={"limit": 0}, what=what, body=body).json()["page"]
    assert (page["next_token"], page["count"]) == ("", 0)


def test_an_empty_token_requests_the_first_page(api):
    assert ids(search(api, page={"limit": 2, "token": ""})) == KEYS[:2]


@pytest.mark.parametrize(
    "page",
    [
        [],
        "x",
        None,
        1,
        {"limit": -1},
        {"limit": "2"},
        {"limit": 1.0},
        {"limit": True},
        {"limit": None},
        {"properties": []},
        {"properties": "x"},
        {"properties": None},
        {"token": 7},
        {"token": None},
        {"token": "abc"},
        {"token": "a:b:c"},
        {"token": "é:é:é"},
        {"token": "x" * 10_000},
    ],
)
def test_a_malformed_page_is_refused(api, page):
    answer = search(api, page=page)
    assert answer.status_code == 400 and answer.json().startswith("`page")


def token(api, **page):
    return search(api, page=page or {"limit": 2}).json()["page"]["next_token"]


def test_an_altered_token_is_refused(api):
    page_token = token(api)
    for place in range(0, len(page_token), 7):
        altered = page_token[:place] + ("A" if page_token[place] != "A" else "B") + page_token[place + 1 :]
        assert search(api, page={"token": altered}).status_code == 400, altered
    assert search(api, page={"token": page_token[:-1]}).status_code == 400


def test_a_value_signed_for_another_purpose_is_not_a_token(api):
    assert search(api, page={"token": signing.dumps(["x", 2, ""], salt="another")}).status_code == 400


@pytest.mark.parametrize(
    "changes",
    [
        {"subject": {"type": "user", "id": "bob"}},
        {"subject": {"type": "group", "id": "readers"}},
        {"action": {"name": "write"}},
        {"resource": {"type": "stream"}},
        {"context": {"generation": "core"}},
        {"context": {"time": "later"}},
    ],
)
def test_a_token_belongs_to_its_search(api, changes):
    answer = search(api, page={"token": token(api)}, **changes)
    assert answer.status_code == 400 and "belongs to another search" in answer.json()


def test_a_token_of_one_search_type_is_refused_by_another(api):
    both = RESOURCE_SEARCH | {"resource": {"type": "dataset", "id": "lab.a"}}
    page_token = search(api, page={"limit": 1}, what="action", body=both).json()["page"]["next_token"]
    assert (
        page_token and search(api, page={"token": page_token}, what="subject", body=both).status_code == 400
    )


def test_a_token_can_be_repeated_with_the_same_limit_only(api):
    page_token = token(api, limit=2)
    assert search(api, page={"token": page_token, "limit": 3}).status_code == 400
    assert ids(search(api, page={"token": page_token, "limit": 2})) == KEYS[2:4]


def test_unknown_members_and_the_ignored_id_can_change_between_pages(api):
    page_token = token(api)
    page = {"token": page_token, "properties": {}}
    assert ids(search(api, page=page, resource={"type": "dataset", "id": "x"}, trace=1)) == KEYS[2:4]


def test_a_token_is_refused_after_the_active_generation_changed(api):
    from tests.support.changes import activate_generation

    page_token = token(api)
    activate_generation("proposed")
    assert search(api, page={"token": page_token}).status_code == 400


def test_grants_and_revocations_between_pages_neither_repeat_nor_skip_other_results(api, strategy):
    page_token = token(api, limit=3)
    change_grants(
        revoke=[("user:alice", Address("dataset", KEYS[2]), Privilege.READ)],
        grant=[("user:alice", Address("dataset", "lab.0"), Privilege.READ)],
    )
    assert ids(search(api, page={"token": page_token})) == KEYS[3:6]


@pytest.mark.parametrize(("what", "expected"), [("subject", ["alice", "bob"]), ("action", None)])
def test_subject_and_action_searches_are_paged_too(api, what, expected):
    body = {
        "subject": {"type": "user", "id": "alice"},
        "action": {"name": "read"},
        "resource": {"type": "dataset", "id": "lab.record-1"},
    }
    all_results = [
        result.get("id") or result["name"] for result in search(api, what=what, body=body).json()["results"]
    ]
    assert expected in (None, all_results)
    collected, page = [], {"limit": 1}
    while page is not None:
        answer = search(api, page=page, what=what, body=body).json()
        collected += [result.get("id") or result["name"] for result in answer["results"]]
        assert len(collected) <= len(all_results), "the pages do not end"
        page = {"token": answer["page"]["next_token"]} if answer["page"]["next_token"] else None
    assert collected == all_results and len(collected) > 1
