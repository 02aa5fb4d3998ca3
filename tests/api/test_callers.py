"""Which callers can ask which questions, by token and by session, and that responses reveal no invisible
entities.
"""

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from authzconsole.models import ApiToken
from entities.address import Address, parse_address
from entities.services import ensure_entities
from entities.vocabulary import Privilege
from grants.models import Role, User
from tests.api.conftest import PASSWORD, RESOURCE_SEARCH, SUBJECT_SEARCH, Api, by_session, request
from tests.support.changes import add_grant, bearer, revoke_grant

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("people")]

PATHS = ["evaluation", "evaluations", "search/subject", "search/resource", "search/action"]


@pytest.mark.parametrize("path", PATHS)
def test_anonymous_requests_get_401_with_any_body(client, path):
    for body in (request(), {}, request(resource="lab.unregistered")):
        answer = Api(client, {}).post(f"/access/v1/{path}", body)
        assert answer.status_code == 401
        assert answer["WWW-Authenticate"] == 'Bearer realm="authorization console"'
        assert answer.json() == "sign in, or send an API token as `Authorization: Bearer TOKEN`"


@pytest.mark.parametrize(
    "header",
    ["Basic YWRhOnB3", "Token x", "Bearer", "Bearer ", "bearer nonsense", "Bearer a b", "Bearer é", ""],
)
def test_an_invalid_authorization_header_is_refused_even_with_a_session(account, header):
    account("alice")
    session = by_session("alice")
    answer = Api(session.client, {"Authorization": header}).evaluate(request())
    assert answer.status_code == 401 and answer["WWW-Authenticate"].startswith("Bearer ")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"expires_at": timezone.now() - timedelta(seconds=1)}, "the token has expired"),
        ({"revoked_at": timezone.now()}, "the token was revoked"),
        ({"digest": "0" * 64}, "the token is unknown"),
    ],
)
def test_an_expired_revoked_or_unknown_token_is_refused_with_the_reason(api, changes, reason):
    ApiToken.objects.update(**changes)
    answer = api.evaluate(request())
    assert (answer.status_code, answer.json()) == (401, reason)
    assert answer["WWW-Authenticate"] == (
        f'Bearer realm="authorization console", error="invalid_token", error_description="{reason}"'
    )


def test_a_token_of_an_inactive_account_is_refused(api):
    User.objects.filter(username="service").update(is_active=False)
    assert api.evaluate(request()).json() == "the account of the token is inactive"


@pytest.mark.parametrize("path", PATHS)
def test_a_token_without_the_scope_is_refused_with_403(client, service, path):
    answer = Api(client, bearer("service", "read")).post(f"/access/v1/{path}", request())
    assert (answer.status_code, answer.json()) == (403, "the token lacks the scope `decide` or `self`")
    assert 'error="insufficient_scope", scope="decide"' in answer["WWW-Authenticate"]


def test_an_ordinary_account_can_only_ask_about_itself(account):
    account("bob")
    bob = by_session("bob")
    assert bob.evaluate(request("bob")).json() == {"decision": True}
    others = [("alice", "user"), ("zoe", "user"), ("readers", "group"), ("bob", "robot")]
    for body in (request(name, subject_type=subject_type) for name, subject_type in others):
        answer = bob.evaluate(body)
        assert answer.status_code == 403
        assert answer.json() == "your account can only ask about itself, which is the subject user bob"


def test_one_item_about_another_subject_refuses_the_whole_batch(account):
    account("bob")
    answer = by_session("bob").evaluate_all({"evaluations": [request("bob"), request("alice")]})
    assert answer.status_code == 403 and isinstance(answer.json(), str)


def test_an_ordinary_account_can_only_search_for_itself(account):
    account("alice")
    alice = by_session("alice")
    assert alice.search("resource", RESOURCE_SEARCH).json()["results"] == [
        {"type": "dataset", "id": "lab.record-1"}
    ]
    assert alice.search("action", request()).status_code == 200
    assert alice.search("subject", SUBJECT_SEARCH).status_code == 403
    for what in ("resource", "action"):
        assert alice.search(what, request("bob")).status_code == 403


