"""Attacks with appointments: who appoints a data steward or an approver does not thereby choose the second
person.
"""

from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.utils import timezone

from entities.address import parse_address
from grants.authority.break_glass import start_break_glass
from grants.change_set import ChangeSet, Include, Join
from grants.changes import apply
from grants.errors import NotApprover, SecondPersonRequired
from grants.models import (
    JournalLine,
    NamespaceApprovers,
    NamespaceSteward,
    RequestState,
    Role,
    User,
    UserGrant,
)
from grants.principals.services import add_role
from grants.requests.approvers import set_namespace_approvers
from grants.stewards import add_steward, remove_steward
from tests.grants.requests.test_requests import approve, request_access
from tests.rest.conftest import Rest
from tests.scim.conftest import Scim, error_of
from tests.support.authors import COMMAND, account, author_named
from tests.support.changes import (
    add_grant,
    add_member,
    add_user,
    apply_plan,
    bearer,
    create_plan_from_changes,
    issue_token,
    rename_group,
    set_user_active,
)
from tests.support.pages import page_html
from tests.web.conftest import Browser

pytestmark = pytest.mark.django_db
NAMESPACE, ORDERS = parse_address("namespace:sales"), "dataset:sales.orders"


@pytest.fixture(autouse=True)
def tenant(cast, settings):
    settings.FOUR_EYES, settings.SCIM_ENABLED, settings.PROTECTED_NAMESPACES = True, True, ["hr"]
    cast["bob"] = User.objects.create(username="bob", role=Role.ADMINISTRATOR, is_principal=False)
    return cast


def test_the_attack_an_imported_account_confirms_its_own_proposal_as_another_one():
    """Journal lines write the accounts with the name of a command with this suffix."""
    User.objects.create(username="bob (account)", role=Role.ADMINISTRATOR, is_principal=False)
    for _ in range(2):
        assert "proposed" in steward("bob (account)").sentence
    assert not NamespaceSteward.objects.exists()
    assert "proposed" not in steward("ada").sentence


def steward(by: str, principal: str = "user:out", namespace=NAMESPACE):
    return add_steward(author=author_named(by), namespace=namespace, principal=principal)


def approvers(by: str, group: str = "operators"):
    return set_namespace_approvers(author=author_named(by), namespace=NAMESPACE, group=group)


def by_service(name: str) -> None:
    steward(name)


def by_rest(name: str) -> None:
    rest = Rest(headers=bearer(name, "read", "administer"))
    answer = rest.post("/stewards", {"namespace": "namespace:sales", "principal": "user:out"})
    assert answer.status_code == 200, answer.content


def by_page(name: str) -> None:
    browser = Browser()
    browser.force_login(account(name))
    page = browser.post("/stewards/namespace:sales", {"verb": "add", "principal": "user:out"})
    assert page.status_code == 303, page.content


@pytest.mark.parametrize("appoint", [by_service, by_rest, by_page])
def test_the_attack_one_administrator_appoints_the_steward_who_approves_the_own_request(appoint):
    appoint("ada")
    appoint("ada")
    assert not NamespaceSteward.objects.exists(), "the administrator alone only proposes"
    request = request_access("ada", ("drop", ORDERS))
    with pytest.raises(NotApprover):
        approve(request, "out")
    appoint("bob")
    assert NamespaceSteward.objects.get().user == account("out")
    # the person who proposed the steward is not independent of it for a day, and it never approves ADMIN
    with pytest.raises(SecondPersonRequired, match="gave you the right to approve"):
        approve(request, "out")
    JournalLine.objects.update(at=timezone.now() - timedelta(hours=25))
    with pytest.raises(NotApprover, match="ADMIN and grants in protected namespaces need an administrator"):
        approve(request, "out")
    assert not UserGrant.objects.filter(user__username="ada").exists()
    assert approve(request, "bob").state == RequestState.APPROVED


def test_a_proposal_ends_after_a_week_with_the_appointment_and_for_other_accounts_of_its_author(settings):
    assert steward("ada").sentence.startswith("user:out as data steward of namespace:sales is proposed now")
    assert not steward("ada").has_changed
    robot = add_user("robot", role=Role.ADMINISTRATOR, is_service=True)
    assert robot.has_changed
    of_robot = author_named("robot", token_by="ada")
    add_steward(author=of_robot, namespace=NAMESPACE, principal="user:out")
    assert not NamespaceSteward.objects.exists()
    JournalLine.objects.filter(action="steward-propose").update(at=timezone.now() - timedelta(days=8))
    steward("bob")
    assert not NamespaceSteward.objects.exists()
    steward("ada")
    assert NamespaceSteward.objects.exists()
    remove_steward(author=author_named("ada"), namespace=NAMESPACE, principal="user:out")
    steward("ada")
    assert not NamespaceSteward.objects.exists(), "the old proposal of bob was used already"


def test_the_group_of_approvers_needs_two_administrators_and_one_ends_it():
    approvers("ada")
    assert not NamespaceApprovers.objects.exists()
    rest = Rest(headers=bearer("ada", "read", "administer"))
    body = {"namespace": "namespace:sales", "group": "operators"}
    answer = rest.put("/approvers", body).json()
    assert answer["is_proposed"] and "another administrator" in answer["sentence"]
    assert rest.get("/approvers").json()["items"] == []
    browser = Browser()
    browser.force_login(account("bob"))
    assert "ada proposed" in page_html(browser.get("/requests/approvers"))
    form = body | {"group": "group:operators"}
    assert browser.post("/requests/approvers", form).status_code == 303
    assert NamespaceApprovers.objects.get().group.name == "operators"
    assert "ada proposed" not in page_html(browser.get("/requests/approvers"))
    # another group in its place is another appointment
    Group.objects.create(name="others")
    approvers("ada", "others")
    assert NamespaceApprovers.objects.get().group.name == "operators"
    assert rest.put("/approvers", body | {"group": None}).status_code == 200
    assert not NamespaceApprovers.objects.exists()


