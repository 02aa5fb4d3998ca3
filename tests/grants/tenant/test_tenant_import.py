"""Test what an import writes and what it does not change, its effect on accounts, its journal lines and its dry
run."""

import io
import json
import random

import pytest
from django.contrib.auth.models import Group

from entities.models import Entity
from grants.journal import Author, current_revision, first_break
from grants.models import Role, User
from grants.tenant.import_document import import_tenant
from grants.tenant.reading import BadTenantDocument
from grants.tenant.report import Counted
from tests.support.authors import account, entity_states
from tests.support.changes import add_user
from tests.support.tenant_documents import (
    EXAMPLE,
    document,
    empty_database,
    entity,
    export_bytes,
    export_lines,
    grant,
    group,
    import_lines,
    journal_entries,
    random_lines,
    refused_import,
    user,
)

pytestmark = pytest.mark.django_db


def test_the_example_is_imported_as_entities_users_groups_and_grants():
    report = import_lines(*EXAMPLE)
    assert entity_states() == {
        "instance:cdap": "live",
        "namespace:sales": "live",
        "dataset:sales.orders": "planned",
    }
    assert [line["principal"] for line in export_lines() if line["type"] == "grant"] == ["user:alice"]
    assert (
        report.total(Counted.ENTITIES_ADDED),
        report.total(Counted.USERS_ADDED),
        report.total(Counted.MEMBERS_ADDED),
        report.total(Counted.GRANTS_ADDED),
    ) == (3, 2, 2, 2)
    assert report.revision == current_revision()


def test_a_second_import_changes_nothing_and_journals_nothing():
    import_lines(*EXAMPLE)
    before = (export_bytes(), current_revision())
    report = import_lines(*EXAMPLE)
    assert (export_bytes(), current_revision()) == before
    assert not report.changes and "nothing changed" in str(report)
    assert dict(report.unchanged) == {"entities": 1, "users": 2, "groups": 1, "members": 2, "grants": 2}


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_the_lines_does_not_matter(seed):
    lines = [line for line in random_lines(seed) if line["type"] != "grant"]
    lines += [grant("user:extra", "dataset:extra.x", "READ"), user("extra"), entity("application:extra.app")]
    import_lines(*lines)
    first = export_bytes()
    empty_database()
    random.Random(seed).shuffle(lines)
    import_lines(*lines)
    assert export_bytes() == first


@pytest.mark.parametrize("seed", range(5))
def test_every_row_refers_to_its_containers(seed):
    import_lines(*random_lines(seed))
    rows = {str(row): row for row in Entity.objects.all()}
    for row in rows.values():
        pointed = [row.parent_id, row.namespace_id, row.application_id]
        containers = [row.address.parent, row.address.namespace, row.address.application]
        assert pointed == [address and rows[str(address)].pk for address in containers], row


def test_a_byte_order_mark_windows_line_ends_and_blank_lines_are_ignored():
    text = "\r\n\r\n".join(json.dumps(line) for line in EXAMPLE)
    report = import_lines(b"\xef\xbb\xbf" + text.encode() + b"\r\n   \n")
    assert report.lines == len(EXAMPLE)


def test_an_empty_document_is_no_error():
    assert "0 lines read: nothing changed" in str(import_lines(b""))
    assert current_revision() == 0


def test_a_missing_container_becomes_live_if_a_live_entity_inside_is_listed():
    import_lines(
        entity("program:a.app.spark.p"),
        entity("program:b.app.spark.p", "planned"),
        entity("dataset:c.d", "deleted"),
    )
    assert entity_states() == {
        "instance:cdap": "live",
        "namespace:a": "live",
        "application:a.app": "live",
        "program:a.app.spark.p": "live",
        "namespace:b": "planned",
        "application:b.app": "planned",
        "program:b.app.spark.p": "planned",
        "namespace:c": "planned",
        "dataset:c.d": "deleted",
    }


def test_a_live_program_makes_its_namespace_live_past_a_planned_application():
    import_lines(entity("application:a.app", "planned"), entity("program:a.app.spark.p"))
    assert entity_states()["namespace:a"] == "live" and entity_states()["application:a.app"] == "planned"


def test_an_address_with_grants_only_is_planned_unless_a_live_entity_is_inside():
    import_lines(
        user("ada"),
        grant("user:ada", "namespace:a", "READ"),
        grant("user:ada", "namespace:b", "READ"),
        entity("stream:b.s"),
    )
    assert entity_states() == {
        "instance:cdap": "live",
        "namespace:a": "planned",
        "namespace:b": "live",
        "stream:b.s": "live",
    }


def test_a_deleted_address_that_is_not_listed_remains_deleted():
    import_lines(entity("namespace:a", "deleted", description="old"), entity("application:a.app", "planned"))
    import_lines(user("ada"), entity("program:a.app.spark.p"), grant("user:ada", "namespace:a", "READ"))
    assert (entity_states()["namespace:a"], entity_states()["application:a.app"]) == ("deleted", "live")
    assert Entity.objects.get(kind="namespace").description == "old"


