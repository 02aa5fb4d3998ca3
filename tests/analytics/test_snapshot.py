"""Snapshots: one revision, reused, cleaned up, and never read while incomplete."""

import threading
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from django.db import connection, connections, transaction
from django.test.utils import CaptureQueriesContext

from analytics.analyses import ANALYSES
from analytics.models import StorageIdentity
from analytics.snapshots import snapshot as snapshots
from analytics.snapshots.snapshot import lease_snapshot
from analytics.storage import storage
from analytics.storage_identity import storage_identity
from analytics.tables import (
    ENTITIES,
    GRANTS,
    GROUPS,
    GUARDRAIL_TABLES,
    GUARDRAILS,
    INACTIVE_USERS,
    MEMBERSHIPS,
    SNAPSHOT_TABLES,
    UNEXPECTED,
    USERS,
)
from entities.models import Entity
from grants.journal import Author, JournalEntry, append_to_journal, lock_journal
from grants.models import User, UserGrant
from grants.policies.times import format_time
from grants.querysets import effective_memberships
from grants.validity import in_force
from tests.support.guardrails import add_guardrail
from tests.support.random_tenants import random_tenant, random_timed_tenant, store_tenant

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def folder(settings, tmp_path):
    settings.SNAPSHOT_URI = str(tmp_path / "snapshots")
    return tmp_path / "snapshots"


def rows(snapshot, table):
    return ds.dataset(f"{snapshot.path}/{table.name}", format="parquet").to_table().to_pylist()


def change_something():
    with transaction.atomic():
        append_to_journal(lock_journal(), [JournalEntry("test")], author=Author("test"))


def snapshot_names(folder):
    return sorted(path.name for path in (folder / storage_identity()).iterdir())


def test_the_snapshot_of_an_empty_tenant_has_tables_without_rows():
    with lease_snapshot() as snapshot:
        assert snapshot.revision == 0
        for table in SNAPSHOT_TABLES:
            assert rows(snapshot, table) == []


def test_a_snapshot_contains_only_active_principals():
    tenant = random_tenant(7)
    store_tenant(tenant)
    with lease_snapshot() as snapshot:
        entities = {row["id"]: f"{row['kind']}:{row['key']}" for row in rows(snapshot, ENTITIES)}
        users = {row["id"]: row["name"] for row in rows(snapshot, USERS)}
        groups = {row["id"]: row["name"] for row in rows(snapshot, GROUPS)}
        states = {entities[row["id"]]: row["state"] for row in rows(snapshot, ENTITIES)}
        assert states == {str(address): state for address, state in tenant.entities.items()}
        assert set(users.values()) == {name for name, facts in tenant.users.items() if facts == (True, True)}
        assert set(groups.values()) == set(tenant.groups)
        members = {(groups[row["group_id"]], users[row["user_id"]]) for row in rows(snapshot, MEMBERSHIPS)}
        assert members == {(g, u) for g, names in tenant.groups.items() for u in names if u in users.values()}
        names = {("user", pk): name for pk, name in User.objects.values_list("pk", "username")} | {
            ("group", pk): name for pk, name in groups.items()
        }
        grants = {
            (
                f"{r['principal_type']}:{names[r['principal_type'], r['principal_id']]}",
                entities[r["entity_id"]],
                r["privilege"],
            )
            for r in rows(snapshot, GRANTS)
        }
        assert grants == {
            (principal, str(address), privilege) for principal, address, privilege in tenant.grants
        }


def test_a_snapshot_has_the_times_of_grants_and_memberships_and_inactive_users():
    timed = random_timed_tenant(3)
    store_tenant(timed.tenant, timed.periods)
    UserGrant.objects.update(granted_at=datetime(2026, 3, 1, 23, 59, 59, 999_999, tzinfo=UTC))
    with lease_snapshot() as snapshot:
        grants = {
            (row["principal_id"], row["entity_id"], row["privilege"]): (
                row["granted_at"],
                row["valid_until"] or "",
            )
            for row in rows(snapshot, GRANTS)
            if row["principal_type"] == "user"
        }
        assert grants == {
            (grant.user_id, grant.content_object_id, grant.privilege): (
                "2026-03-01T23:59:59Z",
                format_time(grant.valid_until),
            )
            for grant in UserGrant.objects.filter(**in_force())
        }
        members = {
            (row["user_id"], row["group_id"]): row["valid_until"] or "" for row in rows(snapshot, MEMBERSHIPS)
        }
        assert members == {
            (member.user_id, member.group_id): format_time(member.valid_until)
            for member in effective_memberships()
        }
        assert {end for _, end in grants.values()} | set(members.values()) > {""}
        inactive = {name for name, standing in timed.tenant.users.items() if standing == (False, True)}
        assert {row["name"] for row in rows(snapshot, INACTIVE_USERS)} == inactive


def test_a_snapshot_has_one_revision_and_does_not_block_concurrent_writes(monkeypatch):
    store_tenant(random_tenant(1))
    entities, users = Entity.objects.count(), User.objects.count()
    counts_after_write = []

    def write_in_other_thread():
        change_something()
        Entity.objects.create(kind="namespace", key="late")
        User.objects.create(username="late")
        counts_after_write.append(Entity.objects.count())
        connections.close_all()

    def write_once():
        if not counts_after_write:
            thread = threading.Thread(target=write_in_other_thread)
            thread.start()
            thread.join(timeout=10)
            assert not thread.is_alive(), "the snapshot blocks a writer"

    with lease_snapshot(check=write_once) as snapshot:
        assert counts_after_write == [entities + 1]
        assert snapshot.revision == 0
        assert len(rows(snapshot, ENTITIES)) == entities
        assert "late" not in {row["name"] for row in rows(snapshot, USERS)}
    assert User.objects.count() == users + 1


