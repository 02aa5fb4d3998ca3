"""The number of queries of a page is bounded and independent of the number of rows."""

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.test.utils import CaptureQueriesContext

from analytics.models import AnalysisRun
from authzconsole.web.shared.entity_search import search_visible_entities
from entities.address import parse_address
from entities.services import ensure_entities
from grants.models import User
from tests.support.changes import change_grants

PAGES = [
    "/",
    "/?colour=exposure",
    "/entities/namespace:sales",
    "/entities/namespace:sales?tab=access",
    "/entities/namespace:sales?subject=user:dee&operation=delete&deleter=dee",
    "/entities/namespace:sales?tab=history",
    "/entities/dataset:sales.orders",
    "/entities/program:sales.shop.workflow.daily?subject=group:operators&operation=start",
    "/ask",
    "/ask?subject=user:dee&operation=delete&entity=namespace:sales",
    "/ask?subject=user:dee&entity=namespace:sales",
    "/ask?subject=user:dwe&operation=drop&entity=dataset:sales.orders",
    "/explorer?at=program:sales.shop.workflow.daily",
    "/explorer/inside?in=namespace:sales&of=dataset",
    "/search?q=sales",
    "/search?q=del",
    "/suggest/principals?principal=e",
    "/lifecycle/delete/namespace:sales",
    "/analyses/",
    "/plans/",
    "/plans/many?within=namespace:sales",
    "/plans/many?within=instance:cdap",
    "/plans/many?address=dataset:sales.orders",
    "/plans/import",
    "/connections/",
]
MAX_QUERIES = 44


# (account, URL) without a 200 response
REFUSED = {
    ("aud", "/lifecycle/delete/namespace:sales"),
    ("dee", "/lifecycle/delete/namespace:sales"),
    ("dee", "/analyses/"),
    *(
        (name, url)
        for name in ("aud", "dee")
        for url in PAGES
        if url.startswith(("/plans/many", "/plans/import"))
    ),
    ("dee", "/plans/"),
    ("dee", "/connections/"),
    ("dee", "/suggest/principals?principal=e"),
    ("dee", "/explorer?at=program:sales.shop.workflow.daily"),
    ("dee", "/entities/program:sales.shop.workflow.daily?subject=group:operators&operation=start"),
}
ALLOWED = [(name, url) for url in PAGES for name in ("ada", "aud", "dee") if (name, url) not in REFUSED]


def count_queries(client, url) -> int:
    with CaptureQueriesContext(connection) as captured:
        assert client.get(url).status_code == 200
    return len(captured)


def add_rows(numbers):
    """Create more of everything that pages list."""
    ensure_entities(
        states={
            parse_address(f"{address}{n}{rest}"): "live"
            for n in numbers
            for address, rest in (("dataset:sales.more", ""), ("namespace:more", ""), ("dataset:more", ".d"))
        }
    )
    groups = Group.objects.bulk_create(Group(name=f"group{n}") for n in numbers)
    users = User.objects.bulk_create(User(username=f"deeper{n}") for n in numbers)
    memberships = User.groups.through
    memberships.objects.bulk_create(
        memberships(user=user, group=group) for user, group in zip(users, groups, strict=True)
    )
    addresses = ("dataset:sales.orders", "namespace:sales", "program:sales.shop.workflow.daily")
    change_grants(
        grant=[
            *((f"user:deeper{n}", address, "READ") for n in numbers for address in addresses),
            *((f"group:group{n}", address, "ADMIN") for n in numbers for address in addresses),
            *(("user:dee", f"dataset:sales.more{n}", "READ") for n in numbers),
            *(("user:dee", f"dataset:more{n}.d", "READ") for n in numbers),
        ]
    )
    AnalysisRun.objects.bulk_create(
        AnalysisRun(type="delete-readiness", options={"generation": "final", "namespace": ""}, state="failed")
        for _ in numbers
    )


@pytest.mark.parametrize(("name", "url"), ALLOWED)
def test_the_number_of_queries_does_not_grow_with_the_rows(name, url, browse):
    client = browse(name)
    add_rows(range(2))
    before = count_queries(client, url)
    add_rows(range(2, 40))
    # the overview stores new findings once
    client.get(url)
    assert count_queries(client, url) <= min(before, MAX_QUERIES)


@pytest.mark.parametrize(
    ("name", "max_candidates", "max_queries"),
    [("ada", 2_000, 2), ("dee", 2_000, 6), ("ada", 1, 5), ("dee", 1, 11)],
)
def test_a_search_stays_within_its_number_of_queries(
    name, max_candidates, max_queries, cast, monkeypatch, django_assert_max_num_queries
):
    monkeypatch.setattr("authzconsole.web.shared.entity_search.MAX_CANDIDATES", max_candidates)
    monkeypatch.setattr("grants.evaluation.visibility.FEW_GRANTS", -1)
    add_rows(range(5))
    with django_assert_max_num_queries(max_queries):
        assert search_visible_entities(cast[name], "sales").is_all == (max_candidates > 1)