def test_listed_states_are_applied_and_grants_remain():
    import_lines(*EXAMPLE, entity("dataset:sales.orders", "deleted"))
    assert entity_states()["dataset:sales.orders"] == "deleted"
    assert export_lines()[-1]["privileges"] == ["READ", "WRITE"]


def test_a_live_child_of_a_deleted_parent_is_accepted_with_a_warning():
    report = import_lines(
        entity("namespace:old", "deleted"), entity("dataset:old.a"), entity("dataset:old.b")
    )
    assert report.warnings == ["`namespace:old` is deleted but contains 2 live entities"]
    assert "warning: `namespace:old` is deleted" in str(report)


def test_deleting_a_parent_warns_of_the_live_children_that_are_not_listed():
    import_lines(entity("dataset:old.a"))
    assert import_lines(entity("namespace:old", "deleted")).warnings == [
        "`namespace:old` is deleted but contains 1 live entity"
    ]


def test_absent_members_do_not_change_stored_values():
    import_lines(
        entity("namespace:a", "planned", description="text"),
        user("ada", active=False, email="a@example.com"),
        group("g", "ada"),
    )
    import_lines(entity("namespace:a"), user("ada"), {"type": "group", "name": "g"})
    ada = account("ada")
    row = Entity.objects.get(kind="namespace")
    assert (row.state, row.description, ada.is_active, ada.email) == ("live", "text", False, "a@example.com")
    assert list(Group.objects.get(name="g").user_set.all()) == [ada]


def test_listed_members_replace_the_members():
    import_lines(user("ada"), user("bob"), user("eve"), group("g", "ada", "bob"))
    before = current_revision()
    report = import_lines(group("g", "eve", "bob"))
    assert set(Group.objects.get(name="g").user_set.values_list("username", flat=True)) == {"bob", "eve"}
    assert (report.total(Counted.MEMBERS_ADDED), report.total(Counted.MEMBERS_REMOVED)) == (1, 1)
    assert [line[:2] + line[4:5] for line in journal_entries(before)] == [
        ("member-add", "user:eve", "group:g"),
        ("member-remove", "user:ada", "group:g"),
    ]


def test_an_empty_list_of_members_empties_the_group():
    import_lines(user("ada"), group("g", "ada"))
    import_lines(group("g"))
    assert not Group.objects.get(name="g").user_set.exists()


def test_a_grant_line_adds_privileges_and_removes_none():
    import_lines(*EXAMPLE)
    report = import_lines(grant("user:alice", "dataset:sales.orders", "READ", "ADMIN", reason="more"))
    assert [(line["privileges"], line["reason"]) for line in export_lines() if line["type"] == "grant"] == [
        (["ADMIN"], "more"),
        (["READ", "WRITE"], "quarterly close"),
    ]
    assert (report.total(Counted.GRANTS_ADDED), report.unchanged["grants"]) == (1, 1)


def test_two_lines_about_the_same_grant_are_merged_with_the_first_reason():
    report = import_lines(
        user("ada"),
        grant("user:ada", "namespace:a", "READ", "READ", reason="first"),
        grant("user:ada", "namespace:a", "READ", "WRITE", reason="second"),
    )
    assert [(line["privileges"], line["reason"]) for line in export_lines() if line["type"] == "grant"] == [
        (["READ"], "first"),
        (["WRITE"], "second"),
    ]
    assert report.total(Counted.GRANTS_ADDED) == 2


def test_the_kind_of_an_address_is_case_insensitive():
    assert (
        refused_import(entity("DataSet:a.b"), entity("dataset:a.b")).faults[0].reason
        == "it is listed twice: first on line 1"
    )
    import_lines(entity("DataSet:a.b"))
    assert "dataset:a.b" in entity_states()


def test_a_planned_container_becomes_live_if_a_later_document_lists_a_live_entity_inside():
    import_lines(user("bob"), grant("user:bob", "namespace:a", "READ"))
    report = import_lines(entity("dataset:a.x", "live"))
    assert {str(e): e.state for e in Entity.objects.all()} == {
        "instance:cdap": "live",
        "namespace:a": "live",
        "dataset:a.x": "live",
    }
    assert report.total(Counted.ENTITIES_CHANGED) == 2
    assert not import_lines(entity("dataset:a.x", "live")).changes
    import_lines(entity("namespace:a", "deleted"))
    assert import_lines(entity("dataset:a.y")).warnings
    assert Entity.objects.get(kind="namespace").state == "deleted"


