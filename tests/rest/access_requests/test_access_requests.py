"""Test the REST resources of access requests."""

import json

import pytest

from entities.address import parse_address
from grants.models import AccessRequest, UserGrant
from grants.requests.approvers import set_namespace_approvers
from tests.rest.conftest import problem
from tests.support.authors import COMMAND

pytestmark = pytest.mark.django_db
ORDERS = {"entity": "dataset:sales.orders", "operation": "read"}
SALARIES = {"entity": "dataset:hr.salaries", "operation": "read"}
UNTIL = "2126-12-05T17:00:00+01:00"


@pytest.fixture
def out(by_session):
    return by_session("out")


@pytest.fixture
def ada(by_session):
    return by_session("ada")


def request_access(caller, *parts, **members) -> str:
    """Create a request, and return its path."""
    answer = caller.post(
        "/access-requests", {"parts": parts or [ORDERS], "reason": "quarterly close"} | members
    )
    assert answer.status_code == 201, answer.content
    return answer["Location"].removeprefix("/api/v1")


def grants_of(name: str) -> set[str]:
    return {
        f"{grant.privilege} {grant.content_object}" for grant in UserGrant.objects.filter(user__username=name)
    }


def test_a_request_is_created_read_approved_and_listed(out, ada):
    path = request_access(out, valid_until=UNTIL)
    created = out.get(path).json()
    assert created["valid_until"] == "2126-12-05T16:00:00Z" and created["can"] == ["withdraw"]
    assert [(part["entity"], part["operation"], part["state"]) for part in created["parts"]] == [
        ("dataset:sales.orders", "read", "pending")
    ]
    assert ada.get(path).json()["can"] == ["approve", "reject", "ask"]
    proposals = ada.get(f"{path}/proposals").json()
    (part,) = proposals["parts"]
    assert part["proposals"][0]["grants"] == [{"entity": "dataset:sales.orders", "privilege": "READ"}]
    assert (part["entity_state"], part["held"], part["colleagues"]) == ("live", [], 0)
    approved = ada.post(
        f"{path}/approve",
        {"effect": proposals["effect"]["digest"], "confirm_beyond": True, "comment": "fine"},
    ).json()
    assert approved["state"] == "approved" and approved["parts"][0]["plan"] is not None
    assert grants_of("out") == {"READ dataset:sales.orders"}
    mine = out.get("/access-requests", show="mine").json()["items"]
    assert [(row["state"], row["number"]) for row in mine] == [("approved", approved["number"])]
    assert out.get(path).json()["parts"][0]["plan"] is None
    assert [event["kind"] for event in out.get(path).json()["events"]] == ["created", "approved"]


def test_an_approver_sees_the_effect_of_a_proposal_only_if_it_decides_about_all_of_it(
    out, ada, by_session, settings
):
    settings.DELEGATION = True
    question = {
        "subject": {"type": "user", "id": "out"},
        "action": {"name": "deploy"},
        "resource": {"type": "application", "id": "sales.new"},
        "context": {"business_justification": "close", "artifact": "artifact:hr.etl"},
    }
    created = out.client.post("/access/v1/requests", json.dumps(question), content_type="application/json")
    assert created.status_code == 202, created.content
    path = f"/access-requests/{AccessRequest.objects.get().pk}/proposals"
    hidden, shown = by_session("ned").get(path).json(), ada.get(path).json()
    assert hidden["effect"] is None and shown["effect"]["purpose"] is not None
    for answer, is_hidden in ((hidden, True), (shown, False)):
        (part,) = answer["parts"]
        assert {part["colleagues"] is None, part["colleagues_holding"] is None} == {is_hidden}
        assert {proposal["beyond"] is None for proposal in part["proposals"]} == {is_hidden}
    page = (
        by_session("ned")
        .client.get(f"/requests/{AccessRequest.objects.get().pk}/?preview=yes")
        .content.decode()
    )
    assert "you cannot approve it or see its effect" in page and 'button main" disabled' in page
    refused = by_session("ned").post(path.replace("proposals", "approve"), {"confirm_beyond": True})
    assert refused.status_code == 403 and not grants_of("out")


