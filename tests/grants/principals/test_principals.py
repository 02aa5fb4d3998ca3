"""Test the services of users, groups and memberships."""

import pytest
from django.contrib.auth.models import Group

from entities.address import parse_address
from entities.models import State
from entities.services import ensure_entities
from entities.vocabulary import Privilege
from grants.errors import GrantError, NotAdministrator, PrincipalError
from grants.models import Role, User
from grants.principals.services import set_user_role
from tests.support.authors import (
    COMMAND,
    account,
    administrator,
    author_with,
    database_state,
    is_permitted,
    lines_after,
)
from tests.support.changes import (
    add_grant,
    add_group,
    add_member,
    add_user,
    remove_member,
    set_user_active,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice():
    Group.objects.create(name="analysts")
    return User.objects.create(username="alice")


def test_a_new_user_is_a_principal_who_cannot_sign_in_yet():
    outcome = add_user("Zoë O'Hara", email="zoe@example.com")
    user = User.objects.get()
    assert (user.username, user.email, user.is_principal, user.role) == (
        "Zoë O'Hara",
        "zoe@example.com",
        True,
        "ordinary",
    )
    assert not user.has_usable_password()
    assert (outcome.has_changed, outcome.sentence) == (True, "user:Zoë O'Hara was added")
    assert lines_after(0) == [("user-add", "user:Zoë O'Hara", "", "", "")]


def test_a_user_can_be_added_inactive_and_with_a_role():
    add_user("aud", active=False, role="auditor")
    assert lines_after(0) == [("user-add", "user:aud", "", "", "inactive, role: auditor")]
    assert User.objects.get(is_active=False, role=Role.AUDITOR).username == "aud"


def test_adding_an_existing_principal_changes_nothing(alice):
    before = database_state()
    assert add_user("alice").sentence == "user:alice already exists: nothing changed"
    assert add_group("analysts").sentence == "group:analysts already exists: nothing changed"
    assert database_state() == before


def test_names_are_case_sensitive(alice):
    """New names that differ only in case are refused, but an import or an earlier version may have added
    them.
    """
    User.objects.create(username="Alice")
    Group.objects.create(name="Analysts")
    add_member("Alice", "analysts")
    assert [user.username for user in Group.objects.get(name="analysts").user_set.all()] == ["Alice"]
    assert not Group.objects.get(name="Analysts").user_set.exists()


def test_a_user_and_a_group_may_share_a_name(alice):
    assert add_group("alice").has_changed
    assert lines_after(0) == [("group-add", "group:alice", "", "", "")]


def test_adding_an_existing_account_makes_it_a_principal():
    User.objects.create(username="root", is_principal=False, role=Role.ADMINISTRATOR)
    assert add_user("root").has_changed
    assert lines_after(0) == [("principal-add", "user:root", "", "", "")]
    assert User.objects.get().role == Role.ADMINISTRATOR


@pytest.mark.parametrize(
    "name, message",
    [
        ("", "the name is empty"),
        ("  ", "the name is empty"),
        ("a" * 151, "the name has 151 characters; 150 are allowed"),
        ("a\nb", "holds a control character"),
        ("a\0", "holds a control character"),
        ("a\x9fb", "holds a control character"),
        ("\ud800", "half of a surrogate pair"),
    ],
)
def test_an_invalid_name_is_refused(name, message):
    for add in (add_user, add_group):
        with pytest.raises(PrincipalError, match=message):
            add(author=COMMAND, name=name)
    assert not User.objects.exists() and not Group.objects.exists()


@pytest.mark.parametrize("email", ["a" * 255, "a\r\nBcc: b", "\ud800"])
def test_an_invalid_email_is_refused(email):
    with pytest.raises(PrincipalError, match="email|surrogate"):
        add_user("alice", email=email)


def test_a_name_of_150_characters_is_journaled_in_full():
    add_group("é" * 150)
    assert lines_after(0)[0][1] == "group:" + "é" * 150


def test_a_deactivated_user_is_denied_until_activated_again(alice):
    orders = parse_address("dataset:sales.orders")
    ensure_entities(states={orders: State.LIVE})
    add_grant(alice, orders, Privilege.READ)
    for active, action in ((False, "user-deactivate"), (True, "user-activate")):
        outcome = set_user_active("alice", active=active)
        assert lines_after(outcome.revision - 1) == [(action, "user:alice", "", "", "")]
        assert is_permitted("alice", "read", orders) is active
        assert not set_user_active("alice", active=active).has_changed


def test_a_role_is_set_once_and_journaled(alice):
    outcome = set_user_role(author=COMMAND, name="alice", role="auditor")
    assert outcome.sentence == "user:alice has the role Auditor now; it was User"
    assert lines_after(0) == [("role-set", "user:alice", "", "", "from ordinary to auditor")]
    assert not set_user_role(author=COMMAND, name="alice", role="auditor").has_changed
    assert User.objects.get().role == Role.AUDITOR


def test_an_unknown_role_is_refused(alice):
    with pytest.raises(
        PrincipalError, match="`king` is not a role; the roles are ordinary, auditor, administrator"
    ):
        set_user_role(author=COMMAND, name="alice", role="king")


@pytest.mark.parametrize(
    "change",
    [
        lambda name: set_user_role(author=COMMAND, name=name, role="ordinary"),
        lambda name: set_user_active(name, active=False),
    ],
    ids=["role", "deactivation"],
)
def test_the_last_active_administrator_cannot_be_removed(change):
    author = administrator()
    author_with(Role.ADMINISTRATOR, active=False)
    before = database_state()
    with pytest.raises(
        PrincipalError,
        match="is the only active administrator of this console: add another administrator first",
    ):
        change(author.name)
    assert database_state() == before
    administrator()
    assert change(author.name).has_changed


def test_members_are_added_and_removed_once(alice):
    joined = add_member("alice", "analysts")
    assert joined.sentence == "user:alice is in group:analysts now"
    assert list(alice.groups.values_list("name", flat=True)) == ["analysts"]
    assert not add_member("alice", "analysts").has_changed
    left = remove_member("alice", "analysts")
    assert left.sentence == "user:alice is no longer in group:analysts"
    assert not alice.groups.exists()
    assert not remove_member("alice", "analysts").has_changed
    assert lines_after(0) == [
        ("member-add", "user:alice", "", "", "group:analysts"),
        ("member-remove", "user:alice", "", "", "group:analysts"),
    ]


def test_an_account_becomes_a_principal_by_joining_a_group(alice):
    User.objects.create(username="root", is_principal=False)
    add_member("root", "analysts")
    assert [line[0] for line in lines_after(0)] == ["principal-add", "member-add"]
    assert account("root").is_principal


@pytest.mark.parametrize(
    "change, given, unknown",
    [
        (add_member, {"user": "nobody", "group": "analysts"}, "user:nobody does not exist"),
        (add_member, {"user": "alice", "group": "none"}, "group:none does not exist"),
        (remove_member, {"user": "alice", "group": "a\0"}, "the name .* holds a control character"),
        (set_user_active, {"name": "\ud800", "active": True}, "it contains half of a surrogate pair"),
        (set_user_role, {"name": "nobody", "role": "auditor"}, "user:nobody does not exist"),
    ],
)
def test_an_unknown_principal_is_named(alice, change, given, unknown):
    with pytest.raises(GrantError, match=f"^{unknown}"):
        change(author=COMMAND, **given)


@pytest.mark.parametrize(
    "role, active", [(Role.ORDINARY, True), (Role.AUDITOR, True), (Role.ADMINISTRATOR, False)]
)
def test_only_an_active_administrator_can_change_principals(alice, role, active):
    author = author_with(role, active=active)
    before = database_state()
    for change, given in (
        (add_user, {"name": "new"}),
        (add_group, {"name": "new"}),
        (set_user_active, {"name": "alice", "active": False}),
        (set_user_role, {"name": author.name, "role": "administrator"}),
        (add_member, {"user": "alice", "group": "analysts"}),
        (remove_member, {"user": "alice", "group": "analysts"}),
    ):
        with pytest.raises(NotAdministrator):
            change(author=author, **given)
    assert database_state() == before
