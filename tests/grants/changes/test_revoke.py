"""Test revoking one privilege."""

import pytest
from django.contrib.auth.models import Group

from entities.address import parse_address
from entities.models import Entity
from entities.vocabulary import Privilege
from grants.errors import GrantError, NotAdministrator
from grants.models import Role, User
from tests.support.authors import all_grants, author_with, database_state, lines_after
from tests.support.changes import add_grant, revoke_grant

pytestmark = pytest.mark.django_db
ORDERS = parse_address("dataset:sales.orders")


@pytest.fixture(autouse=True)
def grants():
    User.objects.create(username="alice")
    Group.objects.create(name="analysts")
    for principal in ("user:alice", "group:analysts"):
        for privilege in (Privilege.READ, Privilege.ADMIN):
            add_grant(principal, ORDERS, privilege)


@pytest.mark.parametrize("principal", ["user:alice", "group:analysts"])
def test_exactly_one_grant_is_revoked_and_journaled(principal):
    before = all_grants()
    outcome = revoke_grant(principal, ORDERS, Privilege.READ)
    assert (outcome.has_changed, outcome.sentence) == (True, "revoked 1")
    assert [str(item) for item in outcome.revoked] == [f"READ on dataset:sales.orders for {principal}"]
    assert before - all_grants() == {(principal, "dataset:sales.orders", "READ")}
    assert lines_after(outcome.revision - 1) == [("revoke", principal, "dataset:sales.orders", "READ", "")]


@pytest.mark.parametrize("address", ["dataset:sales.orders", "dataset:sales.none"])
def test_revoking_a_grant_that_does_not_exist_is_reported_and_changes_nothing(address):
    before = database_state()
    outcome = revoke_grant("user:alice", address, Privilege.WRITE)
    assert not outcome.has_changed
    assert outcome.unchanged == (f"user:alice does not hold WRITE on {address}: nothing changed",)
    assert database_state() == before


def test_the_address_remains_registered_without_grants():
    for principal in ("user:alice", "group:analysts"):
        for privilege in (Privilege.READ, Privilege.ADMIN):
            revoke_grant(principal, ORDERS, privilege)
    assert all_grants() == set()
    assert Entity.objects.get(kind="dataset").state == "planned"


def test_revoking_from_an_unknown_principal_is_an_error():
    before = database_state()
    with pytest.raises(GrantError, match=r"^user:nobody does not exist"):
        revoke_grant("user:nobody", ORDERS, Privilege.READ)
    assert database_state() == before


def test_an_auditor_cannot_revoke():
    author = author_with(Role.AUDITOR)
    before = database_state()
    with pytest.raises(NotAdministrator):
        revoke_grant("user:alice", ORDERS, Privilege.READ, author=author)
    assert database_state() == before
