"""Requests for access that is permitted at the beginning and at the end of the requested period, and not in
between.
"""

from datetime import timedelta

import pytest
from django.utils import timezone

from entities.vocabulary import Privilege
from grants.errors import AlreadyPermitted
from grants.policies.question import Question
from grants.requests.gaps import first_denials
from grants.requests.proposals import Proposal, proposals_of
from grants.validity import Validity
from tests.grants.requests.test_requests import ORDERS, approve, request_access
from tests.support.authors import account
from tests.support.changes import add_member, change_grants

pytestmark = pytest.mark.usefixtures("cast")


def test_access_with_a_gap_in_the_requested_period_can_be_requested_and_approved(django_assert_num_queries):
    now = timezone.now().replace(microsecond=0)
    day, end = timedelta(days=1), now + timedelta(days=9)
    read = Question("user", "out", "read", ORDERS, "final")
    out = account("out")
    change_grants(
        grant=[
            ("user:out", ORDERS, Privilege.READ, Validity(None, now + 2 * day)),
            ("group:operators", ORDERS, Privilege.READ),
        ]
    )
    add_member("out", "operators", Validity(now + 4 * day))
    with django_assert_num_queries(4):
        assert first_denials([read], out, end) == [now + 2 * day]
    request = request_access("out", requested_until=end)
    (proposal,) = [way for way in proposals_of(request.parts.get(), out, end) if way.grants]
    assert proposal.words == "READ on dataset:sales.orders"
    approve(request, choices={1: proposal.id})
    assert first_denials([read], out, end) == [None]
    with pytest.raises(AlreadyPermitted):
        request_access("out", requested_until=end)
    with django_assert_num_queries(1):
        assert first_denials([Question("user", "out", "write", ORDERS, "final")], out, end) != [None]


def test_ends_beyond_the_limit_count_as_a_gap(monkeypatch):
    monkeypatch.setattr("grants.requests.gaps.MAX_TIMES", 1)
    now = timezone.now().replace(microsecond=0)
    ends = [now + timedelta(days=days) for days in (1, 2, 3)]
    change_grants(
        grant=[("user:dee", f"dataset:sales.d{end.day}", Privilege.READ, Validity(None, end)) for end in ends]
    )
    read = Question("user", "dee", "read", ORDERS, "final")
    dee = account("dee")
    assert first_denials([read], dee, ends[2] + timedelta(days=1)) == [ends[1]]
    assert first_denials([read], dee, ends[1]) == [None]


@pytest.mark.parametrize(
    ("joined_days", "requested_days", "is_missing"),
    [
        (None, 9, False),
        (9, 9, False),
        (10, 9, False),
        (8, 9, True),
        (9, None, True),
        (None, None, False),
    ],
)
def test_a_membership_that_ends_before_the_requested_access_is_proposed_again(
    joined_days, requested_days, is_missing
):
    now = timezone.now().replace(microsecond=0)
    joined, end = (
        None if days is None else now + timedelta(days=days) for days in (joined_days, requested_days)
    )
    ina, out = account("ina"), account("out")
    add_member("ina", "operators")
    request = request_access("out", wanted=(), colleague=ina.username, requested_until=end)
    part = request.parts.get(group_name="operators")
    assert proposals_of(part, out, end) == [Proposal(group="operators")]
    add_member("out", "operators", Validity(None, joined))
    assert proposals_of(part, out, end) == [Proposal(group="operators") if is_missing else Proposal()]
    approve(request, choices={part.position: ""})
    expected = end if is_missing else joined
    assert out.memberships.get(group__name="operators").valid_until == expected
