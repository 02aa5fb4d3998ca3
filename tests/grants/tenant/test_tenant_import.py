"""Importing a tenant document: what it writes, what it leaves alone, and what it refuses."""

import io
import json
import random
import sys
import time
import tomllib
from pathlib import Path

import pytest
from django.contrib.auth.models import Group
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from entities.models import Entity, State
from grants.journal import Author, current_revision, first_break
from grants.models import JournalLine, Role, User
from grants.principals.services import add_user
from grants.tenant import import_document as importing
from grants.tenant.faults import BadTenantDocument
from grants.tenant.reading import LONGEST_LINE_BYTES
from grants.tenant.report import (
    ENTITIES_ADDED,
    ENTITIES_CHANGED,
    GRANTS_ADDED,
    MEMBERS_ADDED,
    MEMBERS_REMOVED,
    USERS_ADDED,
    USERS_CHANGED,
)
from tests.support.tenant_documents import (
    AUTHOR,
    document,
    empty_console,
    entity,
    exported,
    exported_lines,
    grant,
    group,
    imported,
    random_lines,
    user,
)

pytestmark = pytest.mark.django_db

CASES = tomllib.loads((Path(__file__).parents[2] / "cases" / "tenant_bad_lines.toml").read_text())["case"]

EXAMPLE = [
    entity("namespace:sales", "live", description="Orders"),
    user("alice", active=True, email="alice@example.com"),
    user("bob"),
    group("analysts", "alice", "bob"),
    grant("user:alice", "dataset:sales.orders", "READ", "WRITE", reason="quarterly close"),
]


def states() -> dict[str, str]:
    return {str(row): row.state for row in Entity.objects.all()}


def refused(*lines) -> BadTenantDocument:
    """The refusal of a document, of which nothing was written."""
    before = (exported(), current_revision())
    with pytest.raises(BadTenantDocument) as refusal:
        imported(*lines)
    assert (exported(), current_revision()) == before
    return refusal.value


def actions(since: int = 0) -> list[tuple]:
    rows = JournalLine.objects.filter(revision__gt=since)
    return list(rows.values_list("action", "principal", "entity", "privilege", "detail", "reason"))


# what is written

def test_the_example_becomes_entities_people_and_grants():
    report = imported(*EXAMPLE)
    assert states() == {"instance:cdap": "live", "namespace:sales": "live", "dataset:sales.orders": "planned"}
    assert [line["principal"] for line in exported_lines() if line["type"] == "grant"] == ["user:alice"]
    assert (report.total(ENTITIES_ADDED), report.total(USERS_ADDED), report.total(MEMBERS_ADDED), report.total(GRANTS_ADDED)) \
        == (3, 2, 2, 2)
    assert report.revision == current_revision()


def test_a_second_import_changes_nothing_and_adds_no_line():
    imported(*EXAMPLE)
    before = (exported(), current_revision())
    report = imported(*EXAMPLE)
    assert (exported(), current_revision()) == before
    assert not report.changes and "nothing changed" in str(report)
    assert dict(report.unchanged) == {"entities": 1, "users": 2, "groups": 1, "members": 2, "grants": 2}


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_the_lines_does_not_matter(seed):
    lines = [line for line in random_lines(seed) if line["type"] != "grant"]
    lines += [grant("user:extra", "dataset:extra.x", "READ"), user("extra"), entity("application:extra.app")]
    imported(*lines)
    first = exported()
    empty_console()
    random.Random(seed).shuffle(lines)
    imported(*lines)
    assert exported() == first


@pytest.mark.parametrize("seed", range(5))
def test_every_row_points_at_what_contains_it(seed):
    imported(*random_lines(seed))
    rows = {str(row): row for row in Entity.objects.all()}
    for row in rows.values():
        pointed = [row.parent_id, row.namespace_id, row.application_id]
        containers = [row.address.parent, row.address.namespace, row.address.application]
        assert pointed == [place and rows[str(place)].pk for place in containers], row


