"""Test that all ways to compute visibility agree: from the grants, along the entities, by kind, in counts and
in searches.
"""

import itertools
from collections import Counter
from dataclasses import dataclass

import pytest
from django.contrib.auth.models import Group
from django.db.models import Q, QuerySet

from authzconsole.web.shared.entity_search import MAX_RESULTS, _names, parse_search, search_visible_entities
from entities.models import Entity
from entities.selectors import matching_entities
from grants.evaluation.entity_filters import VISIBILITY_OPERATIONS, can_see, visibility_condition
from grants.evaluation.visibility import is_same_visibility, visibility_of
from grants.models import User
from grants.policies.catalogue import GENERATIONS
from grants.policies.policy import Generation
from tests.support.random_tenants import random_tenant, seeds, stored_for_several_tests

pytestmark = pytest.mark.django_db
# with the first limit every principal has few grants, with the second limit no principal has
FEW_GRANTS_LIMITS = [5_000, -1]
OPERATIONS = (("list",), VISIBILITY_OPERATIONS)


@dataclass
class StoredTenant:
    """A stored tenant.

    entities: by primary key. visible: primary keys by user, generation and operations, from the list filter.
    """

    entities: dict[int, Entity]
    users: list[User]
    visible: dict[tuple[str, str, tuple[str, ...]], set[int]]

    def visible_pks(
        self, user: User, generation: Generation, operations: tuple[str, ...] = VISIBILITY_OPERATIONS
    ) -> set[int]:
        return self.visible[user.username, generation.name, operations]

    def containers(self, *kinds: str) -> list[Entity]:
        return [entity for entity in self.entities.values() if entity.kind in kinds]


@pytest.fixture(scope="module", params=seeds(range(3)))
def tenant(request, django_db_setup, django_db_blocker):
    """Store a tenant and compute the expected results, once for all tests. No test changes the tenant."""
    tenant = random_tenant(request.param, has_patterns=True, has_later_kinds=True)
    with stored_for_several_tests(tenant, django_db_blocker):
        with django_db_blocker.unblock():
            stored = StoredTenant(Entity.objects.in_bulk(), list(User.objects.order_by("pk")), {})
            for user, generation in itertools.product(stored.users, GENERATIONS.values()):
                pks_by_operation = {
                    operation: matching_pks(visibility_condition(user, generation, operations=[operation]))
                    for operation in VISIBILITY_OPERATIONS
                }
                for operations in OPERATIONS:
                    visible = set.union(*(pks_by_operation[operation] for operation in operations))
                    stored.visible[user.username, generation.name, operations] = visible
        yield stored


def pks(rows: QuerySet[Entity]) -> set[int]:
    return set(rows.order_by().values_list("pk", flat=True))


def matching_pks(condition: Q) -> set[int]:
    return pks(Entity.objects.filter(condition))


def users_and_generations(tenant: StoredTenant):
    return itertools.product(tenant.users, GENERATIONS.values())


@pytest.fixture(params=FEW_GRANTS_LIMITS)
def few_grants(request, monkeypatch):
    """Compute visibility from the grants, or along the entities."""
    for name in ("visibility.FEW_GRANTS", "visibility.FEW_GRANTS_INSIDE", "effective_grants.MAX_LISTED_IDS"):
        monkeypatch.setattr(f"grants.evaluation.{name}", request.param)


def entities_inside(container: Entity | None):
    """Return the entities in the container at every depth, without the container; all entities if it is None."""
    if container is None:
        return Entity.objects.all()
    condition = {} if container.kind == "instance" else {container.kind: container}
    return Entity.objects.filter(**condition).exclude(pk=container.pk)


def test_both_ways_to_compute_visibility_agree_with_the_list_filter(tenant, few_grants):
    containers = [None, *tenant.containers("instance", "namespace", "application")]
    pks_inside = {container: pks(entities_inside(container)) for container in containers}
    for user, generation in users_and_generations(tenant):
        assert matching_pks(visibility_condition(user, generation)) == tenant.visible_pks(user, generation)
        is_same = is_same_visibility(generation, *OPERATIONS)
        assert not is_same or tenant.visible_pks(user, generation, OPERATIONS[0]) == tenant.visible_pks(
            user, generation
        )
        for operations, container in itertools.product(OPERATIONS[:1] if is_same else OPERATIONS, containers):
            visibility = visibility_of(user, generation, inside=container, operations=operations)
            expected = tenant.visible_pks(user, generation, operations) & pks_inside[container]
            assert pks(entities_inside(container).filter(visibility.all_rows)) == expected
            if visibility.first_rows is not visibility.all_rows:
                assert pks(entities_inside(container).filter(visibility.first_rows)) == expected


