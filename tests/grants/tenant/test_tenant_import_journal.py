"""Test the journal lines of an import, its transaction and its dry run."""

import pytest

from entities.models import Entity
from grants.journal import current_revision, first_break
from grants.models import User
from grants.tenant import report
from grants.tenant.reading import BadTenantDocument
from tests.support.tenant_documents import (
    EXAMPLE,
    entity,
    export_bytes,
    grant,
    group,
    import_lines,
    journal_entries,
    user,
)

pytestmark = pytest.mark.django_db


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

    monkeypatch.setattr(report, "append_to_journal", fails)
    with pytest.raises(RuntimeError):
        import_lines(*EXAMPLE)
    assert not Entity.objects.exists() and not User.objects.exists() and current_revision() == 0


# Dry runs.


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
