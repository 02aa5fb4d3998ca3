"""Test that a database created by the previous version works after `migrate`.

`tests/cases/previous_version.sqlite3.gz` was written by the code of commit e45cf1c: `migrate`, an imported
tenant, direct changes, an applied and a proposed plan, an activated generation, a valid and a revoked token,
and a schedule. `tests/cases/previous_version.jsonl` is the tenant document that the same code exported from
it.
"""

import contextlib
import gzip
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import call_command

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "tests" / "cases"
TOKEN = "azc_hrGsJQk0MdU-_HEHWtlm93RH7LgvuM-shigwjsV04qU"

# Runs in a separate process because the database of a running test process cannot be replaced.
SCRIPT = """
import io, json, sys
import django
django.setup()
from django.core.management import call_command
call_command("migrate", verbosity=0)

from django.test import Client
from analytics.models import Schedule
from authzconsole.models import ApiToken
from entities.address import parse_address
from entities.vocabulary import Privilege
from grants.active_generation import active_generation
from grants.changes.grants import first_misplaced_grant
from tests.support.changes import change_grants
from grants.journal import Author, current_revision, first_break
from grants.models import Plan, User
from grants.plans.apply import apply_plan
from grants.tenant.export_document import export_tenant

exported = io.BytesIO()
export_tenant(exported)

def is_permitted(action):
    question = {"subject": {"type": "user", "id": "alice"}, "action": {"name": action},
                "resource": {"type": "dataset", "id": "sales.orders"}}
    answer = Client().post("/access/v1/evaluation", question, content_type="application/json",
                           headers={"Authorization": "Bearer " + sys.argv[1]})
    assert answer.status_code == 200, answer.content
    return answer.json()["decision"]

author = Author("root", reason="upgraded", user_id=User.objects.get(username="root").pk)
plans = [[plan.state, [[item.verb, item.principal, str(item.address), str(item.privilege), item.is_noop]
                       for item in plan.items.order_by("position")]] for plan in Plan.objects.order_by("pk")]
report = {
    "exported": exported.getvalue().decode(), "break": first_break() and first_break().sentence,
    "revision": current_revision(), "misplaced": str(first_misplaced_grant()), "plans": plans,
    "generation": active_generation().name,
    "is_permitted": [is_permitted("READ"), is_permitted("EXECUTE")],
    "tokens": [[token.name, token.scopes, token.revoked_at is not None, token.issued_by]
               for token in ApiToken.objects.order_by("pk")],
    "schedules": [[row.analysis, row.is_on, str(row.at), row.options] for row in Schedule.objects.all()],
}
def verification():
    out = io.StringIO()
    call_command("verify_journal", stdout=out)
    return out.getvalue().splitlines()[-1]

report["verification"] = [verification()]
apply_plan(author=author, plan_id=2)
report["verification"].append(verification())
report["applied"] = [Plan.objects.get(pk=2).state, current_revision(), first_break() and first_break().sentence]
print(json.dumps(report))
"""


def old_database(folder):
    database = folder / "console.sqlite3"
    database.write_bytes(gzip.decompress((CASES / "previous_version.sqlite3.gz").read_bytes()))
    return database


def run_with(database, *arguments):
    """Run Python in a process of its own with this database."""
    environment = os.environ | {
        "DATABASE_URL": f"sqlite:///{database}",
        "STATE_DIR": str(database.parent),
        "ALLOWED_HOSTS": "testserver",
        "DJANGO_SETTINGS_MODULE": "authzconsole.settings",
        "PYTHONPATH": str(ROOT),
    }
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Return the data that the console reads from the old database after `migrate`."""
    process = run_with(old_database(tmp_path_factory.mktemp("upgrade")), "-c", SCRIPT, TOKEN)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("statement", "address"),
    [
        (
            "UPDATE entities_entity SET kind = 'kerberosprincipal', key = '*/admin@REALM' WHERE key = 'hr'",
            "kerberosprincipal:*/admin@REALM",
        ),
        (
            "UPDATE grants_journalline SET entity = 'kerberosprincipal:etl?@REALM' WHERE revision = 3",
            "kerberosprincipal:etl?@REALM",
        ),
    ],
)
def test_an_old_database_with_an_address_that_would_be_a_pattern_is_not_migrated(
    tmp_path, statement, address
):
    database = old_database(tmp_path)
    with contextlib.closing(sqlite3.connect(database)) as connection, connection:
        assert connection.execute(statement).rowcount == 1
    process = run_with(database, "manage.py", "migrate")
    assert process.returncode != 0
    assert (
        f"addresses cannot contain `*` or `?` any more, because they would become patterns: {address}."
        in process.stderr
    )
    with contextlib.closing(sqlite3.connect(database)) as connection:
        columns = {name for _, name, *_ in connection.execute("PRAGMA table_info(grants_usergrant)")}
    assert "content_object_id" in columns and "pattern_id" not in columns


@pytest.mark.django_db
def test_the_migrations_match_the_models():
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)


def test_the_journal_of_an_old_database_verifies(report):
    # one line for the account that `createsuperuser` added, and the seal
    assert (report["revision"], report["break"]) == (31, None)


def test_the_tables_of_an_old_database_agree_with_its_journal(report):
    assert report["verification"] == ["The tables contain what it says."] * 2


def test_grants_of_an_old_database_have_the_containers_of_their_entities(report):
    assert report["misplaced"] == "None"


def test_an_old_database_exports_the_same_bytes(report):
    assert report["exported"] == (CASES / "previous_version.jsonl").read_text(encoding="utf-8")


def test_the_active_generation_of_an_old_database_is_kept(report):
    assert report["generation"] == "existing"


def test_a_token_of_an_old_database_gets_decisions(report):
    assert report["tokens"] == [
        ["nightly sync", "decide read", False, "root"],
        ["old", "decide", True, "root"],
    ]
    assert report["is_permitted"] == [True, False]


def test_plans_of_an_old_database_are_read_and_applied(report):
    assert report["plans"] == [
        ["applied", [["grant", "user:zoë", "namespace:hr", "ADMIN", False]]],
        [
            "proposed",
            [
                ["grant", "user:alice", "dataset:sales.new", "READ", False],
                ["revoke", "user:zoë", "namespace:sales", "ADMIN", False],
            ],
        ],
    ]
    state, revision, chain_break = report["applied"]
    assert (state, revision > 29, chain_break) == ("applied", True, None)


def test_a_schedule_of_an_old_database_is_kept(report):
    assert report["schedules"] == [["delete-readiness", True, "02:30:00", {"generation": "final"}]]
