"""Test the command `import_tenant`, and queries and time of large imports."""

import io
import random
import sys
import time

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from entities.models import Entity, State
from grants.journal import first_break
from grants.models import JournalLine, User
from tests.support.tenant_documents import (
    EXAMPLE,
    document,
    empty_database,
    entity,
    export_bytes,
    grant,
    group,
    import_lines,
    user,
)

pytestmark = pytest.mark.django_db


def test_the_command_imports_a_file_and_reports_the_changes(tmp_path, capsys):
    file = tmp_path / "tenant.jsonl"
    file.write_bytes(document(*EXAMPLE))
    call_command("import_tenant", str(file), "--dry-run")
    assert (
        "would be entities added: 3 (1 live instance, 1 live namespace, 1 planned dataset)"
        in capsys.readouterr().out
    )
    assert not Entity.objects.exists()
    call_command("import_tenant", str(file))
    assert "grants added: 2 (1 READ, 1 WRITE)" in capsys.readouterr().out
    assert set(JournalLine.objects.values_list("actor", flat=True)) == {"import_tenant"}


def test_the_command_reads_the_standard_input(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(document(*EXAMPLE))))
    call_command("import_tenant", "-")
    assert "5 lines read" in capsys.readouterr().out
    assert User.objects.count() == 2


def test_the_command_fails_and_reports_every_bad_line(tmp_path):
    file = tmp_path / "tenant.jsonl"
    file.write_bytes(document(user("ada"), user(""), grant("user:ada", "x", "READ")))
    with pytest.raises(CommandError) as refusal:
        call_command("import_tenant", str(file))
    assert refusal.value.returncode == 1
    assert str(refusal.value).splitlines()[0] == "line 2: `name`: the name is empty"
    assert not User.objects.exists()


@pytest.mark.parametrize(
    "name, reason", [("missing.jsonl", "No such file"), ("", "Is a directory"), ("a\0b", "cannot be read")]
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, name, reason):
    with pytest.raises(CommandError, match=reason):
        call_command("import_tenant", str(tmp_path / name) if "\0" not in name else name)


def _big(lines: int) -> list[dict]:
    dice = random.Random(lines)
    users = [f"user{n}" for n in range(lines // 20)]
    namespaces = [f"ns{n}" for n in range(max(1, lines // 1000))]
    applications = [f"{dice.choice(namespaces)}.app{n}" for n in range(lines // 40)]
    entities = [f"namespace:{name}" for name in namespaces] + [f"application:{key}" for key in applications]
    entities += [f"program:{dice.choice(applications)}.spark.p{n}" for n in range(lines // 5)]
    entities += [f"dataset:{dice.choice(namespaces)}.d{n}" for n in range(lines * 4 // 10 - len(entities))]
    document = [
        entity(address, dice.choice(State.values), description="some words about it") for address in entities
    ]
    document += [user(name, active=dice.random() < 0.95, email=f"{name}@example.com") for name in users]
    document += [group(f"group{n}", *dice.sample(users, min(len(users), 60))) for n in range(150)]
    principals = [f"user:{name}" for name in users] + [f"group:group{n}" for n in range(150)]
    document += [
        grant(
            dice.choice(principals),
            dice.choice(entities),
            *dice.sample(["READ", "WRITE", "EXECUTE", "ADMIN"], dice.randint(1, 3)),
            reason=f"ticket {n % 500}",
        )
        for n in range(lines - len(document))
    ]
    return document


def test_the_number_of_queries_does_not_grow_with_the_lines_of_a_chunk():
    counts = []
    for lines in (400, 1_600):
        empty_database()
        with CaptureQueriesContext(connection) as queries:
            import_lines(*_big(lines))
        # The journal has another chunk size, and only a large import refreshes the statistics of the planner.
        counts.append(
            sum(
                "grants_journalline" not in query["sql"] and "ANALYZE" not in query["sql"]
                for query in queries
            )
        )
    # users are inserted in parts, because a statement of SQLite has a limited number of parameters
    assert counts[1] <= counts[0] + 3


@pytest.mark.slow
@pytest.mark.skipif(
    connection.vendor != "postgresql", reason="the work is mostly that of Python: once is enough"
)
def test_a_hundred_thousand_lines_load_with_under_thirty_seconds_of_work():
    """Measure CPU time of this process, because other tests run on the same machine."""
    content = document(*_big(100_000))
    start = time.process_time()
    assert import_lines(content).lines == 100_000
    assert time.process_time() - start < 30
    start = time.process_time()
    assert not import_lines(content).changes
    assert export_bytes().count(b"\n") > 100_000 * 0.99
    assert time.process_time() - start < 30
    assert first_break() is None