@pytest.mark.parametrize("role", [Role.ADMINISTRATOR, Role.AUDITOR])
def test_administrators_and_auditors_can_ask_about_any_subject(account, role):
    account("olga", role)
    session = by_session("olga")
    assert session.evaluate(request("bob")).json() == {"decision": True}
    assert len(session.search("subject", SUBJECT_SEARCH).json()["results"]) == 2


def test_a_session_needs_a_csrf_token_and_an_api_token_does_not(account, secret):
    account("alice")
    client = Client(enforce_csrf_checks=True)
    assert client.login(username="alice", password=PASSWORD)
    refused = Api(client, {}).evaluate(request())
    assert refused.status_code == 403 and "the CSRF check of this session request failed" in refused.json()
    client.cookies["csrftoken"] = "a" * 32
    assert Api(client, {"X-CSRFToken": "a" * 32}).evaluate(request()).json() == {"decision": True}
    assert Api(client, {"Authorization": f"Bearer {secret}"}).evaluate(request()).json() == {"decision": True}


def test_a_session_must_change_a_password_set_by_an_administrator_but_a_token_keeps_working(account, api):
    account("alice")
    session = by_session("alice")
    User.objects.filter(username="alice").update(must_change_password=True)
    for refused in (session.evaluate(request()), session.search("resource", RESOURCE_SEARCH)):
        assert (
            refused.status_code == 403
            and "choose a new one at http://127.0.0.1:8000/password first" in refused.json()
        )
    assert api.evaluate(request()).json() == {"decision": True}
    User.objects.filter(username="alice").update(must_change_password=False)
    assert session.evaluate(request()).json() == {"decision": True}


def test_being_a_superuser_has_no_effect_on_decisions(api):
    User.objects.filter(username="bob").update(is_superuser=True, is_staff=True)
    assert api.evaluate(request("bob", "write")).json() == {"decision": False}


def test_a_revocation_takes_effect_on_the_next_question(api):
    assert api.evaluate(request()).json() == {"decision": True}
    revoke_grant("user:alice", "dataset:lab.record-1", Privilege.READ)
    assert api.evaluate(request()).json() == {"decision": False}
    assert api.search("resource", RESOURCE_SEARCH).json() == {"results": []}


def test_responses_are_not_cached(api):
    assert api.evaluate(request())["Cache-Control"] == "no-store"


NAMESPACE = {"subject": {"type": "user", "id": "alice"}, "resource": {"type": "namespace", "id": "lab"}}


@pytest.fixture
def namespaces(db):
    ensure_entities(states={Address("namespace", name): "live" for name in ("hidden", "shown")})
    add_grant("user:alice", Address("namespace", "shown"), Privilege.READ)


def test_a_search_does_not_return_addresses_that_the_caller_cannot_see(account, api, namespaces):
    """A search returns only visible entities even if the operation is permitted on all entities."""
    account("alice")
    body = NAMESPACE | {"action": {"name": "delete-all-streams"}}
    everywhere = {"hidden", "shown", "lab"}
    assert {result["id"] for result in api.search("resource", body).json()["results"]} == everywhere
    visible = {result["id"] for result in by_session("alice").search("resource", body).json()["results"]}
    assert visible == everywhere - {"hidden"}


def test_a_search_by_an_ordinary_account_and_by_a_token_agree_on_visible_entities(account, api, namespaces):
    account("alice")
    for operation in ("list", "get", "READ", "delete", "search"):
        body = NAMESPACE | {"action": {"name": operation}}
        assert by_session("alice").search("resource", body).json() == api.search("resource", body).json()