def test_a_byte_order_mark_windows_line_ends_and_blank_lines_are_read_over():
    text = "\r\n\r\n".join(json.dumps(line) for line in EXAMPLE)
    report = imported(b"\xef\xbb\xbf" + text.encode() + b"\r\n   \n")
    assert report.lines == len(EXAMPLE)


def test_an_empty_document_is_no_error():
    assert "0 lines read: nothing changed" in str(imported(b""))
    assert current_revision() == 0


def test_a_missing_container_is_live_where_something_live_is_listed_in_it():
    imported(entity("program:a.app.spark.p"), entity("program:b.app.spark.p", "planned"), entity("dataset:c.d", "deleted"))
    assert states() == {
        "instance:cdap": "live",
        "namespace:a": "live", "application:a.app": "live", "program:a.app.spark.p": "live",
        "namespace:b": "planned", "application:b.app": "planned", "program:b.app.spark.p": "planned",
        "namespace:c": "planned", "dataset:c.d": "deleted",
    }


def test_a_live_program_makes_its_namespace_live_past_a_planned_application():
    imported(entity("application:a.app", "planned"), entity("program:a.app.spark.p"))
    assert states()["namespace:a"] == "live" and states()["application:a.app"] == "planned"


def test_what_is_only_granted_on_is_planned_unless_it_holds_something_live():
    imported(user("ada"), grant("user:ada", "namespace:a", "READ"), grant("user:ada", "namespace:b", "READ"),
             entity("stream:b.s"))
    assert states() == {"instance:cdap": "live", "namespace:a": "planned", "namespace:b": "live", "stream:b.s": "live"}


def test_a_deleted_address_that_is_not_listed_stays_deleted_whatever_is_in_it():
    imported(entity("namespace:a", "deleted", description="old"), entity("application:a.app", "planned"))
    imported(user("ada"), entity("program:a.app.spark.p"), grant("user:ada", "namespace:a", "READ"))
    assert (states()["namespace:a"], states()["application:a.app"]) == ("deleted", "live")
    assert Entity.objects.get(kind="namespace").description == "old"


def test_listed_states_are_taken_as_they_are_and_grants_stay():
    imported(*EXAMPLE, entity("dataset:sales.orders", "deleted"))
    assert states()["dataset:sales.orders"] == "deleted"
    assert exported_lines()[-1]["privileges"] == ["READ", "WRITE"]


def test_a_live_child_of_a_deleted_parent_is_accepted_with_a_warning():
    report = imported(entity("namespace:old", "deleted"), entity("dataset:old.a"), entity("dataset:old.b"))
    assert report.warnings == ["`namespace:old` is deleted and holds 2 live entities"]
    assert "warning: `namespace:old` is deleted" in str(report)


def test_deleting_a_parent_warns_of_the_live_children_that_are_not_listed():
    imported(entity("dataset:old.a"))
    assert imported(entity("namespace:old", "deleted")).warnings == ["`namespace:old` is deleted and holds 1 live entity"]


def test_absent_members_leave_what_is_there():
    imported(entity("namespace:a", "planned", description="text"), user("ada", active=False, email="a@example.com"),
             group("g", "ada"))
    imported(entity("namespace:a"), user("ada"), {"type": "group", "name": "g"})
    ada = User.objects.get(username="ada")
    row = Entity.objects.get(kind="namespace")
    assert (row.state, row.description, ada.is_active, ada.email) == ("live", "text", False, "a@example.com")
    assert list(Group.objects.get(name="g").user_set.all()) == [ada]


def test_listed_members_replace_the_members():
    imported(user("ada"), user("bob"), user("eve"), group("g", "ada", "bob"))
    before = current_revision()
    report = imported(group("g", "eve", "bob"))
    assert set(Group.objects.get(name="g").user_set.values_list("username", flat=True)) == {"bob", "eve"}
    assert (report.total(MEMBERS_ADDED), report.total(MEMBERS_REMOVED)) == (1, 1)
    assert [line[:2] + line[4:5] for line in actions(before)] == [("member-add", "user:eve", "group:g"),
                                                                ("member-remove", "user:ada", "group:g")]


def test_an_empty_list_of_members_empties_the_group():
    imported(user("ada"), group("g", "ada"))
    imported(group("g"))
    assert not Group.objects.get(name="g").user_set.exists()