def test_the_isolation_level_is_restored_after_a_snapshot():
    with lease_snapshot():
        pass
    with transaction.atomic():
        User.objects.create(username="written after")
    connection = connections["default"]
    if connection.vendor == "sqlite":
        assert connection.transaction_mode == "IMMEDIATE"


def test_large_tables_are_written_as_several_files(monkeypatch):
    monkeypatch.setattr("analytics.snapshots.snapshot.ROWS_PER_GROUP", 10)
    monkeypatch.setattr("analytics.snapshots.snapshot.ROWS_PER_FILE", 20)
    User.objects.bulk_create(User(username=f"user {number}") for number in range(45))
    with lease_snapshot() as snapshot:
        files = ds.dataset(f"{snapshot.path}/users", format="parquet").files
        assert len(files) == 3
        assert {row["name"] for row in rows(snapshot, USERS)} == {f"user {number}" for number in range(45)}


def test_a_snapshot_is_reused_until_the_revision_changes():
    with lease_snapshot() as first, lease_snapshot() as again:
        assert again == first
    change_something()
    with lease_snapshot() as newer:
        assert newer.path != first.path and newer.revision == 1


def test_only_a_snapshot_for_the_analysis_of_guardrails_evaluates_them():
    add_guardrail("two-admins", {"require": {"privilege": "ADMIN", "on": "kind:namespace", "at_least": 2}})
    with CaptureQueriesContext(connection) as queries, lease_snapshot() as ordinary:
        assert not Path(ordinary.path, GUARDRAILS.name).exists()
    assert not any("guardrail" in query["sql"] for query in queries)
    with lease_snapshot(extra_tables=GUARDRAIL_TABLES) as snapshot:
        assert [row["guardrail"] for row in rows(snapshot, GUARDRAILS)] == ["two-admins"]
        assert rows(snapshot, UNEXPECTED) == []


@pytest.mark.parametrize("name", [name for name, analysis in ANALYSES.items() if analysis.extra_tables])
def test_a_snapshot_with_extra_tables_is_not_one_without_them(name):
    with lease_snapshot() as ordinary, lease_snapshot(extra_tables=ANALYSES[name].extra_tables) as larger:
        for table in ANALYSES[name].extra_tables:
            assert not Path(ordinary.path, table.name).exists()
            assert Path(larger.path, table.name).is_dir()


def test_a_different_journal_at_the_same_revision_needs_a_new_snapshot():
    change_something()
    with lease_snapshot() as first:
        pass
    with transaction.atomic():
        head = lock_journal()
    head.hash = "f" * 64
    head.save()
    with lease_snapshot() as second:
        assert second.revision == first.revision and second.path != first.path


def test_a_failed_snapshot_leaves_no_files(folder):
    User.objects.create(username="another")

    class Ended(Exception):
        pass

    def end():
        raise Ended

    with pytest.raises(Ended), lease_snapshot(check=end):
        pass
    assert snapshot_names(folder) == []


def test_the_latest_snapshots_are_kept_and_older_ones_removed(settings, folder):
    settings.SNAPSHOTS_KEPT = 2
    paths = []
    for _ in range(4):
        change_something()
        with lease_snapshot() as snapshot:
            paths.append(snapshot.path)
    assert snapshot_names(folder) == [path.rpartition("/")[2] for path in paths[-2:]]


def test_a_snapshot_in_use_is_not_removed(settings, folder):
    settings.SNAPSHOTS_KEPT = 1
    with lease_snapshot() as first:
        for _ in range(3):
            change_something()
            with lease_snapshot():
                pass
        assert rows(first, USERS) == []
    with lease_snapshot() as newest:
        assert snapshot_names(folder) == [newest.path.rpartition("/")[2]]


def test_an_unfinished_snapshot_is_removed_only_after_its_writer_must_have_ended(monkeypatch, folder):
    unfinished = folder / storage_identity() / "revision=00000000000000000000-000000000000-aaaaaaaa"
    (unfinished / "entities").mkdir(parents=True)
    (unfinished / "entities" / "part-00000.parquet").write_bytes(b"half")
    with lease_snapshot():
        assert unfinished.exists()
    monkeypatch.setattr(snapshots, "ABANDONED_AFTER", timedelta(seconds=-60))
    with lease_snapshot():
        assert not unfinished.exists()


@pytest.mark.parametrize("location", ["{path}", "{path}/", "file://{path}", "file://{path}/"])
def test_a_path_and_a_uri_name_the_same_folder(settings, tmp_path, location):
    settings.SNAPSHOT_URI = location.format(path=tmp_path)
    assert storage().child("a/b").spark_uri == f"file://{tmp_path}/a/b"


def test_consoles_with_different_identities_do_not_touch_each_others_snapshots(settings, folder):
    settings.SNAPSHOTS_KEPT = 1
    with lease_snapshot() as first:
        pass
    StorageIdentity.objects.update(value=uuid.uuid4())
    for _ in range(2):
        with lease_snapshot() as second:
            assert Path(second.path).parent != Path(first.path).parent
        change_something()
    assert Path(first.path).is_dir()
