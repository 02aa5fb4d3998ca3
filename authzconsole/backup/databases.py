"""Copy the database into a file while the console runs, and replace the database with such a copy."""

import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from django.db import connection, transaction
from django.db.migrations.loader import MigrationLoader

from authzconsole.backup.archive import BackupError
from authzconsole.ops import machine

_STATE_QUERIES = (
    "SELECT app, name FROM django_migrations ORDER BY app, name",
    "SELECT revision FROM grants_journalhead",
)
# apps of earlier versions: their migrations are still recorded
_FORMER_APPS = {"django_celery_beat"}
_DATA_TABLES = ("grants_journalline", "entities_entity", "grants_user", "grants_usergrant")
# libpq reads these variables, so that no password is in the list of processes. The connection string of psycopg is
# no alternative: its libpq may be newer than that of the programs, which refuse options that they do not know.
_VARIABLES = {
    "dbname": "PGDATABASE",
    "user": "PGUSER",
    "password": "PGPASSWORD",
    "host": "PGHOST",
    "hostaddr": "PGHOSTADDR",
    "port": "PGPORT",
    "sslmode": "PGSSLMODE",
    "sslrootcert": "PGSSLROOTCERT",
    "sslcert": "PGSSLCERT",
    "sslkey": "PGSSLKEY",
    "service": "PGSERVICE",
    "passfile": "PGPASSFILE",
}
# everything in the schema that no extension owns
_DROP_ALL = """
DO $$ DECLARE item record; BEGIN
FOR item IN SELECT format('%I.%I', relnamespace::regnamespace, relname) AS name, CASE relkind WHEN 'v' THEN 'VIEW'
    WHEN 'm' THEN 'MATERIALIZED VIEW' WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS type FROM pg_class
    WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'S')
    AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = pg_class.oid AND deptype = 'e') ORDER BY relkind = 'S'
LOOP EXECUTE format('DROP %s IF EXISTS %s CASCADE', item.type, item.name); END LOOP;
FOR item IN SELECT oid::regprocedure AS name FROM pg_proc WHERE pronamespace = current_schema()::regnamespace
    AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = pg_proc.oid AND deptype = 'e')
LOOP EXECUTE format('DROP ROUTINE IF EXISTS %s CASCADE', item.name); END LOOP;
END $$;
"""


@dataclass(frozen=True)
class DatabaseState:
    """The state of the data in a copy of the database. migrations: the applied ones, as [app, name]."""

    vendor: str
    migrations: list[list[str]]
    revision: int


def dump_database(target: Path) -> DatabaseState:
    """Write a consistent copy of the database into `target` while the console runs.

    Raise BackupError if pg_dump fails.
    """
    return _dump_sqlite(target) if connection.vendor == "sqlite" else _dump_postgresql(target)


def _dump_sqlite(target: Path) -> DatabaseState:
    path = Path(connection.settings_dict["NAME"]).absolute()
    with (
        closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as source,
        closing(sqlite3.connect(target)) as copy,
    ):
        source.backup(copy)
        migrations, revisions = (copy.execute(query).fetchall() for query in _STATE_QUERIES)
    return DatabaseState("sqlite", [list(row) for row in migrations], revisions[0][0] if revisions else 0)


def _dump_postgresql(target: Path) -> DatabaseState:
    # pg_dump reads the same state as the queries
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        results = []
        for query in _STATE_QUERIES:
            cursor.execute(query)
            results.append(cursor.fetchall())
        cursor.execute("SELECT pg_export_snapshot()")
        [snapshot] = cursor.fetchone()
        _run_postgresql(
            "pg_dump",
            "--format=custom",
            "--no-owner",
            "--no-privileges",
            "--no-comments",
            f"--snapshot={snapshot}",
            f"--file={target}",
        )
    migrations, revisions = results
    return DatabaseState("postgresql", [list(row) for row in migrations], revisions[0][0] if revisions else 0)


def _run_postgresql(name: str, *arguments: str) -> None:
    folder = machine.postgresql_folder()
    beside_server = str(folder / name) if folder and (folder / name).is_file() else None
    program = beside_server or shutil.which(name)
    if program is None:
        raise BackupError(
            f"{name} is missing: install the client programs of PostgreSQL (postgresql-client on Debian)"
        )
    parameters = connection.get_connection_params()
    environment = {**os.environ, "PGOPTIONS": "-c lock_timeout=60s"} | {
        variable: str(parameters[option]) for option, variable in _VARIABLES.items() if parameters.get(option)
    }
    done = subprocess.run(
        [program, *arguments], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise BackupError(f"{name} failed: {done.stderr.strip()}")


def check_state(state: DatabaseState) -> None:
    """Raise BackupError unless this version can restore the copy into this database."""
    if state.vendor != connection.vendor:
        raise BackupError(
            f"the backup contains a {state.vendor} database, but DATABASE_URL is {connection.vendor}. Export and "
            "import the tenant to change the database system"
        )
    known = MigrationLoader(None, ignore_no_migrations=True).disk_migrations
    newer = sorted(
        f"{app}.{name}"
        for app, name in state.migrations
        if (app, name) not in known and app not in _FORMER_APPS
    )
    if newer:
        raise BackupError(
            f"the backup was made by a newer version of the console: this version does not have its migrations "
            f"{', '.join(newer[:5])}. Install the version that made the backup"
        )


def is_database_empty() -> bool:
    """Return whether the database has no data of a console; tables without rows are permitted."""
    if connection.vendor == "sqlite" and not Path(connection.settings_dict["NAME"]).exists():
        return True
    tables = set(connection.introspection.table_names())
    with connection.cursor() as cursor:
        for table in tables.intersection(_DATA_TABLES):
            cursor.execute(f"SELECT EXISTS (SELECT 1 FROM {connection.ops.quote_name(table)})")
            if cursor.fetchone()[0]:
                return False
    return True


def replace_database(copy: Path, folder: Path) -> None:
    """Replace the database with a verified copy, in one transaction. Raise BackupError if pg_restore or psql
    fails.

    folder: for temporary files.
    """
    connection.close()
    if connection.vendor == "sqlite":
        with (
            closing(sqlite3.connect(copy)) as source,
            closing(sqlite3.connect(connection.settings_dict["NAME"], timeout=60)) as target,
        ):
            source.backup(target)
        return
    drop, script = folder / "drop.sql", folder / "restore.sql"
    drop.write_text(_DROP_ALL)
    _run_postgresql(
        "pg_restore", "--no-owner", "--no-privileges", "--no-comments", f"--file={script}", str(copy)
    )
    _run_postgresql(
        "psql",
        "--no-psqlrc",
        "--quiet",
        "--single-transaction",
        "--set=ON_ERROR_STOP=1",
        f"--file={drop}",
        f"--file={script}",
    )
