"""The tables of delete-readiness for small DataFrames, without a database."""

import pytest

from analytics.spark.analyses import readiness
from analytics.spark.engine.small_tenant import SmallTenant

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


def test_all_outputs_of_an_analysis_read_a_small_tenant_once(build_input):
    first, second = (
        build_input(entities=SALES, users=users, admin=[("user", 1, 3)]) for users in (USERS, USERS[:2])
    )
    assert SmallTenant.collect(first.tables) is SmallTenant.collect(first.tables)
    assert SmallTenant.collect(second.tables) is not SmallTenant.collect(first.tables)
