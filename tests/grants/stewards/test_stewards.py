"""Data stewards are assigned by administrators, with journal lines, and end with their user or group."""

from datetime import timedelta

import pytest
from django.utils import timezone

from authzconsole.common.tokens import create_token
from authzconsole.models import ApiToken
from entities.address import parse_address
from entities.models import Entity
from grants.authority.rights import approvers_of, can_change_some_grants, can_see_holders, is_approver
from grants.authority.stewards import is_steward, stewarded_condition, stewards_of
from grants.errors import GrantError, NotAdministrator, PrincipalError, StewardError
from grants.journal import Author
from grants.models import JournalLine, Membership, NamespaceSteward, User
from grants.principals.services import renew_user_password
from grants.stewards.services import add_steward, remove_steward
from grants.verification.replay import first_fault
from tests.support.authors import account
from tests.support.cast import SALES, SETUP, create_role_accounts
from tests.support.changes import (
    add_grant,
    add_group,
    add_user,
    register_entity,
    remove_group,
    remove_user,
    rename_user,
    set_user_active,
)

pytestmark = pytest.mark.django_db

NAMESPACE, ORDERS, SALARIES = map(
    parse_address, ("namespace:sales", "dataset:sales.orders", "dataset:hr.salaries")
)


def reload(user: User) -> User:
    """Return the account as in another request."""
    return User.objects.get(pk=user.pk)


def steward_lines() -> list[tuple[str, str, str]]:
    lines = JournalLine.objects.filter(action__startswith="steward").order_by("revision")
    return list(lines.values_list("action", "principal", "entity"))


@pytest.mark.parametrize("principal", ["user:out", "group:operators"])
def test_a_steward_sees_and_approves_in_the_namespace_and_changes_nothing(principal, cast):
    steward = cast["out" if principal == "user:out" else "grp"]
    assert add_steward(author=SETUP, namespace=NAMESPACE, principal=principal).has_changed
    assert not add_steward(author=SETUP, namespace=NAMESPACE, principal=principal).has_changed
    assert (
        is_steward(steward, ORDERS)
        and can_see_holders(steward, ORDERS)
        and is_approver(steward, ORDERS, "ADMIN")
    )
    assert (
        not is_steward(steward, SALARIES)
        and not can_see_holders(steward, SALARIES)
        and not is_approver(steward, SALARIES)
    )
    assert not can_change_some_grants(steward, ORDERS) and not is_steward(
        steward, parse_address("instance:cdap")
    )
    seen = Entity.objects.filter(stewarded_condition(steward), state="live").values_list("kind", "key")
    assert {f"{kind}:{key}" for kind, key in seen} == set(SALES)
    assert [user.username for user in stewards_of(ORDERS)] == [steward.username]
    assert {user.username for user in approvers_of(ORDERS)} == {"ada", steward.username}
    with pytest.raises(NotAdministrator):
        add_grant("user:dee", ORDERS, "READ", author=Author(steward.username, user_id=steward.pk))
    assert remove_steward(author=SETUP, namespace=NAMESPACE, principal=principal).has_changed
    assert not remove_steward(author=SETUP, namespace=NAMESPACE, principal=principal).has_changed
    assert not is_steward(reload(steward), ORDERS)
    assert steward_lines() == [
        ("steward-add", principal, "namespace:sales"),
        ("steward-remove", principal, "namespace:sales"),
    ]


@pytest.mark.parametrize("end", ["inactive", "later", "over", "left"])
def test_only_active_accounts_and_memberships_in_force_count(end, cast):
    add_steward(author=SETUP, namespace=NAMESPACE, principal="group:operators")
    now = timezone.now()
    match end:
        case "inactive":
            set_user_active("grp", active=False)
        case "later":
            Membership.objects.update(valid_from=now + timedelta(hours=1))
        case "over":
            Membership.objects.update(valid_until=now - timedelta(hours=1))
        case "left":
            Membership.objects.all().delete()
    assert not is_steward(reload(cast["grp"]), ORDERS) and not stewards_of(ORDERS).exists()


@pytest.mark.parametrize(
    ("namespace", "principal", "error"),
    [
        ("namespace:nowhere", "user:out", StewardError),
        ("dataset:sales.orders", "user:out", StewardError),
        ("namespace:sales", "user:nobody", PrincipalError),
        ("namespace:sales", "out", PrincipalError),
    ],
)
def test_a_wrong_namespace_or_principal_is_refused(namespace, principal, error, cast):
    with pytest.raises(error):
        add_steward(author=SETUP, namespace=parse_address(namespace), principal=principal)
    assert not NamespaceSteward.objects.exists() and steward_lines() == []


@pytest.mark.parametrize("name", ["aud", "ned", "sec", "app", "ope"])
def test_only_administrators_assign_stewards(name, cast):
    cast.update(create_role_accounts())
    author = Author(name, user_id=cast[name].pk)
    for change in (add_steward, remove_steward):
        with pytest.raises(GrantError):
            change(author=author, namespace=NAMESPACE, principal="user:out")


def test_a_security_administrator_creates_no_token_of_a_service_account_that_is_a_steward(cast):
    """The token would read everything in the namespace, which the role of its creator does not allow."""
    sec = create_role_accounts()["sec"]
    add_user("robot", is_service=True)
    options = {"owner": "robot", "name": "t", "scopes": ["read"], "days": 1}
    assert create_token(author=Author("sec", user_id=sec.pk), **options).token.owner.username == "robot"
    add_steward(author=SETUP, namespace=NAMESPACE, principal="user:robot")
    with pytest.raises(NotAdministrator):
        create_token(author=Author("sec", user_id=sec.pk), **options)
    assert ApiToken.objects.count() == 1
    assert create_token(author=Author("ada", user_id=cast["ada"].pk), **options).secret


def test_stewards_end_with_their_user_or_group_and_the_journal_agrees_with_the_tables(db):
    register_entity(NAMESPACE)
    for name in ("out", "dee", "grp"):
        add_user(name)
    add_group("stewards")
    for principal in ("user:out", "group:stewards", "user:dee"):
        add_steward(author=SETUP, namespace=NAMESPACE, principal=principal)
    rename_user(author=SETUP, name="dee", new_name="deb")
    remove_user("out")
    remove_group("stewards")
    assert [line[:2] for line in steward_lines()[3:]] == [
        ("steward-remove", "user:out"),
        ("steward-remove", "group:stewards"),
    ]
    assert NamespaceSteward.objects.get().principal == "user:deb" and first_fault() is None
    NamespaceSteward.objects.update(user=account("grp"))
    assert "as data steward of namespace:sales" in str(first_fault())


def test_the_attack_a_security_administrator_takes_no_account_of_a_steward(cast):
    cast.update(create_role_accounts())
    add_steward(author=SETUP, namespace=NAMESPACE, principal="user:out")
    with pytest.raises(NotAdministrator):
        renew_user_password(author=Author("sec", user_id=cast["sec"].pk), name="out")
    assert renew_user_password(author=Author("ada", user_id=cast["ada"].pk), name="out")
