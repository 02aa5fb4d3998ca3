"""Test steps of requests at the same moment, and access that begins and ends with time."""

from datetime import timedelta

import pytest
from django.utils import timezone

from entities.address import parse_address
from grants.errors import AlreadyPermitted, PlanError, RequestClosed, RequestError
from grants.journal import first_break
from grants.models import AccessRequest, NamespaceSteward, Plan, RequestState, User, UserGrant
from grants.principals.services import set_user_role
from grants.requests.approvers import requests_to_decide, set_namespace_approvers
from grants.requests.decide import deny_request
from grants.requests.own_steps import withdraw_request
from grants.stewards import add_steward, remove_steward
from grants.validity import Validity
from tests.grants.requests.test_requests import ORDERS, SALARIES, approve, request_access
from tests.grants.test_journal import in_threads
from tests.support.authors import COMMAND, account, author_named, is_permitted
from tests.support.cast import create_sample_tenant
from tests.support.changes import (
    add_grant,
    add_member,
    apply_plan,
    create_plan_from_changes,
    remove_member,
    set_user_active,
)

NAMESPACE = parse_address("namespace:sales")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("other_step", ["approve", "deny", "withdraw"])
def test_of_two_steps_at_the_same_moment_one_is_refused(other_step):
    create_sample_tenant()
    User.objects.filter(username="ned").update(role="administrator")
    request = request_access()
    steps = {
        "approve": lambda: approve(request, "ned"),
        "deny": lambda: deny_request(author=author_named("ned"), request_id=request.pk, reason="no"),
        "withdraw": lambda: withdraw_request(author=author_named("out"), request_id=request.pk),
    }
    (refusal,) = in_threads(lambda: approve(request, "ada"), steps[other_step])
    assert isinstance(refusal, RequestClosed)
    stored = AccessRequest.objects.get()
    is_approved = stored.state == RequestState.APPROVED
    assert Plan.objects.count() == UserGrant.objects.filter(user__username="out").count() == is_approved
    assert stored.events.count() == 2 and first_break() is None


@pytest.mark.django_db(transaction=True)
def test_a_request_that_is_sent_twice_at_the_same_moment_exists_once():
    create_sample_tenant()
    in_threads(*[lambda: request_access(idempotency_key="k")] * 3)
    in_threads(*[lambda: request_access("dee", ("write", str(ORDERS)))] * 2)
    assert AccessRequest.objects.count() == 2 and first_break() is None


@pytest.fixture
def friday(db):
    create_sample_tenant()
    return timezone.now().replace(microsecond=0) + timedelta(days=4)


def test_access_that_ends_earlier_than_requested_can_be_extended(friday):
    add_grant("user:out", ORDERS, "READ", Validity(None, friday))
    with pytest.raises(AlreadyPermitted):
        request_access(requested_until=friday)
    extension = request_access(requested_until=friday + timedelta(days=7))
    approve(extension)
    assert UserGrant.objects.get(user__username="out").valid_until == friday + timedelta(days=7)
    without_end = request_access()
    approve(without_end)
    assert UserGrant.objects.get(user__username="out").valid_until is None
    with pytest.raises(AlreadyPermitted):
        request_access()


def test_an_approval_does_not_shorten_what_the_requester_gets_later(friday):
    begins, ends = friday + timedelta(days=10), friday + timedelta(days=30)
    add_grant("user:out", ORDERS, "READ", Validity(begins, ends))
    request = request_access(requested_until=friday)
    with pytest.raises(
        RequestError, match="user:out has READ on dataset:sales.orders from .* this approval would end it on"
    ):
        approve(request)
    assert UserGrant.objects.get(user__username="out").validity == Validity(begins, ends)
    assert request.parts.get().is_pending and not Plan.objects.exists()
    # an approval until a later time keeps the period
    approve(request_access("dee", ("write", str(ORDERS)), requested_until=ends))
    add_grant("user:grp", ORDERS, "READ", Validity(begins, ends))
    longer = request_access("grp", requested_until=ends)
    approve(longer)
    assert UserGrant.objects.get(user__username="grp").validity == Validity(None, ends)


