"""At a million lines, PostgreSQL finds a page of the journal by looking into indexes, whatever it is filtered by."""

import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from grants.journal_queries import journal_lines
from grants.models import JournalLine, Role, User

pytestmark = [pytest.mark.slow, pytest.mark.django_db]

LINES, BEGIN, PAGE = 1_000_000, datetime(2025, 1, 1, tzinfo=UTC), 51
# `plan` stands on the oldest lines only, `delete` on the newest only; an import of long ago wrote much about one user
FILLING = (
    f"""INSERT INTO grants_journalline (revision, at, actor, action, principal, entity, privilege, detail, reason, request_id,
          hash)
        SELECT n, timestamptz '{BEGIN:%Y-%m-%d} UTC' + n * interval '1 second',
          CASE WHEN n % 100000 = 7 THEN 'rare' ELSE 'admin' || n % 3 END,
          CASE WHEN n <= 60 THEN 'plan' WHEN n > {LINES} - 60 THEN 'delete' WHEN n % 3 = 0 THEN 'revoke' ELSE 'grant' END,
          CASE WHEN n BETWEEN 1000 AND 130000 THEN 'user:early' ELSE 'user:u' || n % 10000 END,
          'dataset:ns.d' || n % 200000, 'READ', '', '', '', ''
        FROM generate_series(1, {LINES}) n""",
    "ANALYZE grants_journalline",
)
EARLY, LATE = BEGIN + timedelta(seconds=1_000), BEGIN + timedelta(seconds=LINES - 1_000)
FILTERS = [
    {}, {"principal": "user:u7"}, {"principal": "user:early"}, {"principal": "user:nobody"},
    {"entity": "dataset:ns.d7"}, {"entity": "dataset:ns.none"},
    {"actor": "admin1"}, {"actor": "rare"}, {"actor": "nobody"},
    {"action": "grant"}, {"action": "plan"}, {"action": "delete"}, {"action": "recreate"},
    {"since": EARLY}, {"since": LATE}, {"until": EARLY}, {"until": LATE}, {"until": BEGIN},
    {"since": EARLY, "until": EARLY + timedelta(seconds=500)}, {"since": LATE, "until": EARLY},
    {"action": "grant", "until": EARLY}, {"action": "revoke", "since": EARLY, "until": EARLY + timedelta(hours=2)},
    {"action": "revoke", "since": EARLY, "until": LATE}, {"actor": "rare", "since": EARLY, "until": LATE},
    {"actor": "admin1", "until": EARLY}, {"action": "plan", "actor": "admin1"}, {"principal": "user:u7", "until": EARLY},
    {"principal": "user:u7", "action": "grant", "actor": "rare"}, {"entity": "dataset:ns.d7", "action": "revoke"},
]


@pytest.fixture(scope="module")
def a_million_lines(django_db_setup, django_db_blocker):
    if connection.vendor != "postgresql":
        pytest.skip("PostgreSQL plans by statistics, SQLite in the order as written")
    with django_db_blocker.unblock():
        with connection.cursor() as cursor:
            for statement in FILLING:
                cursor.execute(statement)
        yield
        with connection.cursor() as cursor:
            cursor.execute("TRUNCATE grants_journalline")


def looked_at(rows) -> tuple[set[str], int]:
    """The tables that are read whole, and how many lines any step read."""
    if rows.query.is_empty():
        return set(), 0
    text, parameters = rows.query.sql_with_params()
    places = iter(range(1, len(parameters) + 1))
    given = ", ".join(f"'{value}'" for value in parameters)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL plan_cache_mode = force_custom_plan")
        cursor.execute("PREPARE asked AS " + re.sub("%s", lambda _: f"${next(places)}", text))
        cursor.execute("EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE asked" + (f"({given})" if given else ""))
        plan = cursor.fetchone()[0]
        cursor.execute("DEALLOCATE asked")
    steps = list(nodes(json.loads(plan) if isinstance(plan, str) else plan))
    whole = {step["Relation Name"] for step in steps if step["Node Type"] == "Seq Scan"}
    return whole, max(step["Actual Loops"] * (step["Actual Rows"] + step.get("Rows Removed by Filter", 0)) for step in steps)


def nodes(plan):
    for part in plan if isinstance(plan, list) else plan.values():
        if isinstance(part, dict | list):
            yield from nodes(part)
    if isinstance(plan, dict) and "Node Type" in plan:
        yield plan


@pytest.mark.usefixtures("a_million_lines")
@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_a_page_reads_no_more_lines_than_it_shows_and_few_beside(filters):
    rows, middle = journal_lines(**filters), LINES // 2
    for page in (rows, rows.filter(place__lt=middle), rows.filter(place__gt=middle).order_by("place")):
        whole, most = looked_at(page[:PAGE])
        assert not whole and most <= 1_100, (str(page.query), most)


@pytest.mark.usefixtures("a_million_lines")
@pytest.mark.parametrize(("url", "is_prepared"), [("/journal/", False), ("/api/v1/journal", True)])
def test_no_plan_is_kept_for_all_values(url, is_prepared, client):
    """A plan for `grant`, of which there are many, would look for `recreate` through all lines."""
    client.force_login(User.objects.create_user("ada", role=Role.ADMINISTRATOR))
    for _ in range(12):
        assert client.get(url, {"action": "grant", "actor": "admin1"}).status_code == 200
    with connection.cursor() as cursor:
        cursor.execute("SELECT coalesce(sum(custom_plans), 0), coalesce(sum(generic_plans), 0) FROM pg_prepared_statements "
                       "WHERE statement LIKE '%%grants_journalline%%action%%revision%%DESC%%'")
        custom, generic = cursor.fetchone()
    assert (custom >= 5) == is_prepared and generic == 0


@pytest.mark.usefixtures("a_million_lines")
@pytest.mark.parametrize(("filters", "first", "last"), [
    ({"since": EARLY, "until": EARLY + timedelta(seconds=3)}, 1_002, 1_000), ({"until": BEGIN + timedelta(seconds=3)}, 2, 1),
    ({"since": BEGIN + timedelta(seconds=LINES)}, LINES, LINES),
])
def test_times_find_what_they_found_before(filters, first, last):
    found = list(journal_lines(**filters).values_list("revision", flat=True))
    assert found == list(range(first, last - 1, -1))
    assert JournalLine.objects.count() == LINES
