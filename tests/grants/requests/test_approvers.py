"""Test who decides about access requests by role and by delegation."""

import pytest

from entities.address import parse_address
from grants.errors import NotApprover
from grants.models import RequestState, User, UserGrant
from grants.requests.approvers import (
    approver_accounts,
    decidable_requests,
    requests_to_decide,
    visible_requests,
)
from grants.requests.disclosure import view_of
from grants.stewards.services import add_steward
from tests.grants.requests.test_requests import approve, request_access
from tests.support.authors import COMMAND, account
from tests.support.changes import add_grant, change_grants

pytestmark = pytest.mark.usefixtures("cast")
DAILY = "program:sales.shop.workflow.daily"


@pytest.fixture
def delegation(settings):
    settings.DELEGATION, settings.DELEGATION_MAX_DAYS = True, 0
    settings.DELEGATION_PRIVILEGES, settings.DELEGATION_KINDS = ["READ", "EXECUTE"], []
    return settings


def test_the_role_approver_decides_about_everything():
    User.objects.filter(username="grp").update(role="approver")
    request = request_access()
    assert list(requests_to_decide(account("grp"))) == [request] and account("grp") in approver_accounts(
        request
    )
    assert approve(request, "grp").state == RequestState.APPROVED


@pytest.mark.parametrize("role", ["ordinary", "auditor", "security-administrator", "operator"])
def test_other_roles_decide_about_nothing(role):
    User.objects.filter(username="grp").update(role=role)
    request = request_access()
    assert not decidable_requests(account("grp")).exists()
    assert visible_requests(account("grp")).exists() is (role == "auditor")
    with pytest.raises(NotApprover, match="may not decide"):
        approve(request, "grp")


def test_holders_of_admin_decide_only_with_delegation(settings):
    request = request_access()
    for is_on in (False, True):
        settings.DELEGATION = is_on
        assert (
            decidable_requests(account("ned")).exists()
            is (account("ned") in approver_accounts(request))
            is is_on
        )
    assert approve(request, "ned").state == RequestState.APPROVED
    assert str(UserGrant.objects.get(user__username="out").privilege) == "READ"


@pytest.mark.parametrize(
    "address",
    [
        "instance:cdap",
        "namespace:sales",
        "application:sales.shop",
        DAILY,
        "dataset:sales.orders",
        "application:sales.other",
        "namespace:hr",
        "dataset:sales.forecast",
    ],
)
def test_the_list_of_requests_agrees_with_the_check_of_one_request(delegation, address):
    """grp gets ADMIN on one address; the requests ask for access in and outside of it."""
    add_grant("group:operators", address, "ADMIN")
    wanted = [
        ("READ", "dataset:sales.orders"),
        ("EXECUTE", DAILY),
        ("READ", "dataset:hr.salaries"),
        ("READ", "namespace:sales"),
        ("EXECUTE", "program:sales.shopping.workflow.daily"),
        ("READ", "dataset:sales.forecast"),
        ("READ", "instance:cdap"),
    ]
    requests = [request_access("out", item) for item in wanted]
    expected = [request for request in requests if view_of(request, account("grp")).can_approve]
    assert sorted(decidable_requests(account("grp")), key=lambda request: request.pk) == expected
    assert [request for request in requests if account("grp") in approver_accounts(request)] == expected
    delegation.DELEGATION_KINDS = ["namespace"]
    assert {request.pk for request in decidable_requests(account("grp"))} == {
        request.pk for request in requests if view_of(request, account("grp")).can_approve
    }


def test_a_data_steward_decides_about_the_namespace():
    add_steward(author=COMMAND, namespace=parse_address("namespace:sales"), principal="user:dee")
    inside = request_access("out", ("write", "dataset:sales.orders"))
    outside = request_access("out", ("read", "dataset:hr.salaries"))
    assert list(decidable_requests(account("dee"))) == [inside]
    assert account("dee") in approver_accounts(inside) and account("dee") not in approver_accounts(outside)
    assert approve(inside, "dee").state == RequestState.APPROVED


def test_a_delegate_approves_within_the_limits_only(delegation):
    admin = request_access("out", ("ADMIN", "dataset:sales.orders"))
    with pytest.raises(NotApprover, match="may not grant all of this"):
        approve(admin, "ned")
    delegation.DELEGATION_MAX_DAYS = 5
    with pytest.raises(NotApprover, match="must end within 5 days"):
        approve(request_access(), "ned")


def test_a_delegate_decides_neither_for_itself_nor_about_the_access_of_a_colleague(delegation):
    own = request_access("ned", ("READ", "dataset:sales.orders"))
    like = request_access("out", wanted=(), colleague="ned")
    assert not decidable_requests(account("ned")).exists()
    for request in (own, like):
        with pytest.raises(NotApprover):
            approve(request, "ned")


def test_a_delegate_that_loses_admin_between_page_and_click_is_refused(delegation):
    request = request_access()
    assert view_of(request, account("ned")).can_approve
    change_grants(
        revoke=[("user:ned", address, "ADMIN") for address in ("dataset:sales.orders", "namespace:sales")]
    )
    with pytest.raises(NotApprover, match="may not decide"):
        approve(request, "ned")
