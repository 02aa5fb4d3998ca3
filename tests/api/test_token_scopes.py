"""The scopes of a token are limited by the current role of its owner, and its lifetime by TOKEN_MAX_DAYS."""

from datetime import timedelta
from importlib import import_module

import pytest
from django.apps import apps
from django.test import Client
from django.utils import timezone

from authzconsole.common.tokens import verify_token
from authzconsole.models import ApiToken
from grants.models import Role
from grants.principals.services import set_user_role
from tests.api.conftest import SUBJECT_SEARCH, Api, request
from tests.support.authors import COMMAND
from tests.support.changes import bearer, issue_token

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("people")]

EXPLAIN = {"context": {"explain": True}}


@pytest.fixture
def token_of():
    """Return a function that creates a token and returns its caller."""

    def create(owner: str, *scopes: str) -> Api:
        return Api(Client(), bearer(owner, *scopes))

    return create


def statuses(api: Api, own: str) -> list[int]:
    """Return the status of questions about the owner, about another user, and of a subject search."""
    own_search = {
        "subject": {"type": "user", "id": own},
        "action": {"name": "read"},
        "resource": {"type": "dataset"},
    }
    return [
        api.evaluate(request(own)).status_code,
        api.evaluate_all(request(own)).status_code,
        api.search("resource", own_search).status_code,
        api.search("action", request(own)).status_code,
        api.evaluate(request("bob")).status_code,
        api.evaluate(request("readers", subject_type="group")).status_code,
        api.search("subject", SUBJECT_SEARCH).status_code,
    ]


OWN_ONLY, ALL = [200] * 4 + [403] * 3, [200] * 7


@pytest.mark.parametrize(
    ("role", "scopes", "expected"),
    [
        (Role.ORDINARY, ["decide"], OWN_ONLY),
        (Role.ORDINARY, ["self"], OWN_ONLY),
        (Role.AUDITOR, ["decide"], ALL),
        (Role.ADMINISTRATOR, ["decide"], ALL),
        (Role.ADMINISTRATOR, ["self"], OWN_ONLY),
        (Role.AUDITOR, ["read", "self"], OWN_ONLY),
        (Role.ADMINISTRATOR, ["decide", "self"], ALL),
        (Role.ADMINISTRATOR, ["read"], [403] * 7),
    ],
)
def test_a_token_asks_about_all_subjects_only_with_the_role_and_the_scope(
    role, scopes, expected, account, token_of
):
    account("alice", role)
    assert statuses(token_of("alice", *scopes), "alice") == expected


def test_a_service_account_asks_about_all_subjects(api):
    assert (
        api.evaluate(request("bob")).status_code == api.search("subject", SUBJECT_SEARCH).status_code == 200
    )


def test_the_attack_a_decide_token_asks_about_others_after_its_owner_was_demoted(account, token_of):
    account("alice", Role.ADMINISTRATOR)
    account("other", Role.ADMINISTRATOR)
    api = token_of("alice", "decide", "read", "administer")
    assert statuses(api, "alice") == ALL
    set_user_role(author=COMMAND, name="alice", role=Role.ORDINARY)
    assert statuses(api, "alice") == OWN_ONLY
    assert api.post("/api/v1/decisions", request("bob")).status_code == 403
    assert api.post("/api/v1/groups", {"name": "mine"}).status_code == 403
    set_user_role(author=COMMAND, name="alice", role=Role.AUDITOR)
    assert statuses(api, "alice") == ALL


def test_a_self_token_gets_the_explanations_of_an_ordinary_account(account, token_of):
    account("alice")
    token, session = token_of("alice", "self"), Api(Client(), {})
    session.client.force_login(account("alice"))
    for resource in ("lab.record-1", "lab.record-2", "lab.missing"):
        question = request("alice", "write", resource) | EXPLAIN
        answers = [caller.evaluate(question).json() for caller in (token, session)]
        assert answers[0] == answers[1]
        assert (
            token.post("/api/v1/decisions", question).json()
            == session.post("/api/v1/decisions", question).json()
        )


def test_a_self_token_is_useless_elsewhere(account, token_of):
    account("alice", Role.ADMINISTRATOR)
    api = token_of("alice", "self")
    assert api.client.get("/api/v1/entities", headers=api.headers).status_code == 403
    assert api.post("/api/v1/groups", {"name": "mine"}).status_code == 403


def test_verifying_a_token_takes_one_query_for_every_owner(account, django_assert_num_queries):
    account("alice")
    issued = issue_token("alice", "decide")
    verify_token(issued.secret)
    with django_assert_num_queries(1):
        token = verify_token(issued.secret)
        assert (
            not token.can_ask_about_all
            and token.owner.username == "alice"
            and token.owner.is_active_principal
        )


def test_a_token_of_an_earlier_version_ends_a_year_after_the_upgrade(account, token_of):
    """An upgrade sets `limit_starts_at` of existing tokens; `expires_at` may be ten years away."""
    account("alice")
    api, now = token_of("alice", "decide"), timezone.now()
    ApiToken.objects.update(expires_at=now + timedelta(days=3_650), limit_starts_at=now - timedelta(days=364))
    assert api.evaluate(request("alice")).status_code == 200
    assert ApiToken.objects.active().count() == 1 and ApiToken.objects.get().ends_at < now + timedelta(days=2)
    ApiToken.objects.update(limit_starts_at=now - timedelta(days=365))
    assert api.evaluate(request("alice")).json() == "the token has expired"
    assert ApiToken.objects.active().count() == 0


def test_a_token_of_a_service_of_version_1_keeps_asking_about_all(account, token_of):
    """Version 1.0 had no service accounts. A demoted account is not a service."""
    apis = {}
    for name, role in (
        ("alice", Role.ORDINARY),
        ("demoted", Role.ADMINISTRATOR),
        ("other", Role.ADMINISTRATOR),
    ):
        account(name, role)
        apis[name] = token_of(name, "decide")
    set_user_role(author=COMMAND, name="demoted", role=Role.ORDINARY)
    import_module("authzconsole.migrations.0004_token_lifetime").keep_tokens_of_services(apps, None)
    assert statuses(apis["alice"], "alice") == ALL
    assert statuses(apis["demoted"], "demoted") == OWN_ONLY


def test_a_lower_limit_counts_for_existing_tokens(account, token_of, settings):
    account("alice")
    api = token_of("alice", "decide")
    ApiToken.objects.update(limit_starts_at=timezone.now() - timedelta(days=31))
    settings.TOKEN_MAX_DAYS = 30
    assert api.evaluate(request("alice")).json() == "the token has expired"
