"""Test that PostgreSQL uses indexes for every form of question, with two million grants."""

import json
import re
from collections.abc import Iterator

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.test.utils import CaptureQueriesContext

from entities.models import Entity
from entities.vocabulary import KINDS
from grants.evaluation import facts
from grants.evaluation.visibility import visibility_of
from grants.policies.catalogue import GENERATIONS
from grants.policies.question import Question, question_from_json

pytestmark = [pytest.mark.slow, pytest.mark.django_db]

NAMESPACES, USERS, GROUPS = 200, 10_000, 500
SIZES = {"datasets": 200_000, "of_users": 1_200_000, "of_groups": 800_000}
PERMISSION = (
    "(SELECT min(id) FROM auth_permission WHERE content_type_id = (SELECT id FROM django_content_type "
    "WHERE app_label = 'entities' AND model = 'entity') AND codename = 'read')"
)
KEYS = {
    "instance": "cdap",
    "namespace": "ns7",
    "application": "ns7.a",
    "program": "ns7.a.workflow.w",
    "kerberosprincipal": "etl@HOST",
}

ANALYZE = (
    "ANALYZE entities_entity, grants_user, auth_group, grants_user_groups, grants_rolemembership, grants_usergrant, "
    "grants_groupgrant"
)

# the effect of VACUUM, which cannot run in a transaction
MARK_VACUUMED = "UPDATE pg_class SET relallvisible = relpages WHERE relname LIKE 'grants_%grant'"


def insert_statements(*, datasets: int, of_users: int, of_groups: int) -> tuple[str, ...]:
    return (
        "SET LOCAL session_replication_role = replica",
        f"""INSERT INTO entities_entity (id, kind, key, state, description, created_at, changed_at, parent_id, namespace_id)
            SELECT 1000 + n, 'namespace', 'ns' || n, 'live', '', now(), now(), 1, 1000 + n
            FROM generate_series(1, {NAMESPACES}) n""",
        f"""INSERT INTO entities_entity (id, kind, key, state, description, created_at, changed_at, parent_id, namespace_id)
            SELECT 10000 + n, 'dataset', 'ns' || n % {NAMESPACES} + 1 || '.d' || n, 'live', '', now(), now(),
              1001 + n % {NAMESPACES}, 1001 + n % {NAMESPACES} FROM generate_series(1, {datasets}) n""",
        f"""INSERT INTO grants_user (id, username, password, first_name, last_name, email, is_staff, is_superuser, is_active,
              date_joined, role, is_principal)
            SELECT 1000 + n, 'u' || n, '!', '', '', '', false, false, true, now(), 'ordinary', true
            FROM generate_series(1, {USERS}) n""",
        f"INSERT INTO auth_group (id, name) SELECT 1000 + n, 'g' || n FROM generate_series(1, {GROUPS}) n",
        f"INSERT INTO grants_user_groups (user_id, group_id) SELECT 1000 + n, 1001 + (n * k) % {GROUPS} "
        f"FROM generate_series(1, {USERS}) n, generate_series(1, 5) k ON CONFLICT DO NOTHING",
        "INSERT INTO auth_group (id, name) VALUES (900, 'role:r')",
        "INSERT INTO grants_rolegroup (id, role_id, group_id) SELECT n, 900, 1000 + n FROM generate_series(1, 50) n",
        "INSERT INTO grants_rolemembership (user_id, role_id, via_id) "
        "SELECT user_id, 900, group_id - 1000 FROM grants_user_groups WHERE group_id <= 1050",
        f"""INSERT INTO grants_usergrant (user_id, content_object_id, permission_id, granted_at, reason, namespace_id)
            SELECT 1001 + n % {USERS}, 10001 + (n::bigint * 7919 + n / {datasets}) % {datasets}, {PERMISSION}, now(), '',
              1001 + ((n::bigint * 7919 + n / {datasets}) % {datasets} + 1) % {NAMESPACES}
            FROM generate_series(1, {of_users}) n""",
        f"""INSERT INTO grants_groupgrant (group_id, content_object_id, permission_id, granted_at, reason, namespace_id)
            SELECT 1001 + n % {GROUPS}, 10001 + (n::bigint * 104729 + n / {datasets}) % {datasets}, {PERMISSION}, now(), '',
              1001 + ((n::bigint * 104729 + n / {datasets}) % {datasets} + 1) % {NAMESPACES}
            FROM generate_series(1, {of_groups}) n""",
        "SET LOCAL session_replication_role = origin",
    )


def insert_tenant(**sizes: int):
    if connection.vendor != "postgresql":
        pytest.skip("PostgreSQL plans by statistics, SQLite in the order as written")
    with connection.cursor() as cursor:
        drop, create = index_statements(cursor)
        for statement in (*drop, *insert_statements(**sizes), *create, ANALYZE):
            cursor.execute(statement)


def index_statements(cursor) -> tuple[list[str], list[str]]:
    """Return statements that drop and create the indexes of the grants: creating them afterwards takes a
    third of the time.
    """
    cursor.execute("""
        SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid), indrelid::regclass::text, pg_get_constraintdef(c.oid)
        FROM pg_index LEFT JOIN pg_constraint c ON conindid = indexrelid AND contype = 'u'
        WHERE indrelid IN ('grants_usergrant'::regclass, 'grants_groupgrant'::regclass) AND NOT indisprimary""")
    drop, create = [], ["SET LOCAL maintenance_work_mem = '256MB'"]
    for index, definition, table, constraint in cursor.fetchall():
        drop.append(f"ALTER TABLE {table} DROP CONSTRAINT {index}" if constraint else f"DROP INDEX {index}")
        create.append(
            f"ALTER TABLE {table} ADD CONSTRAINT {index} {constraint}" if constraint else definition
        )
    return drop, create