def test_a_grant_line_adds_privileges_and_removes_none():
    imported(*EXAMPLE)
    report = imported(grant("user:alice", "dataset:sales.orders", "READ", "ADMIN", reason="more"))
    assert [(line["privileges"], line["reason"]) for line in exported_lines() if line["type"] == "grant"] \
        == [(["ADMIN"], "more"), (["READ", "WRITE"], "quarterly close")]
    assert (report.total(GRANTS_ADDED), report.unchanged["grants"]) == (1, 1)


def test_two_lines_about_the_same_grant_are_merged_and_the_first_reason_counts():
    report = imported(user("ada"), grant("user:ada", "namespace:a", "READ", "READ", reason="first"),
                      grant("user:ada", "namespace:a", "READ", "WRITE", reason="second"))
    assert [(line["privileges"], line["reason"]) for line in exported_lines() if line["type"] == "grant"] \
        == [(["READ"], "first"), (["WRITE"], "second")]
    assert report.total(GRANTS_ADDED) == 2


def test_the_kind_of_an_address_may_be_in_capitals_but_is_the_same_entity():
    assert refused(entity("DataSet:a.b"), entity("dataset:a.b")).faults[0].reason == "it is listed twice: first on line 1"
    imported(entity("DataSet:a.b"))
    assert "dataset:a.b" in states()


# accounts

def test_an_imported_user_is_an_ordinary_principal_without_a_password():
    imported(user("ada"))
    ada = User.objects.get()
    assert (ada.role, ada.is_principal, ada.is_active) == (Role.ORDINARY, True, True)
    assert not (ada.is_superuser or ada.is_staff)
    assert not ada.has_usable_password()


def test_an_import_never_changes_the_role_or_the_password_of_an_account():
    root = User.objects.create_user("root", password="secret", role=Role.ADMINISTRATOR, is_principal=False)
    report = imported(user("root", email="root@example.com"))
    after = User.objects.get()
    assert (after.role, after.password, after.email, after.is_principal) == (root.role, root.password, "root@example.com", True)
    assert report.total(USERS_CHANGED) == 1
    assert [line[:2] for line in actions()] == [("user-change", "user:root"), ("principal-add", "user:root")]


@pytest.mark.parametrize("line", [grant("user:root", "namespace:a", "READ"), group("g", "root")])
def test_an_account_of_the_console_that_is_only_named_becomes_a_principal(line):
    User.objects.create_user("root", is_principal=False, is_active=False, email="root@example.com")
    imported(line)
    root = User.objects.get()
    assert (root.is_principal, root.is_active, root.email) == (True, False, "root@example.com")


def test_an_administrator_only_may_import():
    someone = User.objects.create_user("someone", role=Role.AUDITOR)
    with pytest.raises(ValueError, match="not an active administrator"):
        importing.import_tenant(stream=io.BytesIO(document(*EXAMPLE)), author=Author("someone", user_id=someone.pk))
    assert not Entity.objects.exists()


# the journal

def test_every_change_has_a_line_and_the_chain_holds():
    imported(*EXAMPLE)
    assert actions() == [
        ("register", "", "instance:cdap", "", "live", "test"),
        ("register", "", "namespace:sales", "", "live", "test"),
        ("plan", "", "dataset:sales.orders", "", "planned", "test"),
        ("user-add", "user:alice", "", "", "", "test"),
        ("user-add", "user:bob", "", "", "", "test"),
        ("group-add", "group:analysts", "", "", "", "test"),
        ("member-add", "user:alice", "", "", "group:analysts", "test"),
        ("member-add", "user:bob", "", "", "group:analysts", "test"),
        ("grant", "user:alice", "dataset:sales.orders", "READ", "", "quarterly close"),
        ("grant", "user:alice", "dataset:sales.orders", "WRITE", "", "quarterly close"),
    ]
    assert first_break() is None


