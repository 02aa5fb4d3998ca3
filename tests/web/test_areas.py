"""One page of each area opens: the areas of the navigation, an entity, a principal, a plan form and the
account page.
"""

import pytest
from django.test import RequestFactory

from authzconsole.web.context_processors import navigation

PAGES = (
    "/entities/namespace:sales",
    "/entities/dataset:sales.orders",
    "/explorer?at=dataset:sales.orders",
    "/people/user:dee",
    "/grant/dataset:sales.orders",
    "/plans/many?within=namespace:sales",
    "/search?q=orders",
    "/ask?subject=user:dee&operation=read&entity=dataset:sales.orders",
)


def test_each_item_of_the_navigation_opens_its_page(browse, cast):
    request = RequestFactory().get("/")
    request.resolver_match, request.user = None, cast["ada"]
    items = navigation(request)["nav_items"]
    assert len(items) >= 7 and len({item["icon"] for item in items}) == len(items)
    for item in items:
        answer = browse("ada").get(item["url"])
        assert (answer.status_code, b"<h1" in answer.content) == (200, True), item["url"]


@pytest.mark.parametrize("page", PAGES)
def test_the_page_opens(browse, page):
    answer = browse("ada").get(page)
    assert answer.status_code == 200 and b"<h1" in answer.content
