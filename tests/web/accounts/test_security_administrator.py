"""Attacks of a security administrator, who must not obtain rights through accounts, tokens or sign-in
methods.
"""

import pytest
from django.test import Client

from authzconsole.common.sign_in_methods import reset_factors, unlink_identity
from authzconsole.common.tokens import TokenError, create_token, revoke_token
from authzconsole.sessions import end_sessions_of
from grants.errors import NotAdministrator
from grants.journal import Author
from grants.models import User
from grants.principals.services import renew_user_password, set_user_email, set_user_role
from tests.support.authors import database_state
from tests.support.cast import SETUP, create_role_accounts
from tests.support.changes import (
    add_grant,
    add_group,
    add_member,
    add_user,
    change_members,
    remove_user,
    rename_user,
    set_user_active,
)


@pytest.fixture
def sec(cast):
    cast.update(create_role_accounts())
    return Author("sec", user_id=cast["sec"].pk)


@pytest.mark.parametrize("name", ["ada", "aud", "app", "ope"])
def test_the_attack_on_an_account_with_other_rights_changes_nothing(name, sec, cast):
    before = database_state()
    for attack in (
        lambda: renew_user_password(author=sec, name=name),
        lambda: reset_factors(author=sec, name=name),
        lambda: set_user_email(author=sec, name=name, email="x@example.com"),
        lambda: set_user_role(author=sec, name=name, role="ordinary"),
        lambda: set_user_active(name, author=sec, active=False),
        lambda: unlink_identity(author=sec, user=cast[name], pk=1),
        lambda: rename_user(author=sec, name=name, new_name="gone"),
        lambda: remove_user(name, author=sec),
    ):
        with pytest.raises(NotAdministrator):
            attack()
    assert database_state() == before


@pytest.mark.parametrize("role", ["auditor", "approver", "operator", "administrator"])
def test_the_attack_through_the_role_of_an_existing_or_a_new_account_fails(role, sec):
    for attack in (
        lambda: set_user_role(author=sec, name="sec", role=role),
        lambda: set_user_role(author=sec, name="ned", role=role),
        lambda: add_user("new", author=sec, role=role),
        lambda: add_user("robot", author=sec, role=role, is_service=True),
    ):
        with pytest.raises(NotAdministrator):
            attack()


def test_the_attack_through_grants_groups_and_names_fails(sec):
    for attack in (
        lambda: add_grant("user:sec", "dataset:sales.orders", "READ", author=sec),
        lambda: add_member("sec", "operators", author=sec),
        lambda: add_group("new", author=sec),
        lambda: change_members("operators", author=sec, added=[sec.user_id]),
        lambda: rename_user(author=sec, name="sec", new_name="boss"),
    ):
        with pytest.raises(NotAdministrator):
            attack()


def test_the_attack_through_tokens_fails(sec):
    add_user("root-robot", role="administrator", is_service=True, is_principal=False)
    add_user("robot", is_service=True, is_principal=False)
    for owner, scope in (
        ("root-robot", "read"),
        ("root-robot", "administer"),
        ("robot", "decide"),
        ("robot", "provision"),
    ):
        with pytest.raises(NotAdministrator):
            create_token(author=sec, owner=owner, name="x", scopes=[scope], days=1)
    for owner, scope in (("ada", "administer"), ("ned", "read"), ("robot", "administer")):
        with pytest.raises(TokenError):
            create_token(author=sec, owner=owner, name="x", scopes=[scope], days=1)
    assert create_token(author=sec, owner="robot", name="x", scopes=["self", "read"], days=1).token.pk
    assert create_token(author=sec, owner="sec", name="x", scopes=["administer"], days=1).token.pk


def test_a_token_of_a_security_administrator_asks_only_about_itself_and_changes_no_grant(sec, client):
    token = create_token(author=SETUP, owner="sec", name="x", scopes=["administer", "decide", "read"], days=1)
    headers = {"Authorization": f"Bearer {token.secret}"}
    question = {
        "subject": {"type": "user", "id": "ned"},
        "action": {"name": "read"},
        "resource": {"type": "dataset", "id": "sales.orders"},
    }
    assert (
        client.post(
            "/access/v1/evaluation", question, content_type="application/json", headers=headers
        ).status_code
        == 403
    )
    item = {"principal": "user:sec", "entity": "dataset:sales.orders", "privileges": ["READ"]}
    assert (
        client.post(
            "/api/v1/grants", {"grant": [item]}, content_type="application/json", headers=headers
        ).status_code
        == 403
    )
    new = client.post("/api/v1/users", {"name": "new"}, content_type="application/json", headers=headers)
    assert new.status_code == 201


def test_a_security_administrator_does_the_work_of_the_role(sec, cast):
    assert add_user("new", author=sec, is_principal=False).has_changed
    assert renew_user_password(author=sec, name="new")
    assert set_user_active("dee", author=sec, active=False).has_changed
    assert set_user_role(author=sec, name="new", role="security-administrator").has_changed
    token = create_token(author=SETUP, owner="ada", name="x", scopes=["administer"], days=1).token
    assert revoke_token(author=sec, number=token.pk).has_changed
    assert not end_sessions_of(author=sec, user=cast["ada"]).has_changed


def test_a_security_administrator_cannot_sign_in_with_the_password_of_an_account_that_became_an_administrator(
    sec, cast
):
    client, password = Client(), renew_user_password(author=sec, name="ned")
    assert client.login(username="ned", password=password)
    outcome = set_user_role(author=SETUP, name="ned", role="administrator")
    assert "first password no longer works" in outcome.sentence
    assert not Client().login(username="ned", password=password)
    assert client.get("/password").status_code == 302, "the session that began with it ended"
    # a role that can do no more, and a password that only the user knows, change nothing
    password = renew_user_password(author=SETUP, name="ned")
    set_user_role(author=SETUP, name="ned", role="auditor")
    assert Client().login(username="ned", password=password)
    User.objects.filter(username="ned").update(must_change_password=False)
    set_user_role(author=SETUP, name="ned", role="administrator")
    assert Client().login(username="ned", password=password)
