"""API tokens are shown once, stored as a digest and journaled; recording their use never blocks a request."""

import io
import sqlite3
import time
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from authzconsole.common.tokens import (
    TokenError,
    TokenRefused,
    ValidToken,
    create_token,
    revoke_token,
    verify_token,
)
from authzconsole.models import ApiToken
from grants.errors import NotAdministrator, PrincipalError
from grants.journal import Author, current_revision, first_break
from grants.models import JournalLine, Role, User
from grants.principals.services import renew_user_password, set_user_role
from tests.support.authors import COMMAND
from tests.support.changes import add_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada(db):
    add_user("ada")
    set_user_role(author=COMMAND, name="ada", role=Role.ADMINISTRATOR)
    return User.objects.get(username="ada")


def create(**changes):
    return create_token(
        **{"author": COMMAND, "owner": "ada", "name": "ci", "scopes": ["decide"], "days": 30} | changes
    )


def test_a_secret_has_256_random_bits_and_is_not_stored(ada):
    first, second = create(), create()
    assert first.secret != second.secret and len(first.secret) == len("azc_") + 43
    stored = str(list(ApiToken.objects.values())) + str(list(JournalLine.objects.values()))
    assert first.secret not in stored and first.secret.removeprefix("azc_") not in stored
    assert verify_token(first.secret) == ValidToken(first.token.pk, ada.pk, frozenset({"decide"}), "final")


def test_scopes_are_stored_in_a_fixed_order_without_duplicates(ada):
    assert create(scopes=["read", "decide", "read"]).token.scopes == "decide read"


def test_creating_and_revoking_a_token_are_journaled(ada):
    author = Author("ada", reason="ticket 7", user_id=ada.pk)
    token = create(author=author).token
    outcome = revoke_token(author=author, number=token.pk)
    assert outcome.has_changed and not revoke_token(author=author, number=token.pk).has_changed
    added, revoked = JournalLine.objects.order_by("-revision")[:2][::-1]
    assert (added.action, added.principal, added.actor, added.reason) == (
        "token-add",
        "user:ada",
        "ada",
        "ticket 7",
    )
    assert added.detail.startswith(f"`ci` (number {token.pk}) for decide, until 20")
    assert (revoked.action, revoked.detail) == ("token-revoke", f"`ci` (number {token.pk})")
    assert first_break() is None


def test_the_attack_an_administrator_cannot_create_a_token_of_another_person(ada):
    add_user("mallory", role=Role.ADMINISTRATOR)
    add_user("robot", role=Role.ADMINISTRATOR, is_principal=False, is_service=True)
    mallory = Author("mallory", user_id=User.objects.get(username="mallory").pk)
    before = current_revision()
    with pytest.raises(TokenError, match="user:ada is another person's account: create tokens for yourself"):
        create(author=mallory, owner="ada", scopes=["administer"])
    assert not ApiToken.objects.exists() and current_revision() == before
    for owner in ("mallory", "robot"):
        assert create(author=mallory, owner=owner, scopes=["administer"]).token.issued_by == "mallory"


def test_the_page_refuses_a_token_of_another_person(ada, client):
    add_user("mallory", role=Role.ADMINISTRATOR, is_principal=False)
    client.force_login(User.objects.get(username="mallory"))
    form = {"owner": "ada", "name": "x", "days": "9", "scope": "administer"}
    assert client.post("/accounts/tokens/new", form).status_code == 400
    assert client.post("/accounts/tokens/new", form | {"owner": "mallory"}).status_code == 200
    assert [token.owner.username for token in ApiToken.objects.all()] == ["mallory"]


def test_a_journal_line_names_the_token_its_issuer_and_both_request_ids(ada, client):
    add_user("robot", role=Role.ADMINISTRATOR, is_principal=False, is_service=True)
    issued = create(author=Author("ada", user_id=ada.pk), owner="robot", scopes=["administer"])
    answer = client.post(
        "/api/v1/groups",
        {"name": "new", "reason": "attack"},
        content_type="application/json",
        headers={"Authorization": f"Bearer {issued.secret}", "X-Request-ID": "mine"},
    )
    assert (answer.status_code, answer["X-Request-ID"]) == (201, "mine")
    line = JournalLine.objects.latest("revision")
    assert (line.action, line.actor, line.token, line.issuer, line.caller_request_id) == (
        "group-add",
        "robot",
        issued.token.pk,
        "ada",
        "mine",
    )
    assert line.request_id == answer.wsgi_request.id != "mine"
    assert first_break() is None


