"""Test the order and form of an exported tenant document, and that importing it and exporting again gives the
same bytes.
"""

import io
import json
import os
import threading

import pytest
from django.contrib.auth.models import Group
from django.core.management import CommandError, call_command
from django.db import connection

from entities.models import Entity
from grants.models import User
from grants.tenant import export_document as exporting
from grants.tenant.export_document import tenant_lines
from tests.support.random_tenants import random_tenant, store_tenant
from tests.support.tenant_documents import (
    ODD_NAMES,
    empty_database,
    entity,
    export_bytes,
    export_lines,
    grant,
    group,
    import_lines,
    random_lines,
    user,
)

pytestmark = pytest.mark.django_db


def bytes_after_reimport(content: bytes) -> bytes:
    empty_database()
    import_lines(content)
    return export_bytes()


@pytest.mark.parametrize("seed", range(20))
def test_export_import_export_gives_the_same_bytes_and_a_second_import_changes_nothing(seed):
    import_lines(*random_lines(seed))
    first = export_bytes()
    assert bytes_after_reimport(first) == first and not import_lines(first).changes


@pytest.mark.parametrize("seed", range(10))
def test_a_tenant_created_in_the_console_is_exported_to_the_same_bytes_after_an_import(seed):
    store_tenant(random_tenant(seed, has_roles=True))
    first = export_bytes()
    assert bytes_after_reimport(first) == first


def test_the_lines_have_exactly_this_form():
    import_lines(
        entity("namespace:a", description='Über "uns"'),
        entity("dataset:a.x", "deleted"),
        user("ada", email="a@example.com"),
        user("bob", active=False),
        group("g", "bob", "ada"),
        group("empty"),
        grant("user:ada", "dataset:a.x", "ADMIN", "EXECUTE", "WRITE", "READ", reason="why"),
        grant("group:g", "stream:a.s", "READ"),
    )
    assert export_bytes().decode().splitlines() == [
        '{"type":"entity","id":"dataset:a.x","state":"deleted"}',
        '{"type":"entity","id":"instance:cdap","state":"live"}',
        '{"type":"entity","id":"namespace:a","state":"live","description":"Über \\"uns\\""}',
        '{"type":"entity","id":"stream:a.s","state":"planned"}',
        '{"type":"user","name":"ada","active":true,"email":"a@example.com"}',
        '{"type":"user","name":"bob","active":false}',
        '{"type":"group","name":"empty","members":[]}',
        '{"type":"group","name":"g","members":["ada","bob"]}',
        '{"type":"grant","principal":"group:g","entity":"stream:a.s","privileges":["READ"]}',
        '{"type":"grant","principal":"user:ada","entity":"dataset:a.x","privileges":["READ","WRITE","EXECUTE","ADMIN"],'
        '"reason":"why"}',
    ]


def test_lines_of_a_type_are_ordered_by_their_bytes():
    addresses = [
        "dataset:a.x",
        "dataset:a.X",
        "dataset:a._",
        "dataset:a.x-1",
        "dataset:a.x.1",
        "dataset:a.x$1",
        "dataset_type:a.x",
        "kerberosprincipal:é",
        "kerberosprincipal:z",
        "kerberosprincipal:😀",
        "kerberosprincipal:\uffe6",
    ]
    import_lines(
        *map(entity, addresses),
        *map(user, ODD_NAMES),
        *map(group, ODD_NAMES),
        group("all", *reversed(ODD_NAMES)),
        *(grant(f"user:{name}", address, "READ") for name in ODD_NAMES for address in addresses),
    )
    lines = export_lines()
    for kind, members in {
        "entity": ["id"],
        "user": ["name"],
        "group": ["name"],
        "grant": ["principal", "entity"],
    }.items():
        written = [[line[member].encode() for member in members] for line in lines if line["type"] == kind]
        assert written == sorted(written) and len(written) >= 10
    everybody = next(line["members"] for line in lines if line["type"] == "group" and line["name"] == "all")
    assert [name.encode() for name in everybody] == sorted(name.encode() for name in ODD_NAMES)


def test_an_account_that_is_not_a_principal_is_not_exported():
    root = User.objects.create_user("root", is_principal=False)
    Group.objects.create(name="g").user_set.add(root)
    assert export_lines() == [{"type": "group", "name": "g", "members": []}]


def test_an_empty_console_exports_nothing():
    assert export_bytes() == b""


def test_the_number_of_queries_does_not_grow_with_the_lines(django_assert_max_num_queries):
    import_lines(*random_lines(1), *(user(f"u{n}") for n in range(300)))
    with django_assert_max_num_queries(10):
        export_bytes()


@pytest.mark.django_db(transaction=True)
def test_an_export_reads_one_revision_and_does_not_block_writers():
    import_lines(entity("namespace:a"), user("ada"))
    lines = tenant_lines()
    first = next(lines)
    writer = threading.Thread(target=_write_and_close_connection)
    writer.start()
    writer.join(timeout=10)
    assert not writer.is_alive()
    assert [json.loads(line).get("name", "") for line in [first, *lines]] == ["", "", "ada"]
    assert [line.get("name", "") for line in export_lines()] == ["", "", "ada", "bob"]


def _write_and_close_connection():
    import_lines(user("bob"))
    connection.close()


def test_the_command_replaces_the_file_atomically(tmp_path, monkeypatch, capsys):
    import_lines(entity("namespace:a"))
    file = tmp_path / "tenant.jsonl"
    call_command("export_tenant", str(file))
    assert file.read_bytes() == export_bytes()
    assert "2 lines written to" in capsys.readouterr().out

    def breaks():
        yield {"type": "entity"}
        raise RuntimeError("the disk is full")

    monkeypatch.setattr(exporting, "_LINE_TYPES", (breaks,))
    with pytest.raises(RuntimeError):
        call_command("export_tenant", str(file))
    assert b"namespace:a" in file.read_bytes()
    assert os.listdir(tmp_path) == ["tenant.jsonl"]


@pytest.mark.parametrize(
    "name, reason", [("", "is a directory"), ("missing/tenant.jsonl", "No such file or directory")]
)
def test_a_path_that_cannot_be_written_is_named(tmp_path, name, reason):
    with pytest.raises(CommandError, match=reason):
        call_command("export_tenant", str(tmp_path / name))


@pytest.mark.parametrize("arguments", [[], ["-"]])
def test_the_command_writes_to_the_standard_output(arguments):
    import_lines(entity("namespace:a", description="Café"))
    text, binary = io.StringIO(), io.BytesIO()
    call_command("export_tenant", *arguments, stdout=text)
    terminal = io.TextIOWrapper(binary, "ascii")
    call_command("export_tenant", *arguments, stdout=terminal)
    assert text.getvalue().encode() == binary.getvalue() == export_bytes()


def test_a_reader_that_closes_the_pipe_is_no_error():
    Entity.objects.bulk_create(
        Entity(kind="kerberosprincipal", key=f"p{n}", description="x" * 1000) for n in range(500)
    )
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as stdout:
        call_command("export_tenant", stdout=stdout)


def test_unicode_line_breaks_are_escaped():
    import_lines(
        user("a\u2028b"),
        grant("user:a\u2028b", "dataset:sales.orders", "READ", reason="one\u2029two\x85three"),
    )
    before = export_bytes()
    assert len(before.decode().splitlines()) == before.count(b"\n")
    empty_database()
    import_lines(before)
    assert export_bytes() == before
