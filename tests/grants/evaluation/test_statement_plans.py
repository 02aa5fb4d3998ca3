"""At two million grants, PostgreSQL answers every shape of question by looking into indexes."""

import json
import re

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
TWO_MILLION = {"datasets": 200_000, "of_users": 1_200_000, "of_groups": 800_000}
PERMISSION = "(SELECT min(id) FROM auth_permission WHERE content_type_id = (SELECT id FROM django_content_type " \
             "WHERE app_label = 'entities' AND model = 'entity') AND codename = 'read')"
KEYS = {"instance": "cdap", "namespace": "ns7", "application": "ns7.a", "program": "ns7.a.workflow.w",
        "kerberosprincipal": "etl@HOST"}


def filling(*, datasets: int, of_users: int, of_groups: int) -> tuple[str, ...]:
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
        f"""INSERT INTO grants_usergrant (user_id, content_object_id, permission_id, granted_at, reason, namespace_id)
            SELECT 1001 + n % {USERS}, 10001 + (n::bigint * 7919 + n / {datasets}) % {datasets}, {PERMISSION}, now(), '',
              1001 + ((n::bigint * 7919 + n / {datasets}) % {datasets} + 1) % {NAMESPACES}
            FROM generate_series(1, {of_users}) n ON CONFLICT DO NOTHING""",
        f"""INSERT INTO grants_groupgrant (group_id, content_object_id, permission_id, granted_at, reason, namespace_id)
            SELECT 1001 + n % {GROUPS}, 10001 + (n::bigint * 104729 + n / {datasets}) % {datasets}, {PERMISSION}, now(), '',
              1001 + ((n::bigint * 104729 + n / {datasets}) % {datasets} + 1) % {NAMESPACES}
            FROM generate_series(1, {of_groups}) n ON CONFLICT DO NOTHING""",
        "SET LOCAL session_replication_role = origin",
        "ANALYZE entities_entity, grants_user, auth_group, grants_user_groups, grants_usergrant, grants_groupgrant",
    )


def filled(**sizes: int):
    if connection.vendor != "postgresql":
        pytest.skip("PostgreSQL plans by statistics, SQLite in the order as written")
    with connection.cursor() as cursor:
        for statement in filling(**sizes):
            cursor.execute(statement)


@pytest.fixture
def two_million_grants():
    filled(**TWO_MILLION)
    with connection.cursor() as cursor:
        cursor.execute("SELECT (SELECT count(*) FROM grants_usergrant) + (SELECT count(*) FROM grants_groupgrant)")
        assert cursor.fetchone()[0] > 1_900_000


def questions(subject_type: str, subject: str):
    for kind in KINDS:
        for operation in (*KINDS[kind].operations, "READ"):
            for generation in GENERATIONS:
                yield question_from_json({
                    "subject": {"type": subject_type, "id": subject}, "action": {"name": operation},
                    "resource": {"type": kind, "id": KEYS.get(kind, "ns7.d6")}, "context": {"generation": generation},
                }, active_generation="final")


def plan_of(asked: list[Question], explained: bool) -> str:
    """As it is planned once for all parameters, which is how it is kept."""
    ask = facts._Lookups()
    for question in asked:
        facts._collect_lookups(ask, question, explained, with_live=True)
    text, parameters = facts._statement(ask, explained)
    places = iter(range(1, len(parameters) + 1))
    given = ", ".join(str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'" for value in parameters)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        cursor.execute("PREPARE asked AS " + re.sub("%s", lambda _: f"${next(places)}", text))
        cursor.execute(f"EXPLAIN (FORMAT JSON) EXECUTE asked({given})")
        plan = cursor.fetchone()[0]
        cursor.execute("DEALLOCATE asked")
    return plan if isinstance(plan, str) else json.dumps(plan)


def whole_reads(plan: str) -> set[str]:
    """The tables of which all rows are read."""
    found = set()

    def look(node):
        if isinstance(node, list):
            for part in node:
                look(part)
        elif isinstance(node, dict):
            if node.get("Node Type") == "Seq Scan":
                found.add(node["Relation Name"])
            for part in node.values():
                look(part)

    look(json.loads(plan))
    # of groups there are few
    return found - {"auth_group"}


def test_no_statement_reads_a_whole_table_at_two_million_grants(two_million_grants):
    shapes = {}
    for subject in (("user", "u7"), ("group", "g7")):
        asked = list(questions(*subject))
        for question in asked:
            policy = question.policy
            if policy is not None and policy.requirement is not None:
                shapes.setdefault((subject[0], question.target.kind, repr(policy.requirement)), question)
        for explained in (False, True):
            assert whole_reads(plan_of(asked, explained)) == set()
    assert len(shapes) > 50
    for question in shapes.values():
        for explained in (False, True):
            assert whole_reads(plan_of([question], explained)) == set(), question


def test_who_holds_much_in_a_namespace_is_not_looked_for_through_all_grants():
    """Those of whom PostgreSQL expects many may all stand at the end of the table."""
    datasets = 50_000
    filled(datasets=datasets, of_users=1_000, of_groups=200_000)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(f"""
            INSERT INTO grants_groupgrant (group_id, content_object_id, permission_id, granted_at, reason, namespace_id)
            SELECT 1007, 10000 + n, {PERMISSION} + k, now(), '', 1007
            FROM generate_series(1, {datasets}) n, generate_series(0, 2) k ON CONFLICT DO NOTHING""")
        cursor.execute("SET LOCAL session_replication_role = origin")
        cursor.execute("ANALYZE grants_groupgrant")
        # as after a VACUUM, which no transaction can run
        cursor.execute("UPDATE pg_class SET relallvisible = relpages WHERE relname LIKE 'grants_%grant'")
    inside = Entity.objects.get(kind="namespace", key="ns7")
    with CaptureQueriesContext(connection) as captured:
        seen = visibility_of(Group.objects.get(name="g7"), GENERATIONS["final"], inside=inside)
    assert not seen.has_few_grants
    asked = [query["sql"] for query in captured if "grant" in query["sql"]]
    assert len(asked) >= 2
    with connection.cursor() as cursor:
        for statement in asked:
            cursor.execute(f"EXPLAIN (FORMAT JSON) {statement}")
            plan = cursor.fetchone()[0]
            assert whole_reads(plan if isinstance(plan, str) else json.dumps(plan)) == set(), statement
