"""Test the AuthZEN access request profile: offers in denials, and the endpoints for requests."""

from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from django.core import signing
from django.test import Client
from django.utils import timezone

from entities.address import parse_address
from grants.changes import Shown
from grants.models import AccessRequest, RequestState, UserGrant
from grants.requests.decide import Approval, approve_request
from tests.api.conftest import Api
from tests.support.authors import administrator
from tests.support.cast import create_sample_tenant
from tests.support.changes import add_user, bearer

pytestmark = pytest.mark.django_db
PATH = "/access/v1/requests"
ERROR = "urn:openid:authzen:access-request:error:"
QUESTION = {
    "subject": {"type": "user", "id": "out"},
    "action": {"name": "read"},
    "resource": {"type": "dataset", "id": "sales.orders"},
}
WHY = {"context": {"business_justification": "quarterly close"}}


@pytest.fixture
def cast():
    return create_sample_tenant()


@pytest.fixture
def caller(cast):
    """Return a function: caller("dee", "self") sends the token of this account with these scopes."""

    def api(name: str, *scopes: str) -> Api:
        return Api(Client(), bearer(name, *(scopes or ["decide"])))

    return api


@pytest.fixture
def pep(caller):
    """An enforcement point: a service account that asks about all subjects."""
    add_user("gateway", is_principal=False, is_service=True)
    return caller("gateway")


def problem(answer, status: int, type_: str = "") -> dict:
    assert (answer.status_code, answer["Content-Type"]) == (status, "application/problem+json"), (
        answer.content
    )
    content = answer.json()
    assert content["type"] == (f"{ERROR}{type_}" if type_ else "about:blank")
    assert content["status"] == status and content["detail"]
    return content


def offer_of(api, question: dict = QUESTION) -> dict:
    answer = api.evaluate(question | {"context": {"access_request": True}}).json()
    assert answer["decision"] is False
    return answer["context"]


def test_a_denial_offers_a_request_only_if_the_question_opts_in(pep):
    assert pep.evaluate(QUESTION).json() == {"decision": False}
    offer = offer_of(pep)
    assert (
        offer["access_request"]["endpoint"] == f"http://127.0.0.1:8000{PATH}"
        and offer["reason"] == "approval_required"
    )
    batch = pep.evaluate_all(QUESTION | {"evaluations": [{}, {"context": {"access_request": True}}]}).json()[
        "evaluations"
    ]
    assert batch[0] == {"decision": False} and "access_request" in batch[1]["context"]
    permitted = QUESTION | {"subject": {"type": "user", "id": "dee"}, "context": {"access_request": True}}
    assert pep.evaluate(permitted).json() == {"decision": True}
    for change in (
        {"action": {"name": "fly"}},
        {"subject": {"type": "group", "id": "operators"}},
        {"context": {"access_request": True, "generation": "core"}},
        {"context": {"access_request": True, "at": "2126-01-01T00:00:00Z"}},
    ):
        context = {"access_request": True}
        answer = pep.evaluate(QUESTION | {"context": context} | change).json()
        assert answer["decision"] is False and "access_request" not in answer.get("context", {})


def test_an_offer_does_not_tell_whether_the_resource_exists(caller):
    api, offers = caller("out", "self"), []
    for name in ("hr.salaries", "no.thing"):
        offer = offer_of(api, QUESTION | {"resource": {"type": "dataset", "id": name}})
        for member in ("evaluation_id", "evaluated_at"):
            offer.pop(member)
        offer["access_request"].pop("expires_at")
        offers.append(str(offer).replace(name, "NAME"))
    assert offers[0] == offers[1]


def test_the_link_of_an_offer_opens_the_form_for_any_address(pep):
    offer = offer_of(
        pep,
        QUESTION
        | {
            "action": {"name": "deploy-app-as"},
            "resource": {"type": "kerberosprincipal", "id": "x&reason=approve+it#/host@REALM"},
        },
    )
    query = parse_qs(urlsplit(offer["access_request"]["form_url"]).query)
    assert query == {
        "entity": ["kerberosprincipal:x&reason=approve+it#/host@REALM"],
        "operation": ["deploy-app-as"],
    }


def test_a_request_is_submitted_followed_approved_and_reevaluated(pep):
    offer = offer_of(pep)
    body = (
        QUESTION
        | WHY
        | {
            "requested_access": {"requested_until": "2126-05-01T00:15:00Z"},
            "denial": {name: offer[name] for name in ("evaluation_id", "evaluated_at", "reason")},
        }
    )
    answer = pep.post(PATH, body, **{"Idempotency-Key": "k1"})
    task = answer.json()["task"]
    assert (
        answer.status_code == 202
        and answer["Location"] == task["status_endpoint"]
        and task["status"] == "pending"
    )
    assert pep.post(PATH, body, **{"Idempotency-Key": "k1"}).json()["task"]["id"] == task["id"]
    path = task["status_endpoint"].removeprefix("http://127.0.0.1:8000")
    request = AccessRequest.objects.get()
    assert (request.created_by, request.principal) == ("gateway", "user:out")
    approve_request(
        author=administrator(),
        request_id=request.pk,
        approval=Approval({1: ""}, shown=Shown(accepts_beyond=True)),
    )
    status = pep.client.get(path, headers=pep.headers).json()
    assert status["task"]["status"] == "approved" and status["result"]["mode"] == "reevaluate"
    assert status["result"]["approval"]["approved_until"] == "2126-05-01T00:15:00Z"
    assert pep.evaluate(QUESTION).json() == {"decision": True}
    assert UserGrant.objects.get(user__username="out").valid_until is not None
    problem(pep.post(f"{path}/cancel", {}), 409, "invalid_task_state")


