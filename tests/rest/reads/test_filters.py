"""Filters of the lists of grants, entities and journal lines."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from entities.models import Entity
from entities.vocabulary import Privilege
from grants.journal import current_revision
from grants.models import User, permission_ids
from tests.rest.conftest import grant_item, problem

ORDERS = "dataset:sales.orders"
# of 10,000 to 20,000 rows; a page of a rare value may be found by reading part of an index
MAX_ROWS_READ = 5_000


def grants(rest, **filters):
    return {
        (item["principal"], item["entity"], item["privilege"]) for item in rest.all_of("/grants", **filters)
    }


def test_grants_are_filtered_by_privilege_state_and_granter(ada):
    change = {
        "grant": [
            grant_item("user:out", ORDERS, "WRITE"),
            grant_item("group:operators", ORDERS, "WRITE"),
        ]
    }
    assert ada.post("/grants", change).status_code == 200
    by_ada = {("user:out", ORDERS, "WRITE"), ("group:operators", ORDERS, "WRITE")}
    leftover, planned = (
        ("user:dee", "dataset:sales.legacy", "WRITE"),
        ("group:operators", "dataset:sales.forecast", "READ"),
    )
    assert grants(ada, privilege="WRITE") == by_ada | {leftover}
    assert grants(ada, state="deleted") == {leftover} and grants(ada, state="planned") == {planned}
    assert grants(ada, granted_by="ada") == grants(ada, granted_by="ada", limit=1) == by_ada
    assert grants(ada, granted_by="ada", privilege="READ") == set() == grants(ada, granted_by="nobody")
    assert grants(ada, state="live", privilege="READ", entity=ORDERS) == {
        ("user:dee", ORDERS, "READ"),
        ("user:ina", ORDERS, "READ"),
    }
    assert grants(ada, principal="user:dee", state="deleted") == {leftover}


def test_an_ordinary_account_filters_only_its_own_grants(by_session):
    assert grants(by_session("dee"), privilege="READ") == {("user:dee", ORDERS, "READ")}
    problem(by_session("dee").get("/grants", privilege="READ", principal="user:ina"), 403)


@pytest.mark.parametrize(
    ("path", "query", "field"),
    [
        ("/entities", {"changed_since": "yesterday"}, "changed_since"),
        ("/entities", {"changed_since": "-1"}, "changed_since"),
        ("/entities", {"changed_since": "9" * 30}, "changed_since"),
    ],
)
def test_invalid_values_are_refused(ada, path, query, field):
    assert problem(ada.get(path, **query), 400)["errors"][0]["field"] == field


def addresses(rest, **query):
    return [item["address"] for item in rest.all_of("/entities", **query)]


def test_entities_are_filtered_by_their_last_change(ada):
    before, revision = timezone.now(), current_revision()
    assert addresses(ada, changed_since=revision) == addresses(ada, changed_since=before.isoformat()) == []
    ada.post("/entities", {"address": "dataset:sales.new"})
    ada.patch(f"/entities/{ORDERS}", {"description": "new"}, If_Match="*")
    ada.post(
        "/grants",
        {"grant": [grant_item("user:out", "dataset:hr.salaries")]},
    )
    changed = ["dataset:sales.new", ORDERS]
    for since in (revision, before.isoformat(), before.strftime("%Y-%m-%dT%H:%M:%S.%fZ")):
        assert addresses(ada, changed_since=since) == addresses(ada, changed_since=since, limit=1) == changed
    assert addresses(ada, changed_since=revision + 1) == [ORDERS]
    assert addresses(ada, changed_since=revision, q="new") == ["dataset:sales.new"]
    assert addresses(ada, changed_since=revision, within="namespace:hr") == []
    assert addresses(ada, changed_since=(timezone.now() + timedelta(days=1)).isoformat()) == []
    assert set(addresses(ada, changed_since=0)) >= {"namespace:sales", "dataset:hr.salaries"}
    ada.delete("/entities/namespace:hr")
    assert {"namespace:hr", "dataset:hr.salaries"} <= set(
        addresses(ada, changed_since=current_revision() - 2)
    )


def test_an_ordinary_account_finds_only_its_entities(by_session):
    found = addresses(by_session("dee"), changed_since=0)
    assert ORDERS in found and "dataset:hr.salaries" not in found


def test_the_journal_is_filtered_by_request(ada):
    first = ada.post(
        "/grants",
        {"grant": [grant_item("user:out", ORDERS, "READ", "WRITE")]},
        X_Request_ID="from-the-caller",
    )
    assert first["X-Request-ID"] == "from-the-caller"
    ada.patch(f"/entities/{ORDERS}", {"description": "new"}, If_Match="*")
    lines = ada.all_of("/journal", caller_request_id="from-the-caller")
    assert [line["privilege"] for line in lines] == ["WRITE", "READ"]
    assert ada.all_of("/journal", request_id=lines[0]["request_id"]) == lines
    assert ada.all_of("/journal", request_id=lines[0]["request_id"], action="grant", limit=1) == lines
    assert ada.all_of("/journal", request_id="from-the-caller") == []
    # lines without a request are no match
    assert len(ada.get("/journal", request_id="").json().get("items", [])) == 0


@pytest.fixture
def large_tenant(cast):
    """10,000 entities, 20,000 grants and 10,000 journal lines; planned entities, WRITE and grants by ned are
    rare.
    """
    if connection.vendor != "postgresql":
        pytest.skip("PostgreSQL plans by statistics, SQLite in the order as written")
    privileges, group = permission_ids(), Group.objects.get(name="operators")
    users = User.objects.bulk_create(User(username=f"u{number}", password="") for number in range(100))
    first_user = users[0].pk
    details = "granted_at, reason, granted_by_id, content_object_id, permission_id"
    values = f"""now(), '', CASE WHEN n % 4000 = 3 THEN {cast["ned"].pk} ELSE {cast["ada"].pk} END, e.id,
        CASE WHEN n % 4000 = 5 THEN {privileges[Privilege.WRITE]} ELSE {privileges[Privilege.READ]} END"""
    numbered = "(SELECT id, row_number() OVER (ORDER BY id) n FROM entities_entity WHERE key LIKE 'big.%%')"
    statements = [
        f"""INSERT INTO entities_entity (kind, key, state, description, created_at, changed_at, namespace_id)
            SELECT 'dataset', 'big.d' || n, CASE WHEN n % 4000 = 7 THEN 'planned' ELSE 'live' END, '', now(), now(),
              {Entity.objects.get(kind="namespace", key="sales").pk} FROM generate_series(1, 10000) n""",
        f"INSERT INTO grants_usergrant (user_id, {details}) SELECT {first_user} + n % 100, {values} FROM {numbered} e",
        f"INSERT INTO grants_groupgrant (group_id, {details}) SELECT {group.pk}, {values} FROM {numbered} e",
        """INSERT INTO grants_journalline (revision, at, actor, action, principal, entity, privilege, detail, reason, request_id,
             hash)
           SELECT 1000 + n, timestamptz '2031-01-01 UTC' + n * interval '1 second', 'ada', 'register', '', 'dataset:big.d' || n,
             '', '', '', md5((n / 10)::text), '' FROM generate_series(1, 10000) n""",
        # analyze all tables: earlier tests may have changed the statistics of tables that the queries join
        "ANALYZE",
    ]
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def rows_read(captured) -> int:
    """Return the largest number of rows that a step of one of the queries reads."""
    most = 0
    for query in captured.captured_queries:
        if not query["sql"].startswith("SELECT"):
            continue
        with connection.cursor() as cursor:
            cursor.execute("EXPLAIN (ANALYZE, FORMAT JSON) " + query["sql"].replace("%", "%%"))
            plan = cursor.fetchone()[0]
        for step in steps(json.loads(plan) if isinstance(plan, str) else plan):
            most = max(
                most, step["Actual Loops"] * (step["Actual Rows"] + step.get("Rows Removed by Filter", 0))
            )
    return most


def steps(plan):
    for part in plan if isinstance(plan, list) else plan.values():
        if isinstance(part, dict | list):
            yield from steps(part)
    if isinstance(plan, dict) and "Node Type" in plan:
        yield plan


LATE = (datetime(2031, 1, 1, tzinfo=UTC) + timedelta(seconds=9_990)).isoformat()


PAGES = [
    ("/grants", {"privilege": "READ"}, 50),
    ("/grants", {"privilege": "WRITE"}, 7),
    ("/grants", {"privilege": "ADMIN"}, 6),
    ("/grants", {"state": "live"}, 50),
    ("/grants", {"state": "planned"}, 7),
    ("/grants", {"state": "deleted"}, 1),
    ("/grants", {"granted_by": "ada"}, 50),
    ("/grants", {"granted_by": "ned"}, 6),
    ("/grants", {"granted_by": "aud"}, 0),
    ("/entities", {"changed_since": "10990"}, 10),
    ("/entities", {"changed_since": LATE}, 11),
    ("/entities", {"changed_since": "60000"}, 0),
    ("/journal", {"request_id": "c4ca4238a0b923820dcc509a6f75849b"}, 10),
    ("/journal", {"request_id": "unknown"}, 0),
    ("/journal", {"caller_request_id": "unknown"}, 0),
]


def test_a_filtered_page_reads_few_rows(large_tenant, ada):
    for path, query, count in PAGES:
        for _ in range(6):
            # so often that PostgreSQL would reuse a query plan
            assert ada.get(path, **query).status_code == 200
        with CaptureQueriesContext(connection) as captured:
            answer = ada.get(path, **query)
        assert len(answer.json()["items"]) == count, query
        assert len(captured) <= 16 and rows_read(captured) <= MAX_ROWS_READ, query


def test_the_filters_add_a_query_for_the_granter(ada, django_assert_max_num_queries):
    with CaptureQueriesContext(connection) as captured:
        ada.get("/grants")
    # PostgreSQL also needs a transaction with a setting
    with django_assert_max_num_queries(len(captured) + 1 + 3 * (connection.vendor == "postgresql")):
        ada.get("/grants", privilege="READ", state="live", granted_by="ada")
