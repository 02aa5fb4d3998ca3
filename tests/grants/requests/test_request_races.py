"""Test steps of requests at the same moment, and access that begins and ends with time."""

from datetime import timedelta

import pytest
from django.utils import timezone

from grants.errors import AlreadyPermitted, RequestClosed, RequestError
from grants.journal import first_break
from grants.models import AccessRequest, Plan, RequestState, User, UserGrant
from grants.requests.decide import deny_request
from grants.requests.own_steps import withdraw_request
from grants.validity import Validity
from tests.grants.requests.test_requests import ORDERS, approve, request_access
from tests.grants.test_journal import in_threads
from tests.support.authors import author_named
from tests.support.cast import create_sample_tenant
from tests.support.changes import add_grant


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