def test_a_repeated_grant_is_warned_about_and_the_order_of_lines_does_not_matter():
    lines = [
        grant("user:bob", "dataset:a.x", "READ", reason="B"),
        grant("user:bob", "dataset:a.x", "READ", reason="A"),
    ]
    exports = []
    for order in (lines, lines[::-1]):
        report = import_lines(user("bob"), *order)
        (warning,) = report.warnings
        assert warning == "line 3 grants READ on `dataset:a.x` to `user:bob` again, as line 2 does"
        exports.append(export_bytes())
        empty_database()
    assert exports[0] == exports[1] and b'"reason":"A"' in exports[0]


def test_an_imported_user_is_an_ordinary_principal_without_a_password():
    import_lines(user("ada"))
    ada = User.objects.get()
    assert (ada.role, ada.is_principal, ada.is_active) == (Role.ORDINARY, True, True)
    assert not (ada.is_superuser or ada.is_staff)
    assert not ada.has_usable_password()


def test_an_import_never_changes_the_role_or_the_password_of_an_account():
    root = User.objects.create_user("root", password="secret", role=Role.ADMINISTRATOR, is_principal=False)
    report = import_lines(user("root", email="root@example.com"))
    after = User.objects.get()
    assert (after.role, after.password, after.email, after.is_principal) == (
        root.role,
        root.password,
        "root@example.com",
        True,
    )
    assert report.total(Counted.USERS_CHANGED) == 1
    assert [line[:2] for line in journal_entries()] == [
        ("user-change", "user:root"),
        ("principal-add", "user:root"),
    ]


@pytest.mark.parametrize("line", [grant("user:root", "namespace:a", "READ"), group("g", "root")])
def test_an_account_that_a_line_names_becomes_a_principal(line):
    User.objects.create_user("root", is_principal=False, is_active=False, email="root@example.com")
    import_lines(line)
    root = User.objects.get()
    assert (root.is_principal, root.is_active, root.email) == (True, False, "root@example.com")


def test_only_an_administrator_can_import():
    someone = User.objects.create_user("someone", role=Role.AUDITOR)
    with pytest.raises(ValueError, match="not an active administrator"):
        import_tenant(stream=io.BytesIO(document(*EXAMPLE)), author=Author("someone", user_id=someone.pk))
    assert not Entity.objects.exists()


def test_a_document_cannot_deactivate_the_last_administrator():
    add_user("ada", role=Role.ADMINISTRATOR)
    with pytest.raises(BadTenantDocument) as refused:
        import_lines(entity("namespace:sales"), user("ada", active=False))
    (fault,) = refused.value.faults
    assert (fault.line, fault.field) == (2, "active") and "no other would stay active" in fault.reason
    assert not Entity.objects.exists()
    add_user("bea", role=Role.ADMINISTRATOR)
    import_lines(user("ada", active=False))
    assert not account("ada").is_active


def test_every_change_has_a_journal_line_and_the_journal_is_valid():
    import_lines(*EXAMPLE)
    assert journal_entries() == [
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


def test_changes_of_existing_rows_have_journal_lines():
    import_lines(*EXAMPLE)
    before = current_revision()
    import_lines(
        entity("namespace:sales", "deleted", description="Sold"),
        entity("dataset:sales.orders"),
        user("bob", active=False, email="bob@example.com"),
    )
    assert [line[:-1] for line in journal_entries(before)] == [
        ("delete", "", "namespace:sales", "", "deleted"),
        ("describe", "", "namespace:sales", "", "Sold"),
        ("register", "", "dataset:sales.orders", "", "live"),
        ("user-deactivate", "user:bob", "", "", ""),
        ("user-change", "user:bob", "", "", "email: bob@example.com"),
    ]
    assert first_break() is None


def test_a_failure_in_the_middle_writes_nothing(monkeypatch):
    def fails(*args, **options):
        if Entity.objects.exists() and User.objects.exists():
            raise RuntimeError("the disk is full")

    monkeypatch.setattr("grants.tenant.report.append_to_journal", fails)
    with pytest.raises(RuntimeError):
        import_lines(*EXAMPLE)
    assert not Entity.objects.exists() and not User.objects.exists() and current_revision() == 0


def test_a_dry_run_reports_the_changes_and_writes_nothing():
    import_lines(entity("namespace:a"), user("ada"), group("g", "ada"))
    lines = [
        *EXAMPLE,
        entity("namespace:a", "deleted"),
        group("g"),
        user("ada", active=False),
        entity("dataset:a.b"),
    ]
    before = (export_bytes(), current_revision())
    planned = import_lines(*lines, dry_run=True)
    assert (export_bytes(), current_revision()) == before
    done = import_lines(*lines)
    assert (planned.changes, planned.unchanged, planned.warnings) == (
        done.changes,
        done.unchanged,
        done.warnings,
    )
    assert "nothing written" in str(planned) and "would be members removed: 1" in str(planned)


def test_a_dry_run_reports_bad_lines():
    with pytest.raises(BadTenantDocument):
        import_lines(grant("user:stranger", "namespace:a", "READ"), dry_run=True)
