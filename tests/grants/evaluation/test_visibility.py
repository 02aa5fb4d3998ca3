"""What somebody sees is the same by whichever way it is found: from the grants, along the entities, or counted."""

from collections import Counter

import pytest
from django.contrib.auth.models import Group

from authzconsole.web.shared.entity_search import MAX_RESULTS, _names, parse_search, search_visible_entities
from entities.models import Entity
from entities.selectors import matching_entities
from grants.evaluation.entity_filters import can_see, shown_to, visibility_condition
from grants.evaluation.visibility import visibility_of
from grants.models import User
from grants.policies.catalogue import GENERATIONS
from tests.support.random_tenants import random_tenant, store

pytestmark = pytest.mark.django_db
# where everybody holds little, and where nobody does
WAYS = [5_000, -1]


@pytest.fixture(params=range(3))
def tenant(request):
    made = random_tenant(request.param)
    store(made)
    return made


def inside(container: Entity | None):
    if container is None:
        return Entity.objects.all()
    within = {"instance": {}, "namespace": {"namespace": container}, "application": {"application": container}}[container.kind]
    return Entity.objects.filter(**within).exclude(pk=container.pk)


@pytest.mark.parametrize("few", WAYS)
def test_either_way_shows_what_the_list_filter_shows(tenant, few, monkeypatch):
    monkeypatch.setattr("grants.evaluation.visibility.FEW_GRANTS", few)
    monkeypatch.setattr("grants.evaluation.visibility.FEW_GRANTS_INSIDE", few)
    monkeypatch.setattr("grants.evaluation.effective_grants.FEW_IDS", few)
    containers = [None, *Entity.objects.filter(kind__in=["instance", "namespace", "application"])]
    for user in User.objects.all():
        for generation in GENERATIONS.values():
            for operations in (("list",), ("list", "get")):
                shown = set.union(*(set(Entity.objects.filter(shown_to(user, generation, name))) for name in operations))
                for container in containers:
                    rows, seen = inside(container), visibility_of(user, generation, inside=container, operations=operations)
                    assert set(rows.filter(seen.all_rows)) == set(rows.filter(seen.first_rows)) == shown & set(rows)


@pytest.mark.parametrize("few", WAYS)
def test_what_is_seen_in_a_container_is_counted_by_kind_and_state(tenant, few, monkeypatch):
    monkeypatch.setattr("grants.evaluation.visibility.FEW_GRANTS", few)
    monkeypatch.setattr("grants.evaluation.visibility.FEW_GRANTS_INSIDE", few)
    monkeypatch.setattr("grants.evaluation.effective_grants.FEW_IDS", few)
    for user in User.objects.all():
        for generation in GENERATIONS.values():
            for container in Entity.objects.filter(kind__in=["namespace", "application"]):
                rows = inside(container).filter(visibility_condition(user, generation))
                assert visibility_of(user, generation, inside=container).counts == Counter(rows.values_list("kind", "state"))


def test_of_chosen_kinds_the_same_is_seen(tenant):
    for user in User.objects.all():
        for generation in GENERATIONS.values():
            seen = set(Entity.objects.filter(visibility_condition(user, generation)))
            for kind in ("namespace", "program", "securekey"):
                shown = visibility_condition(user, generation, kinds=[kind], row_by_row=True)
                assert set(Entity.objects.filter(shown)) == {entity for entity in seen if entity.kind == kind}
            assert {entity for entity in Entity.objects.all() if can_see(user, entity, generation)} == seen


def test_of_hundreds_of_groups_a_statement_has_one_parameter():
    user = User.objects.create(username="joiner")
    user.groups.set([Group.objects.create(name=f"g{n}") for n in range(300)])
    seen = visibility_of(user, GENERATIONS["final"])
    _, parameters = Entity.objects.filter(seen.all_rows).query.sql_with_params()
    assert len(parameters) < 300


TEXTS = ("ns0", "DATASET1", "0.s", "st", "dataset:ns0", "nothing")


@pytest.mark.parametrize("few", WAYS)
@pytest.mark.parametrize("most", [2_000, 1])
def test_a_search_finds_what_the_text_finds_and_the_user_sees(tenant, few, most, settings, monkeypatch):
    monkeypatch.setattr("grants.evaluation.visibility.FEW_GRANTS", few)
    monkeypatch.setattr("authzconsole.web.shared.entity_search.MOST_LOOKED_AT", most)
    for generation in GENERATIONS.values():
        settings.DEFAULT_GENERATION = generation.name
        for user in User.objects.all():
            for text in TEXTS:
                rows = matching_entities(text).filter(visibility_condition(user, generation))
                expected = [row for row in rows if not parse_search(text).is_short or begins(row, text)]
                found = search_visible_entities(user, text, MAX_RESULTS * 100)
                assert len(found.rows) == found.total == len(set(found.rows)), (user, text)
                assert set(found.rows) <= set(expected) and (not found.is_all or found.total == len(expected)), (user, text)


@pytest.mark.parametrize("few", WAYS)
def test_an_address_that_is_written_whole_is_found_by_who_sees_it_and_nobody_else(tenant, few, monkeypatch):
    monkeypatch.setattr("grants.evaluation.visibility.FEW_GRANTS", few)
    monkeypatch.setattr("authzconsole.web.shared.entity_search.MOST_LOOKED_AT", 1)
    for user in User.objects.all()[:3]:
        seen = set(Entity.objects.filter(visibility_condition(user, GENERATIONS["final"])))
        for entity in Entity.objects.all()[:60:3]:
            assert (entity in search_visible_entities(user, str(entity)).rows) == (entity in seen), (user, entity)


def test_a_search_calls_an_entity_by_its_name(tenant):
    for entity in Entity.objects.all():
        assert _names(entity.kind, entity.key)[0] == entity.name


def begins(row: Entity, text: str) -> bool:
    return f".{row.key.lower()}".find(f".{text.lower()}") >= 0


def test_it_takes_two_queries_and_one_to_count(tenant, django_assert_max_num_queries):
    user, generation = User.objects.first(), GENERATIONS["final"]
    namespace = Entity.objects.filter(kind="namespace").first()
    with django_assert_max_num_queries(2):
        seen = visibility_of(user, generation, inside=namespace)
    with django_assert_max_num_queries(1):
        assert seen.counts == seen.counts