def _two_parts_of_two_stewards() -> AccessRequest:
    """A request with a part of the steward ned (sales) and one of the steward dee (hr)."""
    for namespace, name in (("namespace:sales", "ned"), ("namespace:hr", "dee")):
        add_steward(author=COMMAND, namespace=parse_address(namespace), principal=f"user:{name}")
    return request_access("out", ("read", str(ORDERS)), ("read", str(SALARIES)))


@pytest.mark.django_db(transaction=True)
def test_two_approvals_of_different_parts_at_the_same_moment_are_both_made():
    create_sample_tenant()
    request = _two_parts_of_two_stewards()
    assert not in_threads(
        lambda: approve(request, "ned", choices={1: ""}), lambda: approve(request, "dee", choices={2: ""})
    )
    stored = AccessRequest.objects.get()
    assert stored.state == RequestState.APPROVED and Plan.objects.count() == 2
    assert {part.decided_by for part in stored.parts.all()} == {"ned", "dee"}
    assert UserGrant.objects.filter(user__username="out").count() == 2 and first_break() is None


@pytest.mark.django_db(transaction=True)
def test_the_attack_two_approvals_of_one_part_with_different_choices_give_it_once():
    create_sample_tenant()
    request = _two_parts_of_two_stewards()
    set_user_role(author=COMMAND, name="grp", role="administrator")
    (refusal,) = in_threads(*[lambda name=name: approve(request, name) for name in ("ada", "grp")])
    assert isinstance(refusal, RequestClosed)
    assert UserGrant.objects.filter(user__username="out").count() == 2


@pytest.mark.django_db(transaction=True)
def test_an_approval_of_a_part_while_another_approver_denies_the_others_changes_only_this_part():
    create_sample_tenant()
    request = _two_parts_of_two_stewards()
    assert not in_threads(
        lambda: approve(request, "ned", choices={1: ""}),
        lambda: deny_request(author=author_named("dee"), request_id=request.pk, reason="no"),
    )
    assert AccessRequest.objects.get().state == RequestState.APPROVED
    assert [part.state for part in request.parts.order_by("position")] == ["approved", "denied"]
    assert not is_permitted("out", "read", SALARIES)


@pytest.mark.parametrize("loss", ["steward", "role", "active", "group"])
def test_an_approver_who_lost_the_right_between_page_and_click_is_refused(loss, friday):
    request = request_access()
    match loss:
        case "steward":
            add_steward(author=COMMAND, namespace=NAMESPACE, principal="user:ned")
            assert list(requests_to_decide(account("ned"))) == [request]
            remove_steward(author=COMMAND, namespace=NAMESPACE, principal="user:ned")
        case "role":
            set_user_role(author=COMMAND, name="ned", role="approver")
            assert list(requests_to_decide(account("ned"))) == [request]
            set_user_role(author=COMMAND, name="ned", role="ordinary")
        case "active":
            add_steward(author=COMMAND, namespace=NAMESPACE, principal="user:ned")
            set_user_active("ned", active=False)
        case "group":
            set_namespace_approvers(author=COMMAND, namespace=NAMESPACE, group="operators")
            add_member("ned", "operators")
            assert list(requests_to_decide(account("ned"))) == [request]
            remove_member("ned", "operators")
    with pytest.raises(RequestError, match="may not decide|active accounts"):
        approve(request, "ned")
    assert not UserGrant.objects.filter(user__username="out").exists() and request.parts.get().is_pending


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_plan", [True, False])
def test_of_two_persons_who_apply_one_plan_at_the_same_moment_one_is_refused(is_plan, settings):
    create_sample_tenant()
    settings.FOUR_EYES = True
    for name in ("bob", "cat"):
        User.objects.create(username=name, role="administrator", is_principal=False)
    if is_plan:
        plan = create_plan_from_changes(grant=[("user:out", ORDERS, "ADMIN")], author=author_named("ada"))
        jobs = [lambda name=name: apply_plan(plan, author=author_named(name)) for name in ("bob", "cat")]
    else:
        jobs = [
            lambda name=name: add_steward(
                author=author_named(name), namespace=NAMESPACE, principal="user:out"
            )
            for name in ("bob", "cat")
        ]
    refusals = in_threads(*jobs)
    if is_plan:
        assert [type(refusal) for refusal in refusals] == [PlanError]
        assert UserGrant.objects.filter(user__username="out").count() == 1
    else:
        # one proposes, and the other one appoints
        assert not refusals and NamespaceSteward.objects.count() == 1
    assert first_break() is None
