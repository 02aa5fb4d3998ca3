"""Test renaming and removing users and groups, and everything that knows them by name."""

import pytest
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import Group
from django.test import override_settings

from authzconsole.common.sign_in_methods import facts_of_sign_in
from authzconsole.common.tokens import create_token, verify_token
from authzconsole.models import ApiToken, ProvisionedUser
from grants.change_set import Join
from grants.errors import PrincipalError, StalePlan
from grants.history.past import as_of
from grants.history.periods import catch_up
from grants.journal import Author, current_revision
from grants.models import User, UserGrant
from grants.principals.renaming import names_since
from grants.verification.replay import first_fault
from tests.support.authors import COMMAND, account, all_grants, database_state, lines_after
from tests.support.changes import (
    add_grant,
    add_group,
    add_member,
    add_user,
    apply_plan,
    change_grants,
    create_inverse,
    create_plan_from_changes,
    remove_group,
    remove_user,
    rename_group,
    rename_user,
    renew_plan,
    revoke_grant,
)

pytestmark = pytest.mark.django_db
ORDERS = "dataset:sales.orders"


@pytest.fixture(autouse=True)
def principals():
    """Create users and groups with the services, so that the journal explains all rows."""
    for name in ("ada", "bob", "cyd"):
        add_user(name, role="administrator" if name == "ada" else "ordinary")
    add_group("red")
    add_member("bob", "red")
    change_grants(grant=[("user:bob", ORDERS, "READ"), ("group:red", ORDERS, "WRITE")])


def verify() -> None:
    assert first_fault(facts_of_sign_in) is None


def test_a_renamed_user_keeps_grants_memberships_tokens_and_factors():
    secret = create_token(author=COMMAND, owner="bob", name="ci", scopes=["read"], days=3).secret
    before = current_revision()
    outcome = rename_user(author=COMMAND, name="bob", new_name="bert, the 2nd to last")
    assert outcome.sentence == "user:bob is user:bert, the 2nd to last now"
    assert lines_after(before) == [("user-rename", "user:bob", "", "", "user:bert, the 2nd to last")]
    assert ("user:bert, the 2nd to last", ORDERS, "READ") in all_grants()
    assert verify_token(secret).owner.username == "bert, the 2nd to last"
    verify()


def test_names_can_be_reused_and_swapped_and_the_journal_still_explains_the_tables():
    rename_user(author=COMMAND, name="bob", new_name="old-bob")
    add_user("bob")
    create_token(author=COMMAND, owner="bob", name="new", scopes=["read"], days=3)
    add_grant("user:bob", ORDERS, "ADMIN")
    rename_group(author=COMMAND, name="red", new_name="crimson")
    add_member("bob", "crimson")
    rename_user(author=COMMAND, name="bob", new_name="temporary")
    rename_user(author=COMMAND, name="old-bob", new_name="bob")
    rename_group(author=COMMAND, name="crimson", new_name="red")
    verify()
    UserGrant.objects.filter(user__username="temporary").delete()
    assert f"the grant of ADMIN on {ORDERS} to user:bob" in str(first_fault(facts_of_sign_in))


def test_the_past_shows_the_grants_of_a_renamed_user():
    before = current_revision()
    rename_user(author=COMMAND, name="bob", new_name="bert")
    revoke_grant("user:bert", ORDERS, "READ")
    catch_up()
    with as_of(before):
        assert UserGrant.objects.count() == 1
    assert not UserGrant.objects.exists()


@pytest.mark.parametrize(
    ("new_name", "message"),
    [
        ("cyd", "already exists"),
        ("CYD", "looks like"),
        ("", "empty"),
        ("a\nb", "control character"),
        (" bob", "space"),
        ("o\u200bk", "invisible"),
    ],
)
def test_invalid_and_lookalike_new_names_are_refused(new_name, message):
    before = database_state()
    with pytest.raises(PrincipalError, match=message):
        rename_user(author=COMMAND, name="bob", new_name=new_name)
    assert database_state() == before


def test_a_name_can_change_its_case():
    assert rename_user(author=COMMAND, name="bob", new_name="Bob").has_changed
    assert rename_group(author=COMMAND, name="red", new_name="Red").has_changed