def test_an_approval_beyond_the_request_must_be_confirmed(out, ada):
    path = request_access(out)
    digest = ada.get(f"{path}/proposals").json()["effect"]["digest"]
    for body in ({}, {"effect": digest}):
        assert problem(ada.post(f"{path}/approve", body), 409)["type"].endswith("unconfirmed-effect")
    assert problem(ada.post(f"{path}/approve", {"effect": "0"}), 409)["type"].endswith("effect-changed")
    assert ada.post(f"{path}/approve", {"confirm_beyond": True}).json()["state"] == "approved"
    assert "already approved" in problem(ada.post(f"{path}/approve", {"confirm_beyond": True}), 409)["detail"]


def test_an_approver_chooses_another_proposal_and_shortens_the_period(out, ada):
    path = request_access(out, ORDERS | {"operation": "get"}, valid_until=UNTIL)
    (part,) = ada.get(f"{path}/proposals").json()["parts"]
    widest = part["proposals"][-1]
    digest = ada.get(f"{path}/proposals", choose=f"1:{widest['id']}").json()["effect"]["digest"]
    body = {"parts": [{"position": 1, "proposal": widest["id"]}], "effect": digest, "confirm_beyond": True}
    refused = ada.post(f"{path}/approve", body | {"valid_until": "2127-01-01T00:00:00Z"})
    assert "can only shorten" in problem(refused, 400)["detail"]
    answer = ada.post(f"{path}/approve", body | {"valid_until": "2126-01-01T00:00:00Z"}).json()
    assert answer["parts"][0]["valid_until"] == "2126-01-01T00:00:00Z"
    assert grants_of("out") == {f"{widest['grants'][0]['privilege']} dataset:sales.orders"}


@pytest.mark.parametrize(
    ("members", "status", "message"),
    [
        ({"valid_until": "2126-12-05T17:00:00"}, 400, "time zone"),
        ({"valid_until": "2020-12-05T17:00:00Z"}, 400, "past"),
        ({"parts": [{"entity": "dataset:sales", "operation": "read"}]}, 400, "parts[0].entity: "),
        ({"parts": [ORDERS | {"operation": "fly"}]}, 400, "not an operation"),
        ({"subject": "dee"}, 403, "only request access for itself"),
    ],
)
def test_an_invalid_request_is_refused(out, members, status, message):
    answer = out.post("/access-requests", {"parts": [ORDERS], "reason": "x"} | members)
    assert message in problem(answer, status)["detail"]
    assert not AccessRequest.objects.exists()


def test_what_is_held_or_pending_already_is_refused_with_a_reference(by_session, out):
    assert problem(by_session("dee").post("/access-requests", {"parts": [ORDERS], "reason": "x"}), 409)[
        "type"
    ].endswith("already-permitted")
    path = request_access(out)
    duplicate = problem(out.post("/access-requests", {"parts": [ORDERS], "reason": "x"}), 409)
    assert duplicate["type"].endswith("duplicate-request") and path.endswith(f"/{duplicate['request']}")


def test_the_answer_does_not_tell_whether_an_address_or_a_colleague_exists(out):
    def answer(**members):
        content = out.post("/access-requests", {"reason": "x"} | members).json()
        return {
            name: value
            for name, value in content.items()
            if name not in ("number", "created_at", "expires_at", "events")
        }

    hidden, missing = (
        answer(parts=[SALARIES | {"entity": address}])
        for address in ("dataset:hr.salaries", "dataset:no.thing")
    )
    assert hidden["parts"][0].pop("entity") != missing["parts"][0].pop("entity") and hidden == missing
    ned, nobody = (answer(colleague=name) for name in ("ned", "nobody"))
    assert ned.pop("colleague") == "ned" and nobody.pop("colleague") == "nobody" and ned == nobody


def test_strangers_see_nothing_and_change_nothing(by_session, out):
    path, dee = request_access(out), by_session("dee")
    assert dee.get("/access-requests").json()["items"] == []
    steps = {
        "approve": {},
        "reject": {"reason": "x"},
        "ask": {"question": "x"},
        "answer": {"answer": "x"},
        "withdraw": {},
    }
    answers = [
        dee.get(path),
        dee.get(f"{path}/proposals"),
        *(dee.post(f"{path}/{step}", body) for step, body in steps.items()),
    ]
    assert {problem(answer, 404)["detail"] for answer in answers} == {
        problem(dee.get("/access-requests/999999"), 404)["detail"]
    }


