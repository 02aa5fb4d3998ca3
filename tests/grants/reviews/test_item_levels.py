"""What the items of a review give, by access level, agrees with a plain computation."""

from collections import defaultdict

import pytest

from grants.active_generation import active_generation
from grants.models import privilege_of
from grants.models.reviews import ReviewItem
from grants.policies.levels import LEVEL_OF_PRIVILEGE, Level, operations_by_level
from grants.reviews import item_levels as module
from grants.reviews.item_levels import item_levels, parse_item_levels
from tests.grants.reviews.support import open_campaign
from tests.support.changes import add_grant
from tests.support.random_tenants import random_tenant, store_tenant

pytestmark = pytest.mark.django_db


def plain_counts(items) -> dict[tuple, int]:
    generation, entities = active_generation(), defaultdict(set)
    for item in items:
        if item.is_membership or item.entity_state != "live" or item.is_ended or item.removed:
            continue
        level = LEVEL_OF_PRIVILEGE[privilege_of(item.permission_id)]
        if level not in operations_by_level(generation, item.kind):
            level = Level.SEES
        entities[level, item.kind, item.namespace].add(item.entity_id)
    return {key: len(ids) for key, ids in entities.items()}


def counts_of(levels) -> dict[tuple, int]:
    return {(count.level, count.kind, count.namespace): count.count for count in levels}


@pytest.mark.parametrize("seed", range(3))
def test_items_are_counted_by_level_kind_and_namespace(seed):
    store_tenant(random_tenant(seed, has_roles=True))
    campaign = open_campaign()
    items = ReviewItem.objects.filter(campaign=campaign)
    given = item_levels(items)
    assert counts_of(given.levels) == plain_counts(items) and given.levels
    memberships = [item for item in items if item.is_membership]
    assert (given.memberships, given.groups) == (
        len(memberships),
        len({item.group_name for item in memberships}),
    )
    assert parse_item_levels(campaign.levels) == given


def test_a_grant_counts_by_what_the_operations_of_its_kind_need(cast):
    add_grant("user:dee", "namespace:hr", "EXECUTE")
    generation = active_generation()
    assert Level.RUNS not in operations_by_level(generation, "namespace")
    levels = {
        count.level
        for count in item_levels(open_campaign(scope={"user": "dee", "namespace": "hr"}).items.all()).levels
    }
    assert levels == {Level.SEES}


def test_grants_that_give_nothing_now_are_counted_apart(cast):
    campaign = open_campaign(scope={"namespace": "sales", "user": "dee"})
    before = item_levels(campaign.items.all())
    campaign.items.filter(entity_state="live").update(is_ended=True)
    after = item_levels(campaign.items.all())
    assert not after.levels and after.other == campaign.item_count > before.other


def test_many_namespaces_are_not_told_apart(cast, monkeypatch):
    monkeypatch.setattr(module, "MAX_NAMESPACES", 1)
    add_grant("user:dee", "dataset:hr.salaries", "READ")
    given = item_levels(open_campaign(scope={"sources": ["user"]}).items.all())
    assert {count.namespace for count in given.levels} == {None}