def test_plans_follow_renames():
    plan = create_plan_from_changes(join=[Join("cyd", "red")], revoke=[("user:bob", ORDERS, "READ")])
    before = all_grants()
    apply_plan(plan)
    stale = create_plan_from_changes(grant=[("user:bob", ORDERS, "ADMIN")])
    rename_user(author=COMMAND, name="bob", new_name="bert")
    rename_group(author=COMMAND, name="red", new_name="crimson")
    with pytest.raises(StalePlan):
        apply_plan(stale)
    assert renew_plan(stale).items.get().principal == "user:bert"
    apply_plan(create_inverse(plan))
    assert {
        (name.replace("bert", "bob").replace("crimson", "red"), *rest) for name, *rest in all_grants()
    } == before
    assert not account("cyd").groups.exists()


def test_names_since_follow_chains_and_ignore_later_users_of_a_name():
    start = current_revision()
    rename_user(author=COMMAND, name="bob", new_name="b2")
    rename_user(author=COMMAND, name="cyd", new_name="bob")
    rename_user(author=COMMAND, name="b2", new_name="b3")
    rename_user(author=COMMAND, name="bob", new_name="c3")
    current = names_since(start)
    assert [current(f"user:{name}") for name in ("bob", "cyd", "ada")] == ["user:b3", "user:c3", "user:ada"]


def test_removing_a_user_needs_a_confirmation_for_grants_and_removes_everything():
    create_token(author=COMMAND, owner="bob", name="ci", scopes=["read"], days=3)
    with pytest.raises(PrincipalError, match="user:bob has grants"):
        remove_user("bob")
    before = current_revision()
    remove_user("bob", revokes_grants=True)
    assert [line[:2] for line in lines_after(before)] == [
        ("revoke", "user:bob"),
        ("member-remove", "user:bob"),
        ("token-revoke", "user:bob"),
        ("token-remove", "user:bob"),
        ("user-remove", "user:bob"),
    ]
    assert not User.objects.filter(username="bob").exists() and not ApiToken.objects.exists()
    assert all_grants() == {("group:red", ORDERS, "WRITE")}
    verify()
    add_user("bob")
    verify()


def test_factors_and_identity_links_end_with_the_user():
    bob = account("bob")
    SocialAccount.objects.create(user=bob, provider="corp", uid="42")
    Authenticator.objects.create(user=bob, type=Authenticator.Type.TOTP, data={})
    before = current_revision()
    remove_user("bob", revokes_grants=True)
    assert ("identity-unlink", "user:bob", "", "", "provider: corp, subject: 42") in lines_after(before)
    assert not SocialAccount.objects.exists() and not Authenticator.objects.exists()
    verify()


def test_the_last_administrator_and_the_account_of_the_author_cannot_be_removed():
    ada = account("ada")
    with pytest.raises(PrincipalError, match="only active administrator"):
        remove_user("ada")
    with pytest.raises(PrincipalError, match="your own account"):
        remove_user("ada", author=Author("ada", user_id=ada.pk))


def test_a_group_is_removed_with_its_grants_after_a_confirmation():
    with pytest.raises(PrincipalError, match="group:red has grants"):
        remove_group("red")
    remove_group("red", revokes_grants=True)
    assert not Group.objects.exists() and all_grants() == {("user:bob", ORDERS, "READ")}
    verify()


def test_names_that_other_systems_know_are_kept():
    ProvisionedUser.objects.create(user=account("cyd"))
    with override_settings(BREAK_GLASS_ACCOUNTS=["bob"]):
        for name, message in (("bob", "BREAK_GLASS_ACCOUNTS"), ("cyd", "provisioning service")):
            with pytest.raises(PrincipalError, match=message):
                rename_user(author=COMMAND, name=name, new_name="other")
            with pytest.raises(PrincipalError, match=message):
                remove_user(name, revokes_grants=True)
    SocialAccount.objects.create(user=account("bob"), provider="ldap", uid="1")
    with pytest.raises(PrincipalError, match="the directory knows it by this name"):
        rename_user(author=COMMAND, name="bob", new_name="other")