def test_auditors_read_and_do_not_decide_and_requesters_do_not_see_proposals(by_session, out):
    path, aud = request_access(out), by_session("aud")
    assert aud.get(path).json()["can"] == [] and aud.get(f"{path}/proposals").status_code == 200
    problem(out.get(f"{path}/proposals"), 403)
    for caller in (aud, out):
        problem(caller.post(f"{path}/reject", {"reason": "x"}), 403)
        problem(caller.post(f"{path}/approve", {"parts": [{"position": 1}]}), 403)
        problem(caller.post(f"{path}/ask", {"question": "x"}), 403)
    problem(aud.post(f"{path}/withdraw"), 403)


def test_the_group_of_a_namespace_sees_and_decides_only_its_parts(by_session, out, ada):
    assert ada.put("/approvers", {"namespace": "namespace:sales", "group": "operators"}).status_code == 200
    assert ada.get("/approvers").json()["items"] == [{"namespace": "namespace:sales", "group": "operators"}]
    path, grp = request_access(out, ORDERS, SALARIES), by_session("grp")
    (row,) = grp.get("/access-requests", show="to-decide").json()["items"]
    seen = grp.get(path)
    assert (
        seen.json()["hidden_parts"] == 1
        and b"salaries" not in seen.content
        and path.endswith(str(row["number"]))
    )
    assert b"salaries" not in grp.get(f"{path}/proposals").content
    assert grp.post(f"{path}/approve", {"confirm_beyond": True}).json()["state"] == "pending"
    assert [part["state"] for part in out.get(path).json()["parts"]] == ["approved", "pending"]
    assert grp.get("/access-requests", show="to-decide", state="approved").json()["items"] == []


def test_a_question_is_asked_and_answered_and_a_request_withdrawn(out, ada):
    path = request_access(out)
    problem(out.post(f"{path}/answer", {"answer": "x"}), 400)
    assert ada.post(f"{path}/ask", {"question": "For which report?"}).json()["waits_for_answer"] is True
    assert out.get(path).json()["can"] == ["answer", "withdraw"]
    assert ada.get("/access-requests", show="to-decide").json()["items"] == []
    assert out.post(f"{path}/answer", {"answer": "The yearly one."}).json()["waits_for_answer"] is False
    assert out.post(f"{path}/withdraw", {"comment": "not needed"}).json()["state"] == "cancelled"
    assert [row["state"] for row in out.get("/access-requests", state="cancelled").json()["items"]] == [
        "cancelled"
    ]
    problem(ada.get(f"{path}/proposals"), 409)


def test_the_access_of_a_colleague_is_shown_only_as_far_as_it_was_approved(out, ada):
    path = out.post("/access-requests", {"colleague": "ned", "reason": "same team"})["Location"].removeprefix(
        "/api/v1"
    )
    assert out.get(path).json()["parts"] == []
    parts = ada.get(path).json()["parts"]
    assert len(parts) > 3
    ada.post(f"{path}/approve", {"parts": [{"position": 2}], "confirm_beyond": True})
    assert [part["position"] for part in out.get(path).json()["parts"]] == [2]


def test_an_administrator_requests_access_for_others_and_cannot_approve_it(by_session, ada):
    path = request_access(ada, subject="out")
    assert by_session("out").get(path).json()["created_by"] == "ada"
    problem(ada.post(f"{path}/approve", {"confirm_beyond": True}), 403)
    problem(ada.post("/access-requests", {"parts": [ORDERS], "reason": "x", "subject": "nobody"}), 409)


def test_the_list_has_pages_and_filters(out, ada):
    paths = [
        request_access(out, {"entity": f"dataset:sales.d{number}", "operation": "READ"})
        for number in range(3)
    ]
    assert [f"/access-requests/{row['number']}" for row in ada.all_of("/access-requests", limit=1)] == paths[
        ::-1
    ]
    assert len(ada.all_of("/access-requests", show="to-decide", state="pending")) == 3
    problem(ada.get("/access-requests", show="everything"), 400)


def test_the_queries_of_lists_and_requests_do_not_grow(
    out, ada, django_assert_num_queries, django_assert_max_num_queries
):
    set_namespace_approvers(author=COMMAND, namespace=parse_address("namespace:sales"), group="operators")
    path = request_access(out)
    request_access(out, SALARIES)
    with django_assert_max_num_queries(6):
        assert len(ada.get("/access-requests").json()["items"]) == 2
    with django_assert_max_num_queries(9):
        out.get(path)


