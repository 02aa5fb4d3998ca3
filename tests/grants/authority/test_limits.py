"""Administrators set the limits of delegation, within those of the settings."""

from datetime import timedelta

import pytest
from django.utils import timezone

from entities.address import parse_address
from grants.authority.limits import DelegationLimits, set_delegation_limits
from grants.authority.rights import grantable_privileges, is_approver
from grants.errors import DelegationError, GrantError, NotAdministrator
from grants.journal import Author
from grants.models import JournalLine, Role, StoredDelegationLimits, User
from grants.requests.approvers import requests_to_decide
from grants.requests.create import RequestDraft, WantedAccess, create_request
from grants.validity import Validity
from grants.verification.replay import first_fault
from tests.support.authors import COMMAND, account, author_with
from tests.support.cast import create_sample_tenant
from tests.support.changes import add_grant

pytestmark = pytest.mark.django_db
ORDERS, SHOP = map(parse_address, ("dataset:sales.orders", "application:sales.shop"))


@pytest.fixture
def cast(settings):
    settings.DELEGATION, settings.DELEGATION_PRIVILEGES = True, ["READ", "WRITE"]
    settings.DELEGATION_KINDS, settings.DELEGATION_MAX_DAYS = [], 60
    return create_sample_tenant()


def set_limits(privileges=("READ", "WRITE"), kinds=None, max_days=0, author=None):
    return set_delegation_limits(
        author=author or author_with(Role.ADMINISTRATOR),
        privileges=privileges,
        kinds=kinds,
        max_days=max_days,
    )


def fault_of(user: User, privilege="READ", address=ORDERS, days=5) -> str:
    until = timezone.now().replace(microsecond=0) + timedelta(days=days)
    try:
        add_grant(
            "user:out",
            address,
            privilege,
            Validity(None, until),
            author=Author(user.username, user_id=user.pk),
        )
    except GrantError as error:
        return str(error)
    return ""


def test_stored_limits_narrow_those_of_the_settings(cast):
    ned = cast["ned"]
    assert DelegationLimits.current() == DelegationLimits.from_settings() and not fault_of(
        ned, "WRITE", days=50
    )
    assert set_limits(["READ"], ["dataset", "stream"], 10).has_changed
    assert not set_limits(["READ"], ["stream", "dataset"], 10).has_changed
    ned = account("ned")
    assert "WRITE can only" in fault_of(ned, "WRITE") and "on a application" in fault_of(ned, address=SHOP)
    assert "within 10 days" in fault_of(ned, days=11) and not fault_of(ned, days=9)
    assert not is_approver(ned, SHOP, "READ")
    assert grantable_privileges(ned) == ["READ"]
    set_limits([], None, 0)
    assert "can only be changed by administrators" in fault_of(ned)


def test_narrower_settings_narrow_stored_limits(cast, settings):
    set_limits(["READ", "WRITE"], ["dataset"], 0)
    assert DelegationLimits.current() == DelegationLimits(
        frozenset({"READ", "WRITE"}), frozenset({"dataset"}), 60
    )
    settings.DELEGATION_PRIVILEGES, settings.DELEGATION_KINDS, settings.DELEGATION_MAX_DAYS = (
        ["READ"],
        ["stream"],
        5,
    )
    # no kind is left, which does not mean all kinds
    assert DelegationLimits.current() == DelegationLimits(frozenset({"READ"}), frozenset(), 5)
    assert "can only be changed by administrators" in fault_of(cast["ned"])


@pytest.mark.parametrize(
    ("limits", "field"),
    [
        ({"privileges": ["READ", "ADMIN"]}, "privileges"),
        ({"kinds": ["table"]}, "kinds"),
        ({"kinds": []}, "kinds"),
        ({"kinds": ["namespace"]}, "kinds"),
        ({"max_days": 61}, "max_days"),
        ({"max_days": -1}, "max_days"),
    ],
)
def test_limits_beyond_the_settings_are_refused(cast, settings, limits, field):
    settings.DELEGATION_KINDS = ["dataset"]
    with pytest.raises(DelegationError) as error:
        set_limits(**limits)
    assert error.value.field == field and not StoredDelegationLimits.objects.exists()


def test_only_administrators_set_limits(cast):
    for role in set(Role) - {Role.ADMINISTRATOR}:
        with pytest.raises(NotAdministrator):
            set_limits(author=author_with(role))
    ned = cast["ned"]
    with pytest.raises(NotAdministrator):
        set_limits(author=Author("ned", user_id=ned.pk))


def test_the_journal_has_the_limits_and_shows_a_change_of_the_table(settings):
    set_limits(["READ"], ["stream", "dataset"], 30, author=COMMAND)
    line = JournalLine.objects.latest("revision")
    assert (line.action, line.detail) == (
        "delegation-set",
        "privileges READ; kinds dataset, stream; at most 30 days",
    )
    assert first_fault() is None
    StoredDelegationLimits.objects.update(max_days=0)
    assert "the limits of delegation" in str(first_fault())


def test_an_approver_by_delegation_has_the_limits_of_the_moment(cast):
    request = create_request(
        author=Author("out", user_id=cast["out"].pk),
        draft=RequestDraft("close", [WantedAccess(ORDERS, "READ")]),
    )
    assert list(requests_to_decide(account("ned"))) == [request]
    set_limits(["READ"], ["stream"], 0)
    assert not requests_to_decide(account("ned")).exists()


def test_limits_take_one_query_for_each_account_and_none_without_delegation(
    cast, settings, django_assert_num_queries
):
    ned = account("ned")
    with django_assert_num_queries(1):
        assert grantable_privileges(ned) == grantable_privileges(ned)
    settings.DELEGATION = False
    with django_assert_num_queries(0):
        assert DelegationLimits.current() == DelegationLimits.from_settings()
        assert grantable_privileges(User(username="x"))