def test_changes_of_what_is_there_have_their_lines():
    imported(*EXAMPLE)
    before = current_revision()
    imported(entity("namespace:sales", "deleted", description="Sold"), entity("dataset:sales.orders"),
             user("bob", active=False, email="bob@example.com"))
    assert [line[:-1] for line in actions(before)] == [
        ("delete", "", "namespace:sales", "", "deleted"),
        ("describe", "", "namespace:sales", "", "Sold"),
        ("register", "", "dataset:sales.orders", "", "live"),
        ("user-change", "user:bob", "", "", "active: false, email: bob@example.com"),
    ]
    assert first_break() is None


def test_a_failure_in_the_middle_leaves_nothing(monkeypatch):
    def fails(*args, **options):
        if Entity.objects.exists() and User.objects.exists():
            raise RuntimeError("the disk is full")

    monkeypatch.setattr(importing, "append_to_journal", fails)
    with pytest.raises(RuntimeError):
        imported(*EXAMPLE)
    assert not Entity.objects.exists() and not User.objects.exists() and current_revision() == 0


# the dry run

def test_a_dry_run_reports_what_the_import_will_do_and_writes_nothing():
    imported(entity("namespace:a"), user("ada"), group("g", "ada"))
    lines = [*EXAMPLE, entity("namespace:a", "deleted"), group("g"), user("ada", active=False), entity("dataset:a.b")]
    before = (exported(), current_revision())
    planned = imported(*lines, dry_run=True)
    assert (exported(), current_revision()) == before
    done = imported(*lines)
    assert (planned.changes, planned.unchanged, planned.warnings) == (done.changes, done.unchanged, done.warnings)
    assert "nothing written" in str(planned) and "would be members removed: 1" in str(planned)


def test_a_dry_run_finds_the_bad_lines_too():
    with pytest.raises(BadTenantDocument):
        imported(grant("user:stranger", "namespace:a", "READ"), dry_run=True)


# what is refused

@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_bad_line_is_refused_with_its_number_its_field_and_the_reason(case):
    refusal = refused(user("ada"), "", case["line"], entity("namespace:fine"))
    (fault,) = refusal.faults
    assert (fault.line, fault.field) == (3, case["field"])
    assert case["reason"] in fault.reason
    assert str(refusal).endswith("1 bad line; nothing was written")


@pytest.mark.parametrize("content, reason", [
    (b'{"type":"user","name":"b\xe9atrice"}', "byte 25 is not UTF-8"),
    ('{"type":"user","name":"ada"}'.encode("utf-16"), "byte 1 is not UTF-8"),
    (b"[" * 100_000, "it is nested too deeply"),
    (b'{"type":' * 100_000, "it is nested too deeply"),
    (b'{"type":"user","name":' + b"7" * 5_000 + b"}", "it holds a number with too many digits"),
    (b'{"type":"user","name":"' + b"n" * 10_000_000 + b'"}', "it is longer than 8 MB"),
    (b"n" * (LONGEST_LINE_BYTES + 1), "it is longer than 8 MB"),
], ids=["latin-1", "utf-16", "brackets", "braces", "digits", "ten-megabytes", "one-byte-too-long"])
def test_bytes_that_are_no_line_are_refused(content, reason):
    refusal = refused(b'{"type":"user","name":"bob"}\n' + content + b'\n{"type":"user"}\n')
    assert (refusal.faults[0].line, refusal.faults[0].reason) == (2, reason)
    assert "line 3" in str(refusal)


def test_a_line_as_long_as_allowed_is_read():
    line = b'{"type":"user","name":"bob"}'
    assert imported(line.ljust(LONGEST_LINE_BYTES) + b"\n").lines == 1


def test_an_endless_line_is_never_held_in_memory():
    class Endless:
        pieces = 100

        def readline(self, size):
            assert 0 < size <= LONGEST_LINE_BYTES + 1
            self.pieces -= 1
            return b"n" * size if self.pieces > 0 else b"n\n" if self.pieces == 0 else b""

    with pytest.raises(BadTenantDocument, match="line 1: it is longer than 8 MB"):
        importing.import_tenant(stream=Endless(), author=AUTHOR)


def test_every_fault_of_a_line_is_named():
    refusal = refused({"type": "grant", "principal": "ada", "entity": "x", "privileges": [], "reason": 1, "why": 2})
    assert [fault.field for fault in refusal.faults] == ["entity", "principal", "privileges", "reason", "why"]
    assert refusal.bad_lines == 1