def test_a_request_is_cancelled_and_expires(pep):
    path = pep.post(PATH, QUESTION | WHY)["Location"].removeprefix("http://127.0.0.1:8000")
    cancelled = pep.post(f"{path}/cancel", {"reason": "no longer needed", "comment": "done by hand"})
    assert cancelled.json()["task"]["status"] == "cancelled"
    assert AccessRequest.objects.get().events.last().text == "no longer needed; done by hand"
    other = pep.post(PATH, QUESTION | WHY)["Location"].removeprefix("http://127.0.0.1:8000")
    AccessRequest.objects.filter(state=RequestState.PENDING).update(
        expires_at=timezone.now() - timedelta(seconds=1)
    )
    assert pep.client.get(other, headers=pep.headers).json()["task"]["status"] == "expired"
    problem(pep.post(f"{other}/cancel", {}), 410, "task_expired")


@pytest.mark.parametrize(
    ("change", "status", "type_"),
    [
        ({"context": {}}, 400, ""),
        ({"requested_access": {"requested_until": "2020-01-01T00:00:00Z"}}, 400, ""),
        ({"requested_access": {"requested_until": "2126-01-01T00:00:00"}}, 400, ""),
        ({"requested_access": 1}, 400, ""),
        ({"subject": {"type": "user"}}, 400, ""),
        ({"subject": {"type": "user", "id": "nobody"}}, 400, "not_requestable"),
        ({"subject": {"type": "group", "id": "operators"}}, 400, "not_requestable"),
        ({"subject": {"type": "user", "id": "dee"}}, 400, "not_requestable"),
        ({"action": {"name": "fly"}}, 400, "not_requestable"),
        ({"context": WHY["context"] | {"generation": "core"}}, 400, "not_requestable"),
        ({"denial": {"evaluation_id": "eval_01HX"}}, 400, "invalid_denial_binding"),
        ({"denial": "eval_01HX"}, 400, "invalid_denial_binding"),
    ],
)
def test_an_invalid_request_is_refused_with_its_type(pep, change, status, type_):
    problem(pep.post(PATH, QUESTION | WHY | change), status, type_)
    assert not AccessRequest.objects.exists()


def test_a_denial_binds_one_question_and_expires(pep, monkeypatch):
    denial = {"denial": {"evaluation_id": offer_of(pep)["evaluation_id"]}}
    problem(
        pep.post(PATH, QUESTION | WHY | denial | {"action": {"name": "write"}}), 400, "invalid_denial_binding"
    )
    with monkeypatch.context() as later:
        later.setattr("django.core.signing.time.time", lambda: timezone.now().timestamp() + 601)
        problem(pep.post(PATH, QUESTION | WHY | denial), 410, "expired_denial")
    forged = signing.dumps(
        ["user:out", "read", "dataset:sales.orders", "None", "False", "None", "None"], salt="other"
    )
    problem(
        pep.post(PATH, QUESTION | WHY | {"denial": {"evaluation_id": forged}}), 400, "invalid_denial_binding"
    )
    first = pep.post(PATH, QUESTION | WHY | denial, **{"Idempotency-Key": "k"})
    assert first.status_code == 202
    with monkeypatch.context() as later:
        later.setattr("django.core.signing.time.time", lambda: timezone.now().timestamp() + 601)
        repeated = pep.post(PATH, QUESTION | WHY | denial, **{"Idempotency-Key": "k"})
    assert (repeated.status_code, repeated.json()) == (202, first.json())
    duplicate = problem(pep.post(PATH, QUESTION | WHY), 409, "duplicate_request")
    assert duplicate["task"]["id"] == f"arq_{AccessRequest.objects.get().pk}"


def test_accounts_request_only_for_themselves_and_see_only_their_tasks(caller, pep, client):
    out, dee, auditor = caller("out", "self"), caller("dee"), caller("aud")
    for api in (dee, auditor):
        problem(api.post(PATH, QUESTION | WHY), 403)
    path = out.post(PATH, QUESTION | WHY)["Location"].removeprefix("http://127.0.0.1:8000")
    unknown = [
        problem(api.client.get(url, headers=api.headers), 404, "unknown_task")
        for api, url in (
            (dee, path),
            (auditor, path),
            (pep, path),
            (out, f"{PATH}/arq_999"),
            (out, f"{PATH}/x"),
        )
    ]
    assert len({str(content) for content in unknown}) == 1
    problem(dee.post(f"{path}/cancel", {}), 404, "unknown_task")
    assert out.client.get(path, headers=out.headers).json()["task"]["status"] == "pending"
    problem(client.post(PATH, QUESTION | WHY, content_type="application/json"), 401)
    problem(caller("out", "read").post(PATH, QUESTION | WHY), 403)
    problem(client.put(PATH), 405)


def test_the_parameters_of_a_question_are_part_of_the_request(pep):
    create = QUESTION | {"action": {"name": "create"}, "resource": {"type": "dataset", "id": "sales.new"}}
    context = WHY["context"] | {"dataset_type": "dataset_type:sales.ours"}
    assert pep.post(PATH, create | {"context": context}).status_code == 202
    part = AccessRequest.objects.get().parts.get()
    assert part.context in ({"dataset_type": "dataset_type:sales.ours"}, {})
    assert part.address == parse_address("dataset:sales.new")
