"""The restricted role of PostgreSQL can add journal lines, but not change them."""

import io

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction

from entities.address import parse_address
from grants.journal import Author, first_break
from grants.models import JournalLine
from grants.principals.services import add_user
from tests.support.changes import change_grants

pytestmark = pytest.mark.django_db
ROLE = "console test role"


def test_sqlite_has_no_roles():
    if connection.vendor != "sqlite":
        pytest.skip("for SQLite")
    with pytest.raises(CommandError, match="only PostgreSQL has roles"):
        call_command("restrict_database_role", ROLE)


@pytest.fixture
def role_cursor():
    if connection.vendor != "postgresql":
        pytest.skip("for PostgreSQL")
    add_user(author=Author("the tests"), name="alice")
    for _ in range(2):
        call_command("restrict_database_role", ROLE, stdout=io.StringIO())
    with connection.cursor() as cursor:
        cursor.execute(f'SET LOCAL ROLE "{ROLE}"')
        yield cursor
        cursor.execute("RESET ROLE")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE grants_journalline SET actor = 'x'",
        "DELETE FROM grants_journalline",
        "TRUNCATE grants_journalline",
        "DELETE FROM grants_journalhead",
        "TRUNCATE grants_journalhead",
        "DROP TABLE grants_journalline",
        "ALTER TABLE grants_journalline DISABLE TRIGGER ALL",
        "DELETE FROM django_migrations",
    ],
)
def test_the_attack_the_role_cannot_change_journal_lines(role_cursor, statement):
    with pytest.raises(DatabaseError), transaction.atomic():
        role_cursor.execute(statement)
    assert JournalLine.objects.count() == 1


def test_the_console_works_with_the_role(role_cursor):
    change_grants(
        author=Author("the tests"), grant=[("user:alice", parse_address("dataset:sales.orders"), "READ")]
    )
    assert JournalLine.objects.count() == 5 and first_break() is None


# tables with fewer rights than SELECT, INSERT, UPDATE and DELETE; each needs a line in the command
FEWER_RIGHTS = {
    "grants_journalline": {"SELECT", "INSERT"},
    "grants_journalhead": {"SELECT", "INSERT", "UPDATE"},
    "django_migrations": {"SELECT"},
}
ALL_RIGHTS = {"SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER"}
USUAL_RIGHTS = {"SELECT", "INSERT", "UPDATE", "DELETE"}


def test_the_role_has_the_rights_on_every_table_of_all_apps_and_no_others(role_cursor):
    role_cursor.execute(
        "SELECT tablename, privilege FROM pg_tables, unnest(%s::text[]) AS privilege WHERE schemaname = 'public' "
        "AND has_table_privilege(%s, quote_ident(tablename), privilege)",
        [sorted(ALL_RIGHTS), ROLE],
    )
    rights = {}
    for table, privilege in role_cursor.fetchall():
        rights.setdefault(table, set()).add(privilege)
    tables = {
        model._meta.db_table
        for model in apps.get_models(include_auto_created=True)
        if model._meta.managed and not model._meta.proxy
    }
    assert tables - rights.keys() == set()
    assert rights == {table: FEWER_RIGHTS.get(table, USUAL_RIGHTS) for table in rights}


def test_the_role_may_use_every_sequence(role_cursor):
    role_cursor.execute(
        "SELECT sequencename FROM pg_sequences WHERE schemaname = 'public' "
        "AND NOT has_sequence_privilege(%s, quote_ident(sequencename), 'USAGE')",
        [ROLE],
    )
    assert role_cursor.fetchall() == []


def test_the_role_may_create_temporary_views_and_nothing_else(role_cursor):
    role_cursor.execute("CREATE TEMPORARY VIEW past AS SELECT * FROM grants_journalline")
    role_cursor.execute("SELECT count(*) FROM past")
    assert role_cursor.fetchone() == (1,)
    for statement in ("CREATE TABLE more (id int)", "CREATE VIEW more AS SELECT 1"):
        with pytest.raises(DatabaseError), transaction.atomic():
            role_cursor.execute(statement)
