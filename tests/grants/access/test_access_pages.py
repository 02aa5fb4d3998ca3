"""Test that the pages of people and of entities have exactly the rows of the full lists, in order."""

from collections import Counter, defaultdict

import pytest

from entities.address import parse_address
from entities.models import State
from entities.vocabulary import KINDS, Privilege
from grants.access.what_can import AccessibleEntities, EntityFilter, all_permissions, kinds_in_byte_order
from grants.access.who_can import PeopleFilter, PeopleWithAccess, all_access
from grants.evaluation.facts import gather_facts
from grants.models import User
from grants.policies.catalogue import GENERATIONS
from grants.policies.decide import is_permitted
from grants.policies.levels import LEVELS, operations_by_level
from grants.policies.question import Question
from tests.support.random_tenants import random_tenant, stored_for_several_tests

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module", params=[2])
def tenant(request, django_db_setup, django_db_blocker):
    """Store a tenant, once for all tests. No test changes it."""
    with stored_for_several_tests(
        random_tenant(request.param, has_patterns=True, has_roles=True), django_db_blocker
    ) as stored:
        yield stored


def all_people(people: PeopleWithAccess, max_rows: int) -> list[tuple[str, tuple[str, ...]]]:
    rows, after = [], None
    while True:
        page = people.page(after, max_rows)
        assert len(page.rows) <= max_rows
        rows += [(row.user, tuple(row.ways)) for row in page.rows]
        after = page.next_after
        if after is None:
            return rows


def all_entities(entities: AccessibleEntities, max_rows: int) -> list[tuple[str, str]]:
    rows, after = [], None
    while True:
        page = entities.page(after, max_rows)
        assert len(page.rows) <= max_rows and (page.rows or not page.has_more)
        rows += [(str(row.address), operation) for row in page.rows for operation in row.ways]
        if not page.has_more:
            return rows
        after = page.rows[-1].address


@pytest.mark.parametrize("generation", GENERATIONS.values(), ids=list(GENERATIONS))
def test_the_pages_of_people_have_the_rows_of_the_full_list(tenant, generation):
    for address in tenant.entities:
        expected = [(access.user, tuple(access.ways)) for access in all_access(address, generation)]
        assert all_people(PeopleWithAccess(address, generation), 2) == expected
        assert all_people(PeopleWithAccess(address, generation, is_descending=True), 2) == expected[::-1]
        counts = PeopleWithAccess(address, generation).counts()
        assert counts.total == len(expected)
        for operation, count in counts.by_operation.items():
            assert count == sum(operation in operations for _, operations in expected)
        by_level = operations_by_level(generation, address.kind)
        assert list(counts.by_level) == list(by_level)
        for level, count in counts.by_level.items():
            of_level = PeopleWithAccess(address, generation, PeopleFilter(level=level))
            people = [user for user, operations in expected if set(by_level[level]) & set(operations)]
            assert count == len(people)
            in_full = [user for user, operations in expected if set(by_level[level]) <= set(operations)]
            assert counts.partial[level] == count - len(in_full)
            assert [user for user, _ in all_people(of_level, 2)] == people


@pytest.mark.parametrize("generation", GENERATIONS.values(), ids=list(GENERATIONS))
def test_the_filters_of_people_are_exact(tenant, generation):
    for address in list(tenant.entities)[::3]:
        full = list(all_access(address, generation))
        for operation in KINDS[address.kind].operations[:3]:
            expected = [(one.user, (operation,)) for one in full if operation in one.ways]
            assert (
                all_people(PeopleWithAccess(address, generation, PeopleFilter(operation=operation)), 3)
                == expected
            )
        for path_kind, is_direct in (("direct", True), ("group", False)):
            expected = [
                (one.user, operations)
                for one in full
                if (
                    operations := tuple(
                        operation
                        for operation, ways in one.ways.items()
                        if any(path.principal.startswith("user:") is is_direct for path in ways)
                    )
                )
            ]
            assert (
                all_people(PeopleWithAccess(address, generation, PeopleFilter(path_kind=path_kind)), 3)
                == expected
            )
        held = [Question("user", one.user, "ADMIN", address, generation.name) for one in full]
        holders = {
            q.subject for q, facts in zip(held, gather_facts(held), strict=True) if is_permitted(q, facts)
        }
        found = all_people(PeopleWithAccess(address, generation, PeopleFilter(privilege="ADMIN")), 3)
        assert {user for user, _ in found} == holders
        for group, members in tenant.groups.items():
            found = all_people(
                PeopleWithAccess(address, generation, PeopleFilter(group=group, text="USER")), 3
            )
            assert {user for user, _ in found} == {one.user for one in full if one.user in members}
        assert not all_people(PeopleWithAccess(address, generation, PeopleFilter(text="nobody")), 3)


