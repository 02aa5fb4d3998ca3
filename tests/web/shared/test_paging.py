"""Pages start from a row in the URL."""

import pytest
from django.test import RequestFactory

from authzconsole.web.shared.paging import keyset_page
from entities.address import parse_address
from entities.models import Entity, State
from entities.services import ensure_entities

pytestmark = pytest.mark.django_db

ORDER = ("kind", "-key", "pk")


@pytest.fixture
def entities():
    names = ("namespace:a", "dataset:a.x", "dataset:a.y", "application:a.z", "application:a.v")
    ensure_entities(states=dict.fromkeys(map(parse_address, names), State.LIVE))
    return Entity.objects.all()


def page_at(rows, url):
    return keyset_page(RequestFactory().get(url), rows, *ORDER, max_rows=2)


def test_pages_in_an_order_of_several_columns_have_no_gaps_in_either_direction(entities):
    expected, page = list(entities.order_by(*ORDER)), page_at(entities, "/list")
    found, urls = list(page.rows), []
    while page.next_url:
        urls.append(page.next_url)
        page = page_at(entities, page.next_url)
        found += page.rows
    assert found == expected and len(urls) == 2
    assert page_at(entities, page.previous_url).rows == expected[2:4]


@pytest.mark.parametrize("after", ["", "x", "0", "[1]"])
def test_an_invalid_position_shows_the_first_page(entities, after):
    assert page_at(entities, f"/list?after={after}").rows == list(entities.order_by(*ORDER)[:2])
