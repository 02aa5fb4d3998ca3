"""The catalogue: who publishes, what everybody then sees, and that nothing else shows."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.utils import timezone

from entities.address import parse_address
from entities.selectors import entity_at
from grants.errors import NotApprover, RequestError
from grants.models import (
    AccessRequest,
    AccessRequestPart,
    JournalLine,
    NamespaceApprovers,
    PublishedItem,
    RequestState,
)
from grants.requests.catalogue import (
    can_publish,
    deciders_of,
    publish,
    published_item_at,
    published_items,
    usual_times,
    withdraw,
)
from grants.stewards import add_steward
from grants.verification import first_fault
from tests.support.authors import COMMAND, account, author_named
from tests.support.changes import (
    add_grant,
    add_group,
    add_member,
    add_user,
    delete_entity,
    recreate_entity,
    register_entity,
)

pytestmark = pytest.mark.django_db
ORDERS, SALARIES, SALES = map(
    parse_address, ("dataset:sales.orders", "dataset:hr.salaries", "namespace:sales")
)


def publish_as(name: str, address=ORDERS, *operations: str, description: str = "Orders of all shops"):
    return publish(
        author=author_named(name),
        entity=entity_at(address),
        operations=operations or ["read"],
        description=description,
    )


def published() -> set[str]:
    return {str(item.address) for item in published_items()}


def test_those_who_decide_about_requests_publish_and_nobody_else(cast):
    add_steward(author=COMMAND, namespace=SALES, principal="user:dee")
    add_group("approvers")
    add_member("out", "approvers")
    NamespaceApprovers.objects.create(namespace="sales", group=Group.objects.get(name="approvers"))
    for name in ("ada", "dee", "out"):
        assert can_publish(account(name), ORDERS)
        assert publish_as(name, ORDERS, description=f"by {name}").has_changed
    for name, address in (
        ("ned", ORDERS),
        ("aud", ORDERS),
        ("grp", ORDERS),
        ("dee", SALARIES),
        ("out", SALARIES),
    ):
        assert not can_publish(account(name), address)
        with pytest.raises(NotApprover):
            publish_as(name, address)
        with pytest.raises(NotApprover):
            withdraw(author=author_named(name), entity=entity_at(address))
    assert published() == {str(ORDERS)} and published_item_at(ORDERS).description == "by out"


def test_a_holder_of_admin_publishes_only_with_delegation(cast, settings):
    assert not can_publish(account("ned"), ORDERS)
    settings.DELEGATION = True
    assert can_publish(account("ned"), ORDERS) and not can_publish(account("ned"), SALARIES)
    assert publish_as("ned").has_changed
    assert deciders_of([ORDERS]) == {ORDERS: ["admin-holders", "console"]}


@pytest.fixture
def steward(db) -> str:
    """A steward of sales in a tenant whose journal knows everything."""
    for address in (SALES, ORDERS):
        register_entity(address)
    add_user("sam")
    add_steward(author=COMMAND, namespace=SALES, principal="user:sam")
    return "sam"


def test_publications_are_journalled_and_verified(steward):
    assert publish_as(steward, ORDERS, "read", "WRITE").has_changed
    assert not publish_as(steward, ORDERS, "read", "WRITE").has_changed
    assert first_fault() is None
    PublishedItem.objects.update(description="Ask for WRITE on everything")
    assert "the entry of dataset:sales.orders in the catalogue" in str(first_fault())
    assert withdraw(author=author_named(steward), entity=entity_at(ORDERS)).has_changed
    assert not withdraw(author=author_named(steward), entity=entity_at(ORDERS)).has_changed
    lines = JournalLine.objects.filter(action__startswith="catalogue").order_by("revision")
    assert list(lines.values_list("action", "actor", "entity", "detail")) == [
        ("catalogue-publish", "sam", "dataset:sales.orders", "read, WRITE: Orders of all shops"),
        ("catalogue-withdraw", "sam", "dataset:sales.orders", ""),
    ]
    assert not published() and first_fault() is None


def test_an_entity_that_is_deleted_leaves_the_catalogue_for_good(steward):
    publish_as(steward)
    delete_entity(ORDERS)
    assert not published(), "a deleted entity is hidden"
    recreate_entity(ORDERS)
    assert not published(), "another entity at the address was not published"
    assert publish_as(steward).has_changed and published() == {str(ORDERS)}
    assert first_fault() is None


@pytest.mark.parametrize(
    ("address", "operations", "description", "message"),
    [
        (ORDERS, ["start"], "x", "neither an operation"),
        (ORDERS, ["read"], " ", "description is missing"),
        (ORDERS, ["read"], "x" * 501, "501 characters"),
        (parse_address("dataset:sales.legacy"), ["read"], "x", "not live"),
        (parse_address("dataset:sales.forecast"), ["read"], "x", "not live"),
    ],
)
def test_bad_entries_are_refused(cast, address, operations, description, message):
    with pytest.raises(RequestError, match=message):
        publish_as("ada", address, *operations, description=description)
    assert not PublishedItem.objects.exists()


def decide(namespace: str, *hours: float, age: int = 1, **fields) -> None:
    """Store requests that were decided after this many hours."""
    for each in hours:
        decided_at = timezone.now() - timedelta(days=age)
        request = AccessRequest.objects.create(
            subject_name="out",
            created_by="out",
            reason="x",
            state=RequestState.DENIED,
            created_at=decided_at - timedelta(hours=each),
            decided_at=decided_at,
            expires_at=decided_at,
        )
        AccessRequestPart.objects.create(
            request=request, position=1, kind="dataset", key=f"{namespace}.x", namespace=namespace, **fields
        )


def test_the_usual_time_is_the_median_of_the_last_90_days(cast):
    assert usual_times().overall is None
    decide("sales", 1, 2, 50)
    decide("sales", 900, 900, 900, age=91)
    decide("hr", 4, 4)
    decide("finance", 9, 9, 9, is_hidden=True)
    times = usual_times({"sales", "hr", "finance"})
    assert times.of(ORDERS) == 2 * 3600
    assert dict(times.by_namespace) == {"sales": 2 * 3600}, "too few, or hidden, to tell"
    assert times.of(SALARIES) == times.overall == 6.5 * 3600


def test_a_published_address_tells_nothing_about_its_neighbours(cast):
    add_grant("user:dee", "dataset:hr.salaries", "READ")
    publish_as("ada", SALARIES)
    assert published() == {str(SALARIES)}
    assert deciders_of([SALARIES]) == {SALARIES: ["console"]}
