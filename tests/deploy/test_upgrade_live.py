"""The database of the released version is upgraded while that version still answers reads.

The released code comes from the history of the repository. The test suite uses 10,000 entities on PostgreSQL,
where migrations lock tables; `make upgrade-check` uses 100,000 on SQLite, or on the database of DATABASE_URL.
"""

import json
import os
import subprocess
import sys
import time
from urllib.parse import urlsplit

import pytest
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from tests.deploy.conftest import ROOT, clean_environment

# version 1.1.0
RELEASED = "b258694d"
ENTITIES = int(os.environ.get("UPGRADE_ENTITIES", "10000"))
OWN_APPS = ("analytics", "authzconsole", "entities", "grants")

# Both scripts run in the released code.
PREPARE = """
import sys, django
django.setup()
from django.core.management import call_command
call_command("migrate", verbosity=0)
from authzconsole.management.commands.bootstrap import DEMO_TENANT, create_first_administrator
create_first_administrator()
call_command("import_tenant", str(DEMO_TENANT), stdout=sys.stderr)
from entities.models import Entity
namespace = Entity.objects.get(kind="namespace", key="sales")
Entity.objects.bulk_create([Entity(kind="dataset", key=f"sales.bulk{number}", parent=namespace, namespace=namespace)
                            for number in range(int(sys.argv[1]))], batch_size=5000)
call_command("create_token", "admin", "--scope", "decide", "--scope", "read", stdout=sys.stdout)
"""
READ = """
import json, sys, time, django
from pathlib import Path
django.setup()
from django.test import Client
client = Client(headers={"Authorization": "Bearer " + sys.argv[1]}, raise_request_exception=False)
question = {"subject": {"type": "user", "id": "sofia.lindqvist"}, "action": {"name": "get"},
            "resource": {"type": "namespace", "id": "logistics"}}
results, stop = [], Path(sys.argv[2])
while not stop.exists():
    for send in (lambda: client.post("/access/v1/evaluation", question, content_type="application/json"),
                 lambda: client.get("/api/v1/entities?kind=dataset&limit=1"), lambda: client.get("/healthz")):
        start = time.monotonic()
        status = send().status_code
        results.append((status, time.monotonic() - start, time.time()))
    Path(sys.argv[2] + ".ready").touch()
print(json.dumps(results))
"""


def test_the_migrations_of_each_app_are_linear():
    """Two migrations with the same number, or a merge, would apply in another order elsewhere."""
    loader = MigrationLoader(None, ignore_no_migrations=True)
    for app in OWN_APPS:
        names = sorted(name for label, name in loader.disk_migrations if label == app)
        assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1)), names
        assert loader.graph.leaf_nodes(app) == [(app, names[-1])]
        for before, name in zip(names, names[1:], strict=False):
            own = [parent for label, parent in loader.disk_migrations[app, name].dependencies if label == app]
            assert before in own and len(own) == 1, (name, own)


@pytest.fixture
def released_code(tmp_path):
    if connection.vendor == "sqlite" and "UPGRADE_ENTITIES" not in os.environ:
        pytest.skip("for PostgreSQL, and for make upgrade-check")
    command = [
        "git",
        "archive",
        RELEASED,
        "entities",
        "grants",
        "analytics",
        "authzconsole",
        "templates",
        "manage.py",
    ]
    archive = subprocess.run(command, cwd=ROOT, capture_output=True)
    if archive.returncode != 0:
        pytest.skip(f"the history of this clone does not contain {RELEASED}")
    folder = tmp_path / "released"
    folder.mkdir()
    subprocess.run(["tar", "-x"], input=archive.stdout, cwd=folder, check=True)
    return folder


@pytest.fixture
def database(tmp_path):
    if connection.vendor == "sqlite":
        yield f"sqlite:///{tmp_path / 'state' / 'console.sqlite3'}"
        return
    with connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE console_upgraded")
    yield urlsplit(os.environ["DATABASE_URL"])._replace(path="/console_upgraded").geturl()
    with connection.cursor() as cursor:
        cursor.execute("DROP DATABASE console_upgraded WITH (FORCE)")


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_the_released_version_answers_reads_during_the_upgrade(tmp_path, released_code, database):
    environment = clean_environment() | {
        "DATABASE_URL": database,
        "STATE_DIR": str(tmp_path / "state"),
        "DJANGO_SETTINGS_MODULE": "authzconsole.settings",
        "ALLOWED_HOSTS": "testserver",
        "PYTHONPATH": str(released_code),
    }

    def start_released(script, *arguments):
        return subprocess.Popen(
            [sys.executable, "-c", script, *arguments],
            cwd=released_code,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    prepare = start_released(PREPARE, str(ENTITIES))
    output, errors = prepare.communicate()
    assert prepare.returncode == 0, errors
    stop = tmp_path / "stop"
    reader = start_released(READ, output.split()[-1], str(stop))
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "stop.ready").exists():
            assert reader.poll() is None and time.monotonic() < deadline, reader.communicate()
            time.sleep(0.05)
        start = time.time()
        upgrade = subprocess.run(
            [sys.executable, "manage.py", "migrate", "--noinput"],
            cwd=ROOT,
            env=environment | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
        )
        end = time.time()
        time.sleep(0.3)
    finally:
        stop.touch()
        read, errors = reader.communicate()
    assert upgrade.returncode == 0, upgrade.stderr
    results = json.loads(read.splitlines()[-1])
    assert {status for status, _, _ in results} == {200}, errors
    during = [seconds for _, seconds, at in results if start <= at <= end]
    assert len(during) > 20 and max(during) < 5
    assert results[-1][2] > end
    check = subprocess.run(
        [sys.executable, "manage.py", "verify_journal", "--chain-only"],
        cwd=ROOT,
        env=environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert check.returncode == 0, check.stderr
