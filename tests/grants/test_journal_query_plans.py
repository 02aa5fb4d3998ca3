"""Test that PostgreSQL uses indexes for a page of a journal with a million lines, with every filter."""

import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from entities.address import parse_address
from grants.journal_queries import journal_lines
from grants.models import JournalLine, Role, User

pytestmark = [pytest.mark.slow, pytest.mark.django_db]

LINES, BEGIN, PAGE = 1_000_000, datetime(2025, 1, 1, tzinfo=UTC), 51
# Only the oldest lines have the action `plan`, and only the newest `delete`. Old lines of one import are
# about the user `early`.
INSERT_STATEMENTS = (
    f"""INSERT INTO grants_journalline (revision, at, actor, action, principal, entity, privilege, detail, reason, request_id,
          hash)
        SELECT n, timestamptz '{BEGIN:%Y-%m-%d} UTC' + n * interval '1 second',
          CASE WHEN n % 100000 = 7 THEN 'rare' ELSE 'admin' || n % 3 END,
          CASE WHEN n <= 60 THEN 'plan' WHEN n > {LINES} - 60 THEN 'delete' WHEN n % 3 = 0 THEN 'revoke' ELSE 'grant' END,
          CASE WHEN n BETWEEN 1000 AND 130000 THEN 'user:early' ELSE 'user:u' || n % 10000 END,
          CASE WHEN n % 20000 = 7 THEN 'dataset:small.d7' ELSE 'dataset:ns.d' || n % 200000 END, 'READ', '', '', '', ''
        FROM generate_series(1, {LINES}) n""",
    "ANALYZE grants_journalline",
)
EARLY, LATE = BEGIN + timedelta(seconds=1_000), BEGIN + timedelta(seconds=LINES - 1_000)
FILTERS = [
    {},
    {"principal": "user:u7"},
    {"principal": "user:early"},
    {"principal": "user:nobody"},
    {"entity": "dataset:ns.d7"},
    {"entity": "dataset:ns.none"},
    {"actor": "admin1"},
    {"actor": "rare"},
    {"actor": "nobody"},
    {"action": "grant"},
    {"action": "plan"},
    {"action": "delete"},
    {"action": "recreate"},
    {"since": EARLY},
    {"since": LATE},
    {"until": EARLY},
    {"until": LATE},
    {"until": BEGIN},
    {"since": EARLY, "until": EARLY + timedelta(seconds=500)},
    {"since": LATE, "until": EARLY},
    {"action": "grant", "until": EARLY},
    {"action": "revoke", "since": EARLY, "until": EARLY + timedelta(hours=2)},
    {"action": "revoke", "since": EARLY, "until": LATE},
    {"actor": "rare", "since": EARLY, "until": LATE},
    {"actor": "admin1", "until": EARLY},
    {"action": "plan", "actor": "admin1"},
    {"principal": "user:u7", "until": EARLY},
    {"principal": "user:u7", "action": "grant", "actor": "rare"},
    {"entity": "dataset:ns.d7", "action": "revoke"},
    {"contents_of": parse_address("namespace:ns")},
    {"contents_of": parse_address("namespace:small")},
    {"contents_of": parse_address("namespace:none")},
    {"contents_of": parse_address("namespace:small"), "since": EARLY, "until": LATE},
    {"contents_of": parse_address("dataset:small.d7")},
]


@pytest.fixture(scope="module")
def a_million_lines(django_db_setup, django_db_blocker):
    if connection.vendor != "postgresql":
        pytest.skip("PostgreSQL plans by statistics, SQLite in the order as written")
    with django_db_blocker.unblock():
        with connection.cursor() as cursor:
            for statement in INSERT_STATEMENTS:
                cursor.execute(statement)
        yield
        with connection.cursor() as cursor:
            cursor.execute("TRUNCATE grants_journalline")


def read_tables_and_rows(rows) -> tuple[set[str], int]:
    """Execute the query.

    Return the tables that it reads completely, and the largest number of rows that one step reads.
    """
    if rows.query.is_empty():
        return set(), 0
    text, parameters = rows.query.sql_with_params()
    numbers = iter(range(1, len(parameters) + 1))
    values = ", ".join(f"'{value}'" for value in parameters)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL plan_cache_mode = force_custom_plan")
        cursor.execute("PREPARE statement AS " + re.sub("%s", lambda _: f"${next(numbers)}", text))
        cursor.execute("EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE statement" + (f"({values})" if values else ""))
        plan = cursor.fetchone()[0]
        cursor.execute("DEALLOCATE statement")
    steps = list(nodes(json.loads(plan) if isinstance(plan, str) else plan))
    scanned_tables = {step["Relation Name"] for step in steps if step["Node Type"] == "Seq Scan"}
    rows = [
        step["Actual Loops"] * (step["Actual Rows"] + step.get("Rows Removed by Filter", 0)) for step in steps
    ]
    return scanned_tables, max(rows)


def nodes(plan):
    for part in plan if isinstance(plan, list) else plan.values():
        if isinstance(part, dict | list):
            yield from nodes(part)
    if isinstance(plan, dict) and "Node Type" in plan:
        yield plan


@pytest.mark.usefixtures("a_million_lines")
@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_a_page_reads_only_few_more_lines_than_it_shows(filters):
    rows, middle = journal_lines(**filters), LINES // 2
    for page in (rows, rows.filter(place__lt=middle), rows.filter(place__gt=middle).order_by("place")):
        scanned_tables, max_rows = read_tables_and_rows(page[:PAGE])
        assert not scanned_tables and max_rows <= 1_100, (str(page.query), max_rows)


@pytest.mark.usefixtures("a_million_lines")
@pytest.mark.parametrize(("url", "is_prepared"), [("/journal/", False), ("/api/v1/journal", True)])
def test_no_query_plan_is_reused_for_other_values(url, is_prepared, client):
    """A query plan for the frequent action `grant` would read all lines to find the rare action `recreate`."""
    client.force_login(User.objects.create_user("ada", role=Role.ADMINISTRATOR))
    for _ in range(12):
        assert client.get(url, {"action": "grant", "actor": "admin1"}).status_code == 200
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT coalesce(sum(custom_plans), 0), coalesce(sum(generic_plans), 0) FROM pg_prepared_statements "
            "WHERE statement LIKE '%%grants_journalline%%action%%revision%%DESC%%'"
        )
        custom, generic = cursor.fetchone()
    assert (custom >= 5) == is_prepared and generic == 0


@pytest.mark.usefixtures("a_million_lines")
@pytest.mark.parametrize(
    ("filters", "first", "last"),
    [
        ({"since": EARLY, "until": EARLY + timedelta(seconds=3)}, 1_002, 1_000),
        ({"until": BEGIN + timedelta(seconds=3)}, 2, 1),
        ({"since": BEGIN + timedelta(seconds=LINES)}, LINES, LINES),
    ],
)
def test_a_range_of_times_returns_its_lines_and_changes_nothing(filters, first, last):
    revisions = list(journal_lines(**filters).values_list("revision", flat=True))
    assert revisions == list(range(first, last - 1, -1))
    assert JournalLine.objects.count() == LINES