@pytest.mark.parametrize("generation", GENERATIONS.values(), ids=list(GENERATIONS))
@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"access.what_can.FEW_GRANTS": 0, "evaluation.authzen_search.MAX_CHECKED": (2, 4)},
        {
            "access.what_can.FEW_GRANTS": 0,
            "access.what_can.MAX_GRANTS_TO_COUNT": 0,
            "evaluation.authzen_search.MAX_CHECKED": (2, 4),
            "evaluation.authzen_search.MAX_COLLECTED": (1, 3),
        },
    ],
    ids=["few", "some", "many"],
)
def test_the_pages_of_entities_have_the_rows_of_the_full_list(tenant, generation, limits, monkeypatch):
    for name, limit in limits.items():
        monkeypatch.setattr(f"grants.{name}", limit)
    subjects = [("user", user) for user in tenant.users] + [("group", group) for group in tenant.groups]
    for subject_type, subject in subjects:
        expected = list(all_permissions(subject_type, subject, generation))
        entities = AccessibleEntities.of(subject_type, subject, generation, kinds=kinds_in_byte_order())
        assert all_entities(entities, 4) == expected
        counts = {
            kind: len({entity for entity, _ in expected if entity.startswith(f"{kind}:")}) for kind in KINDS
        }
        assert entities.counts() == {kind: count for kind, count in counts.items() if count}
        assert entities.is_quickly_counted == (
            "access.what_can.MAX_GRANTS_TO_COUNT" not in limits
            or not entities.tables
            or not any(table.rows().exists() for table in entities.tables)
        )


@pytest.mark.parametrize("generation", GENERATIONS.values(), ids=list(GENERATIONS))
def test_the_filters_of_entities_are_exact(tenant, generation):
    def rows(**where):
        return set(all_entities(AccessibleEntities.of("user", user, generation, EntityFilter(**where)), 5))

    for user in list(tenant.users)[:4]:
        full = set(all_permissions("user", user, generation))
        assert rows(kind="dataset") == {row for row in full if row[0].startswith("dataset:")}
        inside = {
            str(address) for address in tenant.entities if address.namespace == parse_address("namespace:ns0")
        }
        assert rows(namespace="ns0") == {row for row in full if row[0] in inside}
        assert rows(text="STREAM") == {row for row in full if "stream" in row[0].partition(":")[2]}
        assert rows(text="stream:ns1") == {row for row in full if row[0].startswith("stream:ns1")}
        assert {entity for entity, _ in rows(operation="get")} == {
            entity for entity, operation in full if operation == "get"
        }
        live = [address for address, state in tenant.entities.items() if state == State.LIVE]
        held = [Question("user", user, Privilege.WRITE, address, generation.name) for address in live]
        writable = {
            str(q.target) for q, facts in zip(held, gather_facts(held), strict=True) if is_permitted(q, facts)
        }
        assert rows(privilege="WRITE") == {row for row in full if row[0] in writable}


def test_a_page_of_people_takes_a_fixed_number_of_queries(tenant, django_assert_num_queries):
    address = next(address for address in tenant.entities if address.kind == "dataset")
    with django_assert_num_queries(5):
        PeopleWithAccess(address, GENERATIONS["final"]).page(None, 2)
    assert User.objects.count() == len(tenant.users)


@pytest.mark.parametrize("generation", GENERATIONS.values(), ids=list(GENERATIONS))
def test_the_entities_are_counted_by_level_kind_and_namespace(tenant, generation):
    for user in tenant.users:
        permitted = set(all_permissions("user", user, generation))
        expected = Counter()
        for entity in {entity for entity, _ in permitted}:
            address = parse_address(entity)
            for level, operations in operations_by_level(generation, address.kind).items():
                held = [operation for operation in operations if (entity, operation) in permitted]
                if held:
                    namespace, is_partial = address.namespace, held != operations
                    expected[level, address.kind, namespace.key if namespace else "", is_partial] += 1
        entities = AccessibleEntities.of("user", user, generation)
        counted = entities.level_counts(entities.counts())
        of_rows = entities.level_counts_of_rows(entities.all_rows())
        for counts in (counted, of_rows):
            assert {(c.level, c.kind, c.namespace, c.is_partial): c.count for c in counts} == expected
        for level in LEVELS:
            listed = AccessibleEntities.of("user", user, generation, EntityFilter(level=level))
            total = sum(count for (of, *_), count in expected.items() if of == level)
            assert len({entity for entity, _ in all_entities(listed, 3)}) == total


def test_the_levels_of_very_many_entities_are_not_divided_by_namespace(tenant, monkeypatch):
    user = next(user for user in tenant.users if list(all_permissions("user", user, GENERATIONS["final"])))
    entities = AccessibleEntities.of("user", user, GENERATIONS["final"])
    expected, is_partial = Counter(), defaultdict(bool)
    for count in entities.level_counts(entities.counts()):
        expected[count.level, count.kind] += count.count
        is_partial[count.level, count.kind] |= count.is_partial
    monkeypatch.setattr("grants.access.what_can.MAX_COUNTED", 0)

    counted = entities.level_counts(entities.counts(0))

    assert counted and {count.namespace for count in counted} == {None}
    assert {(count.level, count.kind): count.count for count in counted} == expected
    assert all(count.is_partial == is_partial[count.level, count.kind] for count in counted)
