"""The tables of delete-readiness for small DataFrames, without a database."""

import pytest

from analytics.spark.analyses import readiness
from analytics.spark.engine import units

pytestmark = pytest.mark.spark

SALES = (
    (1, "instance", "cdap", None, "live"),
    (2, "namespace", "sales", 2, "live"),
    (3, "dataset", "sales.orders", 2, "live"),
    (4, "application", "sales.app", 2, "live"),
    (5, "program", "sales.app.workflow.daily", 2, "live"),
    (6, "dataset", "sales.planned", 2, "planned"),
    (7, "dataset", "sales.gone", 2, "deleted"),
    (8, "namespace", "closed", 8, "deleted"),
    (9, "dataset", "closed.left", 8, "live"),
)
USERS = ((1, "alice"), (2, "bob"), (3, "Zoe"))


def collect(frame):
    return [tuple(row) for row in frame.collect()]


def collect_rows(analysis_input):
    return sorted(collect(readiness.rows(analysis_input).frame))


def add_rows(analysis_input):
    """Add the result table, which the other tables need, to the input. Return the input."""
    analysis_input.earlier["rows"] = readiness.rows(analysis_input).frame
    return analysis_input


def test_the_namespace_and_every_live_entity_inside_it_at_any_depth_are_required(build_input):
    analysis_input = build_input(
        entities=SALES, users=USERS, admin=[("user", 1, entity) for entity in (2, 3, 4, 5)]
    )
    assert collect_rows(analysis_input) == [("sales", "alice", 4, 4, 0, True)]


def test_entities_inside_are_not_counted_if_only_the_namespace_is_required(build_input):
    analysis_input = build_input(
        entities=SALES, users=USERS, admin=[("user", 1, 2), ("user", 2, 3)], generation="core"
    )
    assert collect_rows(analysis_input) == [
        ("sales", "alice", 1, 1, 0, True),
        ("sales", "bob", 1, 0, 1, False),
    ]


def test_a_user_with_a_grant_on_a_planned_or_deleted_address_only_is_a_candidate_who_holds_nothing(
    build_input,
):
    analysis_input = build_input(entities=SALES, users=USERS, admin=[("user", 1, 6), ("user", 2, 7)])
    assert collect_rows(analysis_input) == [
        ("sales", "alice", 4, 0, 4, False),
        ("sales", "bob", 4, 0, 4, False),
    ]


def test_an_entity_held_directly_and_through_two_groups_counts_once(build_input):
    analysis_input = build_input(
        entities=SALES,
        users=USERS,
        groups=[(1, "a"), (2, "b")],
        memberships=[(1, 1), (1, 2)],
        admin=[("user", 1, 3), ("group", 1, 3), ("group", 2, 3), ("group", 2, 4)],
    )
    assert collect_rows(analysis_input) == [("sales", "alice", 4, 2, 2, False)]


def test_a_user_and_a_group_with_the_same_id_are_different_principals(build_input):
    analysis_input = build_input(
        entities=SALES,
        users=USERS,
        groups=[(1, "a")],
        memberships=[(2, 1)],
        admin=[("user", 1, 3), ("group", 1, 4), ("group", 1, 5)],
    )
    assert collect_rows(analysis_input) == [
        ("sales", "alice", 4, 1, 3, False),
        ("sales", "bob", 4, 2, 2, False),
    ]


def test_other_privileges_and_principals_without_an_active_user_give_no_row(build_input):
    analysis_input = build_input(
        entities=SALES,
        users=USERS,
        groups=[(1, "empty"), (2, "inactive users")],
        memberships=[(99, 2)],
        admin=[("user", 99, 3), ("group", 1, 3), ("group", 2, 3)],
        other=[("user", 1, 3)],
    )
    assert collect_rows(analysis_input) == []