@pytest.fixture
def two_million_grants():
    insert_tenant(**SIZES)
    with connection.cursor() as cursor:
        cursor.execute(MARK_VACUUMED)
        cursor.execute(
            "SELECT (SELECT count(*) FROM grants_usergrant) + (SELECT count(*) FROM grants_groupgrant)"
        )
        assert cursor.fetchone()[0] > 1_900_000


def questions(subject_type: str, subject: str):
    for kind in KINDS:
        for operation in (*KINDS[kind].operations, "READ"):
            for generation in GENERATIONS:
                yield question_from_json(
                    {
                        "subject": {"type": subject_type, "id": subject},
                        "action": {"name": operation},
                        "resource": {"type": kind, "id": KEYS.get(kind, "ns7.d6")},
                        "context": {"generation": generation},
                    },
                    active_generation="final",
                )


def query_plan(questions: list[Question], explained: bool) -> str:
    """Return the generic query plan for the facts of these questions, which PostgreSQL uses for all
    parameters.
    """
    lookups = facts._Lookups()
    for question in questions:
        facts._collect_lookups(lookups, question, explained, with_live=True)
    text, parameters = facts._statement(lookups, explained)
    numbers = iter(range(1, len(parameters) + 1))
    texts = (str(value).replace("'", "''") for value in parameters)
    values = ", ".join(
        text if isinstance(value, int) else f"'{text}'" for value, text in zip(parameters, texts, strict=True)
    )
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        cursor.execute("PREPARE statement AS " + re.sub("%s", lambda _: f"${next(numbers)}", text))
        cursor.execute(f"EXPLAIN (FORMAT JSON) EXECUTE statement({values})")
        plan = cursor.fetchone()[0]
        cursor.execute("DEALLOCATE statement")
    return plan if isinstance(plan, str) else json.dumps(plan)


def scans(plan: str) -> Iterator[tuple[str, str, str]]:
    """Yield (type of scan, table, index) for each table of a query plan.

    The index is an empty text if none is used.
    """

    def visit(node) -> Iterator[dict]:
        if isinstance(node, dict):
            yield node
        for part in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            yield from visit(part)

    for node in visit(json.loads(plan)):
        if "Relation Name" in node:
            yield node["Node Type"], node["Relation Name"], node.get("Index Name", "")


def scanned_tables(plan: str) -> set[str]:
    """Return the tables that the query plan reads completely, except for the small ones of groups and of groups in roles."""
    small_tables = {"auth_group", "grants_rolegroup"}
    return {table for scan, table, _ in scans(plan) if scan == "Seq Scan"} - small_tables


def grants_read_from_tables(plan: str) -> set[tuple[str, str]]:
    """Return the (table, index) of grants of which the query plan does not only read an index.

    The indexes by application do not contain the validity; a decision reads at most one row with each of
    them.
    """
    return {
        (table, index)
        for scan, table, index in scans(plan)
        if table in ("grants_usergrant", "grants_groupgrant")
        and scan != "Index Only Scan"
        and not index.endswith("_in_application")
    }


def test_no_statement_reads_a_whole_table_of_two_million_grants(two_million_grants):
    distinct_questions = {}
    for subject in (("user", "u7"), ("group", "g7")):
        subject_questions = list(questions(*subject))
        for question in subject_questions:
            policy = question.policy
            if policy is not None and policy.requirement is not None:
                distinct_questions.setdefault(
                    (subject[0], question.target.kind, repr(policy.requirement)), question
                )
        for explained in (False, True):
            assert scanned_tables(query_plan(subject_questions, explained)) == set()
    assert len(distinct_questions) > 50
    for question in distinct_questions.values():
        for explained in (False, True):
            assert scanned_tables(query_plan([question], explained)) == set(), question
        # the validity of a grant is in the index that finds it
        assert grants_read_from_tables(query_plan([question], explained=False)) == set(), question


def test_the_grants_of_a_principal_with_many_grants_are_found_without_a_table_scan():
    """PostgreSQL would scan the table if it expected many rows, although all of them may be at its end."""
    datasets = 50_000
    insert_tenant(datasets=datasets, of_users=1_000, of_groups=200_000)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(f"""
            INSERT INTO grants_groupgrant (group_id, content_object_id, permission_id, granted_at, reason, namespace_id)
            SELECT 1007, 10000 + n, {PERMISSION} + k, now(), '', 1007
            FROM generate_series(1, {datasets}) n, generate_series(0, 2) k ON CONFLICT DO NOTHING""")
        cursor.execute("SET LOCAL session_replication_role = origin")
        cursor.execute("ANALYZE grants_groupgrant")
        cursor.execute(MARK_VACUUMED)
    inside = Entity.objects.get(kind="namespace", key="ns7")
    with CaptureQueriesContext(connection) as captured:
        visibility = visibility_of(Group.objects.get(name="g7"), GENERATIONS["final"], inside=inside)
    assert not visibility.has_few_grants
    statements = [query["sql"] for query in captured if "grant" in query["sql"]]
    assert len(statements) >= 2
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(f"EXPLAIN (FORMAT JSON) {statement}")
            plan = cursor.fetchone()[0]
            assert scanned_tables(plan if isinstance(plan, str) else json.dumps(plan)) == set(), statement