def test_a_service_account_cannot_sign_in(ada, client):
    add_user("robot", is_principal=False, is_service=True)
    with pytest.raises(PrincipalError, match="service account"):
        renew_user_password(author=COMMAND, name="robot")
    robot = User.objects.get(username="robot")
    robot.set_password("correct horse battery")
    robot.save()
    answer = client.post("/sign-in", {"username": "robot", "password": "correct horse battery"})
    assert answer.status_code == 200 and "Wrong user name or password" in answer.content.decode()


def test_only_administrators_create_and_revoke_tokens(ada):
    add_user("bob")
    bob = Author("bob", user_id=User.objects.get(username="bob").pk)
    token = create().token
    with pytest.raises(NotAdministrator):
        create(author=bob)
    with pytest.raises(NotAdministrator):
        revoke_token(author=bob, number=token.pk)
    assert ApiToken.objects.get().revoked_at is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"owner": "zoe"}, "`zoe` is not an active account"),
        ({"owner": "a\0b"}, "is not an active account"),
        ({"name": " "}, "the name of a token must have 1 to 100 characters"),
        ({"name": "x" * 101}, "the name of a token must have"),
        ({"name": "a\nb"}, "holds a control character"),
        ({"scopes": []}, "one or more of the scopes decide, read"),
        ({"scopes": ["all"]}, "one or more of"),
        ({"days": 0}, "lifetime of a token must be 1 to 365 days"),
        ({"days": 366}, "the lifetime of a token"),
        (
            {"owner": "ordinary", "scopes": ["administer"]},
            "user:ordinary is not an administrator of this console",
        ),
    ],
)
def test_an_invalid_token_request_is_refused_and_nothing_is_written(ada, changes, message):
    add_user("ordinary")
    before = JournalLine.objects.count()
    with pytest.raises(TokenError, match=message):
        create(**changes)
    assert not ApiToken.objects.exists() and JournalLine.objects.count() == before


def test_a_token_that_does_not_exist_cannot_be_revoked(ada):
    with pytest.raises(TokenError, match="no token with the number 7"):
        revoke_token(author=COMMAND, number=7)


def test_the_last_use_is_recorded_once_a_minute(ada, django_assert_num_queries):
    secret = create().secret
    verify_token(secret)
    recorded = ApiToken.objects.get().last_used_at
    assert timezone.now() - recorded < timedelta(seconds=5)
    with django_assert_num_queries(1):
        verify_token(secret)
    assert ApiToken.objects.get().last_used_at == recorded
    ApiToken.objects.update(last_used_at=recorded - timedelta(minutes=2))
    verify_token(secret)
    assert ApiToken.objects.get().last_used_at > recorded - timedelta(minutes=1)


@pytest.mark.django_db(transaction=True)
def test_recording_the_last_use_does_not_wait_for_a_locked_database(ada):
    if connection.vendor != "sqlite":
        pytest.skip("other databases lock rows, not the whole file")
    secret = create().secret
    writer = sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)
    try:
        writer.execute("BEGIN IMMEDIATE")
        started = time.monotonic()
        verify_token(secret)
        assert time.monotonic() - started < 5
        assert ApiToken.objects.get().last_used_at is None
        writer.execute("ROLLBACK")
    finally:
        writer.close()
    verify_token(secret)
    assert ApiToken.objects.get().last_used_at is not None


def run(command, *arguments):
    output, errors = io.StringIO(), io.StringIO()
    call_command(command, *arguments, stdout=output, stderr=errors)
    return output.getvalue(), errors.getvalue()


def test_create_token_prints_only_the_secret_and_explains_how_to_revoke_it(ada):
    output, errors = run("create_token", "ada", "--scope", "decide", "--scope", "read", "--days", "9")
    token = verify_token(output.strip())
    assert token.scopes == {"decide", "read"}
    token_row = ApiToken.objects.get(pk=token.number)
    assert token_row.name == "decide and read" and timedelta(
        days=8
    ) < token_row.expires_at - timezone.now() <= timedelta(days=9)
    assert f"manage.py revoke_token {token.number}" in errors
    assert "is revoked" in run("revoke_token", str(token.number))[0]
    with pytest.raises(TokenRefused, match="was revoked"):
        verify_token(output.strip())


@pytest.mark.parametrize(
    "arguments",
    [
        ("create_token", "zoe", "--scope", "decide"),
        ("create_token", "ada"),
        ("create_token", "ada", "--scope", "all"),
        ("revoke_token", "7"),
    ],
)
def test_commands_with_invalid_arguments_fail(ada, arguments):
    with pytest.raises(CommandError):
        run(*arguments)