def test_a_namespace_that_is_not_live_has_no_row(build_input):
    analysis_input = build_input(
        entities=SALES, users=USERS, admin=[("user", 1, 8), ("user", 1, 9), ("user", 1, 1)]
    )
    assert collect_rows(analysis_input) == []


def test_the_result_can_be_limited_to_one_namespace(build_input):
    entities = [*SALES, (10, "namespace", "sales2", 10, "live")]
    admin = [("user", 1, 2), ("user", 1, 10)]
    assert collect_rows(build_input(entities=entities, users=USERS, admin=admin, namespace="sales2")) == [
        ("sales2", "alice", 1, 1, 0, True)
    ]


def test_an_empty_tenant_gives_empty_tables(build_input):
    analysis_input = add_rows(build_input())
    assert collect_rows(analysis_input) == collect(readiness.namespaces(analysis_input)) == []
    assert collect(readiness.detail(analysis_input).frame) == []


def test_the_overview_names_the_nearest_user_and_includes_namespaces_without_holders(build_input):
    entities = [*SALES, (10, "namespace", "bare", 10, "live")]
    admin = [("user", 2, 2), ("user", 1, 2), ("user", 3, 3), ("user", 3, 4)]
    analysis_input = add_rows(build_input(entities=entities, users=USERS, admin=admin))
    assert sorted(collect(readiness.namespaces(analysis_input))) == [
        ("bare", 1, 0, 0, None, None, True),
        ("sales", 4, 3, 0, 2, "Zoe", True),
    ]


def test_the_overview_counts_the_users_who_are_ready(build_input):
    admin = [("user", user, entity) for user in (1, 2) for entity in (2, 3, 4, 5)] + [("user", 3, 2)]
    analysis_input = add_rows(build_input(entities=SALES, users=USERS, admin=admin))
    assert collect(readiness.namespaces(analysis_input)) == [("sales", 4, 3, 2, 0, "alice", False)]


def test_the_detail_lists_each_missing_entity_by_its_address(build_input):
    admin = [("user", 1, 2), ("user", 1, 5), ("user", 2, 6)] + [
        ("user", 3, entity) for entity in (2, 3, 4, 5)
    ]
    analysis_input = add_rows(build_input(entities=SALES, users=USERS, admin=admin))
    assert sorted(collect(readiness.detail(analysis_input).frame)) == [
        ("sales", "alice", "application:sales.app"),
        ("sales", "alice", "dataset:sales.orders"),
        ("sales", "bob", "application:sales.app"),
        ("sales", "bob", "dataset:sales.orders"),
        ("sales", "bob", "namespace:sales"),
        ("sales", "bob", "program:sales.app.workflow.daily"),
    ]


def test_a_namespace_that_spans_several_blocks_is_counted_across_them(spark, build_input):
    last_id = 2 * units.UNIT_ENTITIES + 70
    analysis_input = build_input(
        entities=[(1, "namespace", "huge", 1, "live")],
        users=USERS,
        groups=[(1, "all")],
        memberships=[(1, 1)],
        admin=[("user", 2, 1), ("user", 1, last_id)],
    )
    datasets = spark.range(2, last_id + 1).selectExpr(
        "id",
        "'dataset' as kind",
        "concat('huge.d', id) as key",
        "1L as parent_id",
        "1L as namespace_id",
        "cast(null as long) as application_id",
        "'live' as state",
    )
    group_grants = spark.range(1, last_id).selectExpr("'group'", "1L", "id", "'ADMIN'", "''")
    tables = analysis_input.tables
    large_tables = type(tables)(
        tables.entities.union(datasets),
        tables.users,
        tables.groups,
        tables.memberships,
        tables.grants.union(group_grants),
    )
    analysis_input = add_rows(type(analysis_input)(large_tables, "final"))
    assert collect_rows(analysis_input) == [
        ("huge", "alice", last_id, last_id, 0, True),
        ("huge", "bob", last_id, 1, last_id - 1, False),
    ]
    assert readiness.detail(analysis_input).frame.count() == last_id - 1