def test_all_bad_lines_count_and_the_first_hundred_are_shown():
    strangers = [grant(f"user:stranger{n}", "namespace:a", "READ") for n in range(70)]
    broken = [user("") for _ in range(70)]
    lines = [line for pair in zip(strangers, broken, strict=True) for line in pair]
    refusal = refused(user("ada"), *lines)
    assert [fault.line for fault in refusal.faults] == list(range(2, 102))
    assert refusal.bad_lines == 140
    assert str(refusal).splitlines()[-2:] == ["and 40 more bad lines", "140 bad lines; nothing was written"]


def test_who_stands_on_a_bad_line_is_not_reported_as_unknown_elsewhere():
    refusal = refused(user("ada", active="yes"), {"type": "group", "name": "g", "members": 1},
                      grant("user:ada", "namespace:a", "READ"), grant("group:g", "namespace:a", "READ"), group("h", "ada"))
    assert [fault.line for fault in refusal.faults] == [1, 2]


@pytest.mark.parametrize("first, second", [
    (entity("namespace:a"), entity("namespace:a")),
    (entity("namespace:a"), entity("namespace:a", "deleted")),
    (user("ada"), user("ada", active=False)),
    (group("g"), group("g")),
])
def test_an_entity_a_user_or_a_group_stands_on_one_line_only(first, second):
    (fault,) = refused(first, user("other"), second).faults
    assert (fault.line, fault.reason) == (3, "it is listed twice: first on line 1")


def test_what_is_quoted_in_a_message_is_short_and_printable():
    (fault,) = refused(entity("data\x1b[31m\ud800set:" + "x" * 10_000)).faults
    assert "surrogate" in fault.reason
    (fault,) = refused({"type": "user", "name": "ada", "\x1b[31m" + "x" * 10_000: 1}).faults
    assert len(str(fault)) < 300 and str(fault).isprintable()


# the command

def test_the_command_loads_a_file_and_says_what_changed(tmp_path, capsys):
    file = tmp_path / "tenant.jsonl"
    file.write_bytes(document(*EXAMPLE))
    call_command("import_tenant", str(file), "--dry-run")
    assert "would be entities added: 3 (1 live instance, 1 live namespace, 1 planned dataset)" in capsys.readouterr().out
    assert not Entity.objects.exists()
    call_command("import_tenant", str(file))
    assert "grants added: 2 (1 READ, 1 WRITE)" in capsys.readouterr().out
    assert set(JournalLine.objects.values_list("actor", flat=True)) == {"import_tenant"}


def test_the_command_reads_the_standard_input(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(document(*EXAMPLE))))
    call_command("import_tenant", "-")
    assert "5 lines read" in capsys.readouterr().out
    assert User.objects.count() == 2


def test_the_command_ends_with_an_error_and_every_bad_line(tmp_path):
    file = tmp_path / "tenant.jsonl"
    file.write_bytes(document(user("ada"), user(""), grant("user:ada", "x", "READ")))
    with pytest.raises(CommandError) as refusal:
        call_command("import_tenant", str(file))
    assert refusal.value.returncode == 1
    assert str(refusal.value).splitlines()[0] == "line 2: `name`: the name is empty"
    assert not User.objects.exists()


@pytest.mark.parametrize("name, reason", [("missing.jsonl", "No such file"), ("", "Is a directory"), ("a\0b", "cannot be read")])
def test_a_file_that_cannot_be_read_is_named(tmp_path, name, reason):
    with pytest.raises(CommandError, match=reason):
        call_command("import_tenant", str(tmp_path / name) if "\0" not in name else name)


# size