def test_downloads_have_the_parts_that_the_caller_may_see(out, ada, by_session, monkeypatch):
    monkeypatch.setattr("authzconsole.lists.requests.AccessRequests.rows_per_read", 1)
    set_namespace_approvers(author=COMMAND, namespace=parse_address("namespace:sales"), group="operators")
    request_access(out, ORDERS, SALARIES)
    request_access(out, {"entity": "dataset:hr.x", "operation": "WRITE"})
    out.post("/access-requests", {"colleague": "ned", "reason": "=same team"})

    def parts(client) -> list[list[str]]:
        return [
            json.loads(line)["parts"] for line in _content(client.get("/access-requests.jsonl")).splitlines()
        ]

    orders, salaries = (f"{part['operation']} {part['entity']}" for part in (ORDERS, SALARIES))
    assert parts(ada)[1:] == [["WRITE dataset:hr.x"], [orders, salaries]] and len(parts(ada)[0]) > 3
    assert parts(out) == [[], ["WRITE dataset:hr.x"], [orders, salaries]]
    assert parts(by_session("grp")) == [[orders]] and parts(by_session("dee")) == []
    header, first, *others = _content(
        out.get("/access-requests.csv", show="mine", state="pending")
    ).splitlines()
    assert header.startswith("number,subject,created_by,colleague,parts,reason") and len(others) == 2
    assert "user:out" in first and "'=same team" in first
    assert _content(out.get("/access-requests.csv", state="denied")).splitlines() == [header]


def _content(response) -> str:
    return b"".join(response.streaming_content).decode()


def test_an_ordinary_token_requests_access_for_its_owner_and_follows_it(by_token, ada):
    own = by_token("out", "self")
    path = request_access(own, subject="user:out")
    assert own.get(path).json()["can"] == ["withdraw"]
    assert own.post(f"{path}/withdraw", {}).json()["state"] == "cancelled"
    other = request_access(by_token("dee", "self"), {"entity": "dataset:hr.salaries", "operation": "read"})
    problem(own.get(other), 404)
    refused = problem(own.post(f"{other}/approve", {}), 403)
    assert refused["detail"] == "the token lacks the scope `administer`"
    problem(own.get("/access-requests"), 403)


def test_a_token_about_its_owner_requests_nothing_for_others_and_sees_no_requests_of_others(by_token, out):
    administrator = by_token("ada", "self")
    body = {"parts": [ORDERS], "reason": "close", "subject": "out"}
    assert (
        "can only request access for itself"
        in problem(administrator.post("/access-requests", body), 403)["detail"]
    )
    problem(administrator.get(request_access(out)), 404)


def test_a_subject_is_named_with_or_without_its_type(ada):
    for subject, operation in (("user:out", "read"), ("out", "write")):
        path = request_access(ada, ORDERS | {"operation": operation}, subject=subject)
        assert ada.get(path).json()["subject"] == "user:out"


ENTRY = {"entity": "dataset:hr.salaries", "operations": ["read"], "description": "Salaries"}


def test_every_account_reads_the_catalogue_that_deciders_publish(ada, by_session, by_token):
    ned, out = by_session("ned"), by_session("out")
    # the answer does not tell whether an entity exists that the caller does not see
    for entity in ("dataset:hr.salaries", "dataset:hr.nothing"):
        problem(out.put("/catalogue", ENTRY | {"entity": entity}), 404)
    problem(ned.put("/catalogue", ENTRY | {"entity": "dataset:sales.orders"}), 403)
    assert out.get("/catalogue").json()["items"] == []
    answer = ada.put("/catalogue", ENTRY)
    assert answer.status_code == 200 and answer.json()["changed"]
    expected = ENTRY | {"decided_by": ["console"], "usual_seconds": None}
    for caller in (out, ned, by_token("out", "self")):
        assert caller.get("/catalogue").json()["items"] == [expected]
    assert out.get("/catalogue?q=orders").json()["items"] == []
    problem(ada.put("/catalogue", ENTRY | {"operations": ["fly"]}), 400)
    assert ada.delete("/catalogue?entity=dataset:hr.salaries").json()["changed"]
    assert out.get("/catalogue").json()["items"] == []
