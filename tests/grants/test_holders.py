"""Test the list of holders of an entity: its order, its grants, and the number of queries for a page."""

import pytest
from django.contrib.auth.models import Group
from django.core.paginator import Paginator
from django.db import connection
from django.test.utils import CaptureQueriesContext

from entities.address import parse_address
from entities.selectors import entity_at
from entities.vocabulary import ADMIN, EXECUTE, READ, WRITE
from grants.holders import holders_of
from grants.models import User
from tests.support.authors import administrator
from tests.support.changes import change_grants

pytestmark = pytest.mark.django_db
ORDERS = parse_address("dataset:sales.orders")


@pytest.fixture
def author():
    for name in ("b", "B", "a"):
        User.objects.create(username=name, is_active=name != "b")
    Group.objects.create(name="analysts").user_set.add(*User.objects.filter(username__in="ab"))
    author = administrator()
    change_grants(
        author=author,
        grant=[
            *(("user:b", ORDERS, privilege) for privilege in (ADMIN, READ)),
            ("user:B", ORDERS, WRITE),
            ("user:a", ORDERS, ADMIN),
            ("group:analysts", ORDERS, EXECUTE),
            ("user:a", "stream:sales.clicks", READ),
        ],
    )
    return author


def test_holders_are_sorted_by_type_and_name_and_have_their_privileges(author):
    rows = [
        (str(holder), list(holder.grants), holder.is_active, holder.members)
        for holder in holders_of(entity_at(ORDERS))
    ]
    assert rows == [
        ("user:B", [WRITE], True, None),
        ("user:a", [ADMIN], True, None),
        ("user:b", [READ, ADMIN], False, None),
        ("group:analysts", [EXECUTE], True, 2),
    ]


def test_each_grant_has_its_author_reason_and_time(author):
    grant = holders_of(entity_at(ORDERS))[0].grants["WRITE"]
    assert (grant.granted_by.username, grant.reason, grant.granted_at is not None) == (
        author.name,
        "quarterly close",
        True,
    )


def test_only_grants_on_exactly_this_entity_are_listed(author):
    assert len(holders_of(entity_at(parse_address("namespace:sales")))) == 0
    assert holders_of(entity_at(parse_address("namespace:sales")))[:] == []
    assert [str(holder) for holder in holders_of(entity_at(parse_address("stream:sales.clicks")))] == [
        "user:a"
    ]


def test_a_page_takes_the_same_number_of_queries_for_any_number_of_holders(author):
    def statements(size):
        page = Paginator(holders_of(entity_at(ORDERS)), size).page(1)
        with CaptureQueriesContext(connection) as captured:
            assert len(list(page)) == size
            assert all(grant.granted_by.username for holder in page for grant in holder.grants.values())
        return len(captured)

    names = [f"user {n}" for n in range(60)]
    User.objects.bulk_create(User(username=name) for name in names)
    groups = [Group.objects.create(name=f"group {n}").name for n in range(60)]
    change_grants(
        author=author,
        grant=[
            *((f"user:{name}", ORDERS, READ) for name in names),
            *((f"group:{name}", ORDERS, READ) for name in groups),
        ],
    )
    assert statements(70) == statements(110) <= 6
    pages = Paginator(holders_of(entity_at(ORDERS)), 50)
    assert (pages.count, pages.num_pages) == (124, 3)
    assert len({str(holder) for number in pages.page_range for holder in pages.page(number)}) == 124
