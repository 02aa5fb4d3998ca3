"""Test the lookup `among`, which passes many ids as one parameter."""

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


@pytest.mark.parametrize("collection_type", [list, set, tuple])
def test_the_lookup_selects_the_same_rows_as_in(ids, collection_type):
    some_ids = collection_type([*ids[1:3], -1, ids[1]])
    assert (
        set(Entity.objects.filter(pk__among=some_ids)) == set(Entity.objects.filter(pk__in=some_ids)) != set()
    )
    assert set(Entity.objects.exclude(pk__among=some_ids)) == set(Entity.objects.exclude(pk__in=some_ids))


def test_the_statement_does_not_depend_on_the_number_of_ids(ids):
    few, many = (Entity.rows.filter(pk__among=some).query.sql_with_params() for some in (ids[:1], ids))
    assert few[0] == many[0] and len(few[1]) == len(many[1]) == 1


def test_an_empty_collection_takes_no_query(ids, django_assert_num_queries):
    with django_assert_num_queries(0):
        assert (
            list(Entity.objects.filter(pk__among=set()))
            == list(UserGrant.objects.filter(content_object__pk__among=[]))
            == []
        )
    assert Entity.objects.exclude(pk__among=[]).count() == Entity.objects.count()