def test_visible_entities_in_a_container_are_counted_by_kind_and_state(tenant, few_grants):
    containers = tenant.containers("namespace", "application")
    pks_inside = {container: pks(entities_inside(container)) for container in containers}
    for user, generation in users_and_generations(tenant):
        for container in containers:
            visible = [
                tenant.entities[pk] for pk in tenant.visible_pks(user, generation) & pks_inside[container]
            ]
            counts = visibility_of(user, generation, inside=container).counts
            assert counts == Counter((entity.kind, entity.state) for entity in visible)


def test_the_visibility_of_selected_kinds_and_of_one_entity_agree(tenant):
    for user, generation in users_and_generations(tenant):
        visible = tenant.visible_pks(user, generation)
        for kind in ("namespace", "program", "securekey"):
            visible_of_kind = matching_pks(
                visibility_condition(user, generation, kinds=[kind], row_by_row=True)
            )
            assert visible_of_kind == {pk for pk in visible if tenant.entities[pk].kind == kind}
        assert {pk for pk, entity in tenant.entities.items() if can_see(user, entity, generation)} == visible


def test_a_statement_has_one_parameter_for_hundreds_of_groups():
    user = User.objects.create(username="joiner")
    user.groups.set([Group.objects.create(name=f"g{n}") for n in range(300)])
    visibility = visibility_of(user, GENERATIONS["final"])
    _, parameters = Entity.objects.filter(visibility.all_rows).query.sql_with_params()
    assert len(parameters) < 300


TEXTS = ("ns0", "DATASET1", "0.s", "st", "dataset:ns0", "nothing")


@pytest.mark.parametrize("limit", FEW_GRANTS_LIMITS)
@pytest.mark.parametrize("max_candidates", [2_000, 1])
def test_a_search_returns_visible_entities_that_match_the_text(
    tenant, limit, max_candidates, settings, monkeypatch
):
    monkeypatch.setattr("grants.evaluation.visibility.FEW_GRANTS", limit)
    monkeypatch.setattr("authzconsole.web.shared.entity_search.MAX_CANDIDATES", max_candidates)
    matches = {text: set(matching_entities(text)) for text in TEXTS}
    for user, generation in users_and_generations(tenant):
        settings.DEFAULT_GENERATION = generation.name
        visible = tenant.visible_pks(user, generation)
        for text in TEXTS:
            expected = {
                row
                for row in matches[text]
                if row.pk in visible
                and (not parse_search(text).is_short or has_name_that_starts_with(row, text))
            }
            result = search_visible_entities(user, text, MAX_RESULTS * 100)
            assert len(result.rows) == result.total == len(set(result.rows)), (user, text)
            assert set(result.rows) <= expected and (not result.is_all or result.total == len(expected)), (
                user,
                text,
            )


@pytest.mark.parametrize("limit", FEW_GRANTS_LIMITS)
def test_a_full_address_is_found_by_exactly_the_users_who_see_it(tenant, limit, monkeypatch):
    monkeypatch.setattr("grants.evaluation.visibility.FEW_GRANTS", limit)
    monkeypatch.setattr("authzconsole.web.shared.entity_search.MAX_CANDIDATES", 1)
    for user in tenant.users[:3]:
        visible = tenant.visible_pks(user, GENERATIONS["final"])
        for entity in list(tenant.entities.values())[:60:3]:
            assert (entity in search_visible_entities(user, str(entity)).rows) == (entity.pk in visible), (
                user,
                entity,
            )


def test_the_search_uses_the_names_of_entities(tenant):
    for entity in tenant.entities.values():
        assert _names(entity.kind, entity.key)[0] == entity.name


def has_name_that_starts_with(row: Entity, text: str) -> bool:
    return f".{text.lower()}" in f".{row.key.lower()}"


def test_visibility_takes_two_queries_and_its_counts_one_more(tenant, django_assert_max_num_queries):
    namespace = tenant.containers("namespace")[0]
    with django_assert_max_num_queries(2):
        visibility = visibility_of(tenant.users[0], GENERATIONS["final"], inside=namespace)
    with django_assert_max_num_queries(1):
        assert visibility.counts == visibility.counts
