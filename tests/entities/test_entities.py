"""Test the table of entities: the containers of a row, and the lists of entities."""

from importlib import import_module

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from entities.address import instance_address, parse_address
from entities.models import Entity, State
from entities.selectors import (
    children_of,
    entities_at,
    entity_at,
    live_entities_inside,
    matching_entities,
    subtree_of,
)
from entities.services import EntityError, ensure_entities, set_entity_description
from tests.entities.test_address import EXAMPLES
from tests.support.authors import entity_states

pytestmark = pytest.mark.django_db

INDEX_MIGRATION = import_module("entities.migrations.0003_counting_and_parts")
on_postgresql = pytest.mark.skipif(
    "connection.vendor != 'postgresql'", reason="SQLite reads through the keys"
)


def expected_row(address, containers):
    """Return (address, parent, namespace, application) of a row. containers: nearest first."""
    texts = (address, *containers)
    namespace, application = (
        next((text for text in texts if text.startswith(f"{kind}:")), None)
        for kind in ("namespace", "application")
    )
    return address, next(iter(containers), None), namespace, application


def text_of(row):
    return None if row is None else str(row)


def create_entities(*addresses, state=State.LIVE):
    return ensure_entities(states=dict.fromkeys(map(parse_address, addresses), state)).rows


@pytest.mark.parametrize(
    "address, parent, namespace, application",
    [expected_row(address, containers) for address, _, containers in EXAMPLES.values()],
    ids=EXAMPLES,
)
def test_a_row_refers_to_its_parent_and_its_containers(address, parent, namespace, application):
    ensured = ensure_entities(states={parse_address(address): State.LIVE})
    created = ensured.rows[parse_address(address)]
    assert ensured.created[-1] == parse_address(address)
    for row in (created, Entity.objects.get(pk=created.pk)):
        assert str(row) == address
        assert (text_of(row.parent), text_of(row.namespace), text_of(row.application)) == (
            parent,
            namespace,
            application,
        )


@pytest.mark.parametrize(
    "state, containers", [("live", "live"), ("planned", "planned"), ("deleted", "planned")]
)
def test_missing_containers_are_registered_live_only_for_a_live_entity(state, containers):
    ensure_entities(states={parse_address("program:sales.orders.spark.daily"): state})
    assert entity_states() == {
        "instance:cdap": containers,
        "namespace:sales": containers,
        "application:sales.orders": containers,
        "program:sales.orders.spark.daily": state,
    }


def test_a_container_of_a_live_and_a_planned_entity_is_live_in_either_order():
    for pair in (["dataset:a.x", "dataset:a.y"], ["dataset:b.y", "dataset:b.x"]):
        ensure_entities(
            states={
                parse_address(address): "live" if address.endswith("x") else "planned" for address in pair
            }
        )
    assert entity_states()["namespace:a"] == entity_states()["namespace:b"] == "live"


def test_an_existing_row_keeps_its_state():
    create_entities("dataset:sales.orders", state=State.PLANNED)
    ensured = ensure_entities(states={parse_address("dataset:sales.orders"): State.LIVE})
    assert (ensured.created, ensured.rows[parse_address("dataset:sales.orders")].state) == ((), "planned")
    create_entities("dataset:sales.clicks")
    assert entity_states()["namespace:sales"] == "planned"


def test_another_instance_is_refused():
    with pytest.raises(
        EntityError, match="`instance:other` is not the instance of this console, which is `instance:cdap`"
    ):
        ensure_entities(states={parse_address("instance:other"): State.LIVE})
    assert not Entity.objects.exists()


def test_the_number_of_statements_does_not_grow_with_the_number_of_rows():
    def statements(namespace, count):
        addresses = [parse_address(f"program:{namespace}{n}.app.spark.p") for n in range(count)]
        with CaptureQueriesContext(connection) as captured:
            ensure_entities(states=dict.fromkeys(addresses, State.LIVE))
        return len([q for q in captured if not q["sql"].startswith(("INSERT", "SAVEPOINT", "RELEASE"))]), len(
            captured
        )

    create_entities("instance:cdap")
    (few, _), (many, all_of_many) = statements("a", 1), statements("b", 100)
    assert few == many
    # SQLite accepts at most a thousand parameters in an INSERT
    assert all_of_many <= many + 30


def test_setting_a_description_returns_whether_it_changed_and_updates_the_time():
    row = create_entities("dataset:sales.orders")[parse_address("dataset:sales.orders")]
    before = row.changed_at
    assert set_entity_description(entity=row, description="") is False
    assert set_entity_description(entity=row, description="All orders") is True
    row.refresh_from_db()
    assert row.description == "All orders" and row.changed_at > before


def test_an_address_is_found_by_kind_and_key_together():
    rows = create_entities("dataset:sales.orders", "stream:sales.orders")
    assert entity_at(parse_address("dataset:sales.orders")) == rows[parse_address("dataset:sales.orders")]
    assert entity_at(parse_address("dataset:sales.Orders")) is None
    entities = entities_at(
        [
            parse_address("dataset:sales.orders"),
            parse_address("namespace:sales"),
            parse_address("namespace:none"),
        ]
    )
    assert set(entities) == {parse_address("dataset:sales.orders"), parse_address("namespace:sales")}