def _big(lines: int) -> list[dict]:
    dice = random.Random(lines)
    users = [f"user{n}" for n in range(lines // 20)]
    namespaces = [f"ns{n}" for n in range(max(1, lines // 1000))]
    applications = [f"{dice.choice(namespaces)}.app{n}" for n in range(lines // 40)]
    entities = [f"namespace:{name}" for name in namespaces] + [f"application:{key}" for key in applications]
    entities += [f"program:{dice.choice(applications)}.spark.p{n}" for n in range(lines // 5)]
    entities += [f"dataset:{dice.choice(namespaces)}.d{n}" for n in range(lines * 4 // 10 - len(entities))]
    document = [entity(address, dice.choice(State.values), description="some words about it") for address in entities]
    document += [user(name, active=dice.random() < 0.95, email=f"{name}@example.com") for name in users]
    document += [group(f"group{n}", *dice.sample(users, min(len(users), 60))) for n in range(150)]
    principals = [f"user:{name}" for name in users] + [f"group:group{n}" for n in range(150)]
    document += [grant(dice.choice(principals), dice.choice(entities), *dice.sample(["READ", "WRITE", "EXECUTE", "ADMIN"],
                 dice.randint(1, 3)), reason=f"ticket {n % 500}") for n in range(lines - len(document))]
    return document


def test_the_number_of_queries_does_not_grow_with_the_lines_of_a_chunk():
    counts = []
    for lines in (400, 1_600):
        empty_console()
        with CaptureQueriesContext(connection) as queries:
            imported(*_big(lines))
        # the journal has chunks of its own size, and only a large import ends with telling the planner
        counts.append(sum("grants_journalline" not in query["sql"] and "ANALYZE" not in query["sql"] for query in queries))
    assert counts[0] == counts[1]


@pytest.mark.slow
def test_a_hundred_thousand_lines_load_with_under_thirty_seconds_of_work():
    """Of this process: how long it waits for a core is up to the tests beside it."""
    content = document(*_big(100_000))
    start = time.process_time()
    assert imported(content).lines == 100_000
    assert time.process_time() - start < 30
    start = time.process_time()
    assert not imported(content).changes
    assert exported().count(b"\n") > 100_000 * 0.99
    assert time.process_time() - start < 30
    assert first_break() is None


def test_a_document_cannot_switch_off_the_last_administrator():
    add_user(author=AUTHOR, name="ada", role=Role.ADMINISTRATOR)
    with pytest.raises(BadTenantDocument) as refused:
        imported(entity("namespace:sales"), user("ada", active=False))
    (fault,) = refused.value.faults
    assert (fault.line, fault.field) == (2, "active") and "no other would stay active" in fault.reason
    assert not Entity.objects.exists()
    add_user(author=AUTHOR, name="bea", role=Role.ADMINISTRATOR)
    imported(user("ada", active=False))
    assert not User.objects.get(username="ada").is_active


def test_a_line_with_faults_of_two_sorts_is_one_bad_line():
    with pytest.raises(BadTenantDocument) as refused:
        imported(group("analysts", "nobody", "nobody"), user("ada", active="yes"))
    assert refused.value.bad_lines == len({fault.line for fault in refused.value.faults})


def test_a_planned_container_lives_when_a_later_document_lists_something_live_in_it():
    imported(user("bob"), grant("user:bob", "namespace:a", "READ"))
    report = imported(entity("dataset:a.x", "live"))
    assert {str(e): e.state for e in Entity.objects.all()} == {
        "instance:cdap": "live", "namespace:a": "live", "dataset:a.x": "live"}
    assert report.total(ENTITIES_CHANGED) == 2
    assert not imported(entity("dataset:a.x", "live")).changes
    imported(entity("namespace:a", "deleted"))
    assert imported(entity("dataset:a.y")).warnings
    assert Entity.objects.get(kind="namespace").state == "deleted"


def test_a_grant_that_stands_twice_is_told_and_the_order_of_the_lines_decides_nothing():
    lines = [grant("user:bob", "dataset:a.x", "READ", reason="B"), grant("user:bob", "dataset:a.x", "READ", reason="A")]
    exports = []
    for order in (lines, lines[::-1]):
        report = imported(user("bob"), *order)
        (warning,) = report.warnings
        assert warning == "line 3 grants READ on `dataset:a.x` to `user:bob` again, as line 2 does"
        exports.append(exported())
        empty_console()
    assert exports[0] == exports[1] and b'"reason":"A"' in exports[0]