def test_an_explanation_hides_addresses_that_an_ordinary_account_cannot_see(account, api):
    account("alice")
    for number in range(3):
        ensure_entities(states={parse_address(f"stream:lab.secret{number}"): "live"})
    body = request(kind="namespace", resource="lab", operation="delete", context={"explain": True})
    restricted, complete = by_session("alice").evaluate(body), api.evaluate(body)
    assert restricted.json()["decision"] is complete.json()["decision"] is False
    assert b"secret" in complete.content and b"secret" not in restricted.content
    assert "missing" not in restricted.json()["context"]


def test_an_explanation_without_hidden_addresses_is_complete(account, api):
    account("bob")
    body = request("bob", "write", context={"explain": True})
    assert by_session("bob").evaluate(body).json() == api.evaluate(body).json()


CONTAINER_OPERATIONS = ("delete", "delete-all-streams", "delete-all-dataset-modules")


@pytest.fixture
def secret_contents(db):
    """A namespace `hidden` with a stream and a dataset; `alice` has no grants on it."""
    ensure_entities(
        states={
            parse_address(key): "live" for key in ("namespace:hidden", "stream:hidden.s", "dataset:hidden.d")
        }
    )


@pytest.mark.usefixtures("secret_contents")
@pytest.mark.parametrize("path", ["/access/v1/evaluation", "/access/v1/search/action", "/api/v1/decisions"])
@pytest.mark.parametrize("generation", ["final", "proposed", "existing"])
@pytest.mark.parametrize("context", [{}, {"explain": True}])
def test_a_hidden_container_is_answered_like_one_that_does_not_exist(account, path, generation, context):
    account("bob")
    session = by_session("bob")

    def answers(namespace):
        return [
            session.post(
                path,
                request(
                    "bob", operation, namespace, "namespace", context=context | {"generation": generation}
                ),
            ).content.replace(namespace.encode(), b"NAME")
            for operation in CONTAINER_OPERATIONS
        ]

    assert answers("hidden") == answers("nowhere")


@pytest.mark.usefixtures("secret_contents")
@pytest.mark.parametrize("context", [{}, {"explain": True}])
@pytest.mark.parametrize("operation", CONTAINER_OPERATIONS)
def test_the_queries_do_not_tell_a_hidden_container_from_a_missing_one(account, operation, context):
    """No query looks into a container that the caller does not know, so the time of the answer tells nothing."""
    account("bob")
    session = by_session("bob")

    def queries(namespace):
        body = request("bob", operation, namespace, "namespace", context=context)
        session.post("/access/v1/evaluation", body)
        with CaptureQueriesContext(connection) as captured:
            assert session.post("/access/v1/evaluation", body).status_code == 200
        return [
            re.sub(r"'[^']*\d{4}-\d\d-\d\d[^']*'", "TIME", query["sql"]).replace(namespace, "NAME")
            for query in captured
        ]

    missing = queries("nowhere")
    assert queries("hidden") == missing
    assert not any("d.state = 'live'" in query for query in missing)


@pytest.mark.usefixtures("secret_contents")
@pytest.mark.parametrize("role", [Role.AUDITOR, Role.ADMINISTRATOR])
def test_tokens_auditors_and_administrators_get_the_true_decision_on_every_container(account, api, role):
    account("alice", role)
    for caller in (api, by_session("alice")):
        decisions = {
            namespace: caller.evaluate(request("bob", "delete-all-streams", namespace, "namespace")).json()[
                "decision"
            ]
            for namespace in ("hidden", "nowhere")
        }
        assert decisions == {"hidden": False, "nowhere": True}


@pytest.mark.usefixtures("secret_contents")
@pytest.mark.parametrize("address", ["namespace:hidden", "stream:hidden.s", "dataset:hidden.d"])
def test_a_visible_container_is_answered_by_its_contents(account, address):
    account("bob")
    add_grant("user:bob", address, Privilege.READ)
    assert by_session("bob").evaluate(request("bob", "delete-all-streams", "hidden", "namespace")).json() == {
        "decision": False
    }