@pytest.fixture
def two_namespaces():
    return create_entities(
        "program:sales.orders.spark.daily",
        "dataset:sales.x",
        "program:sales.orders2.spark.daily",
        "dataset:sales2.x",
        "kerberosprincipal:etl@REALM",
    )


def addresses_of(rows):
    return [str(row) for row in rows]


def test_children_are_the_entities_directly_inside(two_namespaces):
    assert addresses_of(children_of(two_namespaces[parse_address("namespace:sales")])) == [
        "application:sales.orders",
        "application:sales.orders2",
        "dataset:sales.x",
    ]
    assert addresses_of(children_of(two_namespaces[instance_address()])) == [
        "kerberosprincipal:etl@REALM",
        "namespace:sales",
        "namespace:sales2",
    ]


def test_a_subtree_has_entities_of_every_depth_and_none_of_a_namespace_with_a_longer_name(two_namespaces):
    assert addresses_of(subtree_of(two_namespaces[parse_address("namespace:sales")])) == [
        "application:sales.orders",
        "application:sales.orders2",
        "dataset:sales.x",
        "namespace:sales",
        "program:sales.orders.spark.daily",
        "program:sales.orders2.spark.daily",
    ]
    assert addresses_of(subtree_of(two_namespaces[parse_address("application:sales.orders")])) == [
        "application:sales.orders",
        "program:sales.orders.spark.daily",
    ]
    assert addresses_of(subtree_of(two_namespaces[parse_address("dataset:sales.x")])) == ["dataset:sales.x"]
    assert subtree_of(two_namespaces[instance_address()]).count() == Entity.objects.count()


def test_live_entities_inside_exclude_the_container_and_entities_that_are_not_live(two_namespaces):
    create_entities("dataset:sales.planned", state=State.PLANNED)
    create_entities("dataset:sales.deleted", state=State.DELETED)
    namespace = two_namespaces[parse_address("namespace:sales")]
    assert addresses_of(live_entities_inside(namespace, "dataset")) == ["dataset:sales.x"]
    assert live_entities_inside(namespace).count() == 5
    assert not live_entities_inside(two_namespaces[parse_address("dataset:sales.x")]).exists()


def test_lists_sort_by_bytes_on_every_database():
    create_entities(*(f"dataset:sales.{name}" for name in ("b", "B", "a-b", "a_b", "a.b", "A", "$", "aB")))
    rows = live_entities_inside(entity_at(parse_address("namespace:sales")))
    assert [row.name for row in rows] == ["$", "A", "B", "a-b", "a.b", "aB", "a_b", "b"]


@pytest.mark.parametrize(
    "text, matches",
    [
        ("dataset:sales.", ["dataset:sales.x"]),
        ("DATASET:sales", ["dataset:sales.x", "dataset:sales2.x"]),
        ("dataset:SALES", []),
        ("Orders2", ["application:sales.orders2", "program:sales.orders2.spark.daily"]),
        ("realm", ["kerberosprincipal:etl@REALM"]),
        ("  sales.x ", ["dataset:sales.x"]),
        ("sales_x", []),
        ("%", []),
        ("nothing:sales", []),
        ("", []),
        ("\0", []),
        ("\ud800", []),
    ],
)
def test_a_search_matches_the_start_of_an_address_or_any_part_of_a_key(two_namespaces, text, matches):
    assert addresses_of(matching_entities(text)) == matches


def test_a_search_for_the_start_of_an_address_uses_an_index(two_namespaces):
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            # otherwise the planner would read a small table completely
            cursor.execute("SET LOCAL enable_seqscan = off")
    plan = matching_entities("dataset:sales.").explain()
    index_condition = "Index Cond: (((kind)::text = 'dataset'::text) AND ((key)::text >="
    assert (index_condition if connection.vendor == "postgresql" else "key>?") in plan, plan


@on_postgresql
def test_a_search_for_any_part_of_a_key_uses_an_index(two_namespaces):
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_indexscan = off")
    assert INDEX_MIGRATION.BY_PARTS in matching_entities("rders2").order_by().explain()


@on_postgresql
def test_the_migration_skips_the_index_if_the_database_refuses_the_extension(two_namespaces):
    with connection.schema_editor() as editor:
        INDEX_MIGRATION.drop_parts_index(None, editor)
        editor.execute("DROP EXTENSION pg_trgm")
        editor.execute(
            "CREATE ROLE tenant_of_many; GRANT ALL ON ALL TABLES IN SCHEMA public TO tenant_of_many"
        )
        editor.execute("SET LOCAL ROLE tenant_of_many")
        INDEX_MIGRATION.add_parts_index(None, editor)
    assert addresses_of(matching_entities("rders2")) == [
        "application:sales.orders2",
        "program:sales.orders2.spark.daily",
    ]
    with connection.cursor() as cursor:
        assert INDEX_MIGRATION.BY_PARTS not in connection.introspection.get_constraints(
            cursor, "entities_entity"
        )
