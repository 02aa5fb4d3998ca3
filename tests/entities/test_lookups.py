"""Many numbers of rows are one parameter, and find what they find one by one."""

import pytest

from entities.address import parse_address
from entities.models import Entity
from entities.selectors import sorted_by_address
from entities.services import ensure_entities
from grants.models import UserGrant

pytestmark = pytest.mark.django_db


@pytest.fixture
def ids():
    ensure_entities(states={parse_address(f"dataset:sales.d{number}"): "live" for number in range(5)})
    return list(sorted_by_address(Entity.objects.filter(kind="dataset")).values_list("pk", flat=True))


@pytest.mark.parametrize("of", [list, set, tuple])
def test_among_finds_what_in_finds(ids, of):
    asked = of([*ids[1:3], -1, ids[1]])
    assert set(Entity.objects.filter(pk__among=asked)) == set(Entity.objects.filter(pk__in=asked)) != set()
    assert set(Entity.objects.exclude(pk__among=asked)) == set(Entity.objects.exclude(pk__in=asked))


def test_the_statement_is_the_same_for_any_number(ids):
    few, many = (Entity.objects.filter(pk__among=some).query.sql_with_params() for some in (ids[:1], ids))
    assert few[0] == many[0] and len(few[1]) == len(many[1]) == 1


def test_among_none_nothing_is_asked(ids, django_assert_num_queries):
    with django_assert_num_queries(0):
        assert list(Entity.objects.filter(pk__among=set())) == list(UserGrant.objects.filter(content_object__pk__among=[])) == []
    assert Entity.objects.exclude(pk__among=[]).count() == Entity.objects.count()