def test_the_page_of_stewards_offers_the_proposal_of_another_administrator():
    steward("ada")
    browser = Browser()
    browser.force_login(account("bob"))
    page = page_html(browser.get("/stewards/namespace:sales"))
    assert "ada proposed" in page and "Confirm" in page


@pytest.mark.parametrize("appoint", ["steward", "approvers"])
def test_the_attack_a_requester_adds_a_member_to_the_group_that_approves(appoint, tenant):
    if appoint == "steward":
        add_steward(author=COMMAND, namespace=NAMESPACE, principal="group:operators")
    else:
        set_namespace_approvers(author=COMMAND, namespace=NAMESPACE, group="operators")
    ada = author_named("ada")
    with pytest.raises(SecondPersonRequired, match="appoints a data steward or an approver"):
        add_member("out", "operators", author=ada)
    add_user("idp", is_service=True, is_principal=False)
    idp = Scim(headers={"Authorization": f"Bearer {issue_token('idp', 'provision').secret}"})
    group = Group.objects.get(name="operators")
    answer = idp.patch(
        f"/Groups/{group.pk}", {"op": "add", "path": "members", "value": [{"value": str(tenant["out"].pk)}]}
    )
    assert "appoints" in error_of(answer, 403)
    plan = create_plan_from_changes(author=ada, join=[Join("out", "operators")])
    with pytest.raises(SecondPersonRequired, match="appoints"):
        apply_plan(plan, author=ada)
    assert not tenant["out"].groups.exists()
    # an activation appoints the former members again
    add_member("ina", "operators")
    with pytest.raises(SecondPersonRequired, match="appoints"):
        set_user_active("ina", author=ada, active=True)


@pytest.mark.parametrize("has_new_name", [True, False])
def test_a_member_whom_the_requester_added_is_not_independent(has_new_name, settings):
    """The rules were switched on only afterwards."""
    settings.FOUR_EYES = False
    set_namespace_approvers(author=COMMAND, namespace=NAMESPACE, group="operators")
    add_member("out", "operators", author=author_named("ada"))
    if has_new_name:
        rename_group(name="operators", new_name="deciders")
    settings.FOUR_EYES = True
    request = request_access("ada", ("read", ORDERS))
    with pytest.raises(SecondPersonRequired, match="gave you the right to approve"):
        approve(request, "out")
    # for others it is, and so is a member whom somebody else added
    assert approve(request_access("dee", ("write", ORDERS)), "out").state == RequestState.APPROVED
    assert approve(request, "grp").state == RequestState.APPROVED


def test_who_appoints_through_a_role_or_puts_a_group_into_it_chooses_no_second_person():
    add_role(author=COMMAND, name="deciders")
    add_member("dee", "operators")
    include = ChangeSet.of(Include("operators", "role:deciders"))
    assert apply(include, author=COMMAND).has_changed
    for by in ("ada", "bob"):
        approvers(by, "role:deciders")
    assert NamespaceApprovers.objects.exists()
    request = request_access("ada", ("read", ORDERS))
    with pytest.raises(SecondPersonRequired, match="gave you the right to approve"):
        approve(request, "dee")
    JournalLine.objects.filter(action__startswith="approvers").update(at=timezone.now() - timedelta(hours=25))
    assert approve(request, "dee").state == RequestState.APPROVED
    JournalLine.objects.filter(action="member-add", principal="group:operators").update(actor="ada")
    with pytest.raises(SecondPersonRequired, match="gave you the right to approve"):
        approve(request_access("ada", ("write", ORDERS)), "dee")


def test_the_group_of_the_namespace_approves_what_stewards_may_not(settings):
    settings.PROTECTED_NAMESPACES = ["sales"]
    add_steward(author=COMMAND, namespace=NAMESPACE, principal="user:dee")
    set_namespace_approvers(author=COMMAND, namespace=NAMESPACE, group="operators")
    request = request_access("out", ("read", ORDERS))
    with pytest.raises(NotApprover, match="protected namespaces need"):
        approve(request, "dee")
    assert approve(request, "grp").state == RequestState.APPROVED
    settings.FOUR_EYES = False
    assert approve(request_access("out", ("write", ORDERS)), "dee").state == RequestState.APPROVED


def test_a_delegate_whom_the_requester_gave_admin_is_not_independent(settings):
    settings.DELEGATION, settings.FOUR_EYES = True, False
    add_grant("user:dee", ORDERS, "ADMIN", author=author_named("ada"))
    settings.FOUR_EYES = True
    request = request_access("ada", ("read", ORDERS))
    with pytest.raises(SecondPersonRequired, match="gave you the right to approve"):
        approve(request, "dee")
    assert approve(request, "ned").state == RequestState.APPROVED


def test_break_glass_access_appoints_alone(settings):
    settings.BREAK_GLASS_ACCOUNTS = ["bob"]
    start_break_glass(author=author_named("bob"))
    assert steward("bob").has_changed and NamespaceSteward.objects.exists()
