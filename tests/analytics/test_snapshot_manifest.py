"""A snapshot is verified before it is used, so that a damaged one never gives a wrong report."""

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.db import transaction
from django.test import Client
from pyarrow._fs import _MockFileSystem

from analytics import manifests
from analytics.manifests import MANIFEST_NAME
from analytics.models import AnalysisRun
from analytics.snapshots import snapshot, stored
from analytics.snapshots.snapshot import delete_old_snapshots, lease_snapshot
from analytics.storage import StorageError, storage_root
from grants.jobs import run_job
from grants.journal import Author, JournalEntry, append_to_journal, lock_journal
from grants.models import JobState, JournalHead, Role, User
from tests.support.random_tenants import random_tenant, store_tenant

pytestmark = pytest.mark.django_db(transaction=True)

# the numbers of the files of entities and grants depend on the ids in the database
MEMBERSHIPS = Path("memberships", "part-00000.parquet")


@pytest.fixture(autouse=True)
def storage(settings, tmp_path):
    settings.SNAPSHOT_URI = str(tmp_path)
    store_tenant(random_tenant(7))
    return tmp_path


def change_something():
    with transaction.atomic():
        append_to_journal(lock_journal(), [JournalEntry("test")], author=Author("test"))


def take_snapshot():
    with lease_snapshot() as taken:
        return taken


def replace_with_file_of_other_snapshot(path):
    """Replace a file by that of the same name and size from another snapshot of the same console."""
    other = path.with_suffix(".other")
    shutil.copyfile(path, other)
    os.utime(other, ns=(1, 1))
    other.replace(path)


DAMAGE = {
    "deleted": (lambda folder: (folder / MEMBERSHIPS).unlink(), "memberships/part-00000.parquet is missing"),
    "all deleted": (
        lambda folder: shutil.rmtree(folder / "memberships"),
        "memberships/part-00000.parquet is missing",
    ),
    "truncated": (
        lambda folder: os.truncate(folder / MEMBERSHIPS, 100),
        "memberships/part-00000.parquet has 100 bytes instead of",
    ),
    "replaced": (
        lambda folder: replace_with_file_of_other_snapshot(folder / MEMBERSHIPS),
        "memberships/part-00000.parquet was replaced",
    ),
    "added": (
        lambda folder: shutil.copyfile(folder / MEMBERSHIPS, folder / "memberships" / "part-00001.parquet"),
        "memberships/part-00001.parquet was added",
    ),
    "nested": (
        lambda folder: shutil.copytree(folder / "users", folder / "memberships" / "_x=1"),
        "memberships/_x=1/part-00000.parquet was added",
    ),
    "manifest edited": (
        lambda folder: edit_manifest(folder, b'"revision":0', b'"revision":1'),
        "its manifest was changed outside the console",
    ),
    "manifest cut off": (lambda folder: os.truncate(folder / MANIFEST_NAME, 3), "its manifest is damaged"),
    "manifest without signature": (
        lambda folder: (folder / MANIFEST_NAME).write_bytes(b"{}\n{}"),
        "its manifest is not signed",
    ),
}


def edit_manifest(folder, old, new):
    path = folder / MANIFEST_NAME
    assert old in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(old, new))


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_snapshot_is_replaced_by_a_new_one_and_the_run_says_so(damage, caplog):
    first, (apply_damage, fault) = take_snapshot(), DAMAGE[damage]
    apply_damage(Path(first.path))
    second = take_snapshot()
    assert second.path != first.path and second.replaced_fault.startswith(fault) and fault in caplog.text
    assert take_snapshot().path == second.path, "the damaged snapshot is not verified again"


def test_a_snapshot_without_a_manifest_is_incomplete():
    first = take_snapshot()
    (Path(first.path) / MANIFEST_NAME).unlink()
    assert take_snapshot().path != first.path


def test_a_snapshot_of_another_schema_version_is_not_used(monkeypatch):
    first = take_snapshot()
    monkeypatch.setattr(snapshot, "SCHEMA_VERSION", "2-other")
    second = take_snapshot()
    assert (
        second.path != first.path
        and second.replaced_fault == "it was written by another version of the console"
    )


def test_a_snapshot_under_the_name_of_another_one_is_not_used():
    first = take_snapshot()
    shutil.copytree(first.path, f"{first.path[:-8]}00000000")
    shutil.rmtree(first.path)
    second = take_snapshot()
    assert second.replaced_fault == f"its manifest belongs to {Path(first.path).name}"


def test_without_a_journal_key_no_stored_snapshot_is_used(settings):
    first = take_snapshot()
    settings.JOURNAL_KEYS = []
    assert take_snapshot().path != first.path
    assert (Path(first.path) / MANIFEST_NAME).exists()


def test_a_snapshot_that_changes_while_it_is_read_fails_the_run():
    with (
        pytest.raises(StorageError, match="changed outside the console while it was read"),
        lease_snapshot() as taken,
    ):
        (Path(taken.path) / MEMBERSHIPS).unlink()
    assert take_snapshot().path != taken.path


@pytest.mark.spark
@pytest.mark.slow
def test_after_the_deletion_of_all_memberships_the_next_report_is_the_same(spark, storage):
    def run_visibility():
        run = AnalysisRun.objects.create(type="visibility", options={"generation": "final"})
        run_job(run.pk)
        run.refresh_from_db()
        assert run.state == JobState.DONE, run.error
        return run

    first = run_visibility()
    assert first.summary["users_who_see_something"] > 0
    for path in storage.glob("*/revision=*/memberships/*"):
        path.unlink()
    second = run_visibility()
    assert second.summary["snapshot_fault"] == "memberships/part-00000.parquet is missing"
    assert all(second.summary[name] == figure for name, figure in first.summary.items() if name != "at")
    client = Client()
    client.force_login(User.objects.create_user("ada", role=Role.ADMINISTRATOR, is_principal=False))
    assert (
        "An earlier snapshot of this revision was damaged"
        in client.get(f"/analyses/{second.pk}/").content.decode()
    )


def test_a_cleaner_between_choosing_and_leasing_does_not_fail_the_run(monkeypatch):
    first, create_lease = take_snapshot(), snapshot._create_lease

    def clean_and_create_lease(filesystem, path):
        if path == first.path:
            shutil.rmtree(path)
        return create_lease(filesystem, path)

    monkeypatch.setattr(snapshot, "_create_lease", clean_and_create_lease)
    second = take_snapshot()
    assert second.path != first.path and second.replaced_fault == ""


def test_a_cleaner_that_notices_a_new_lease_keeps_the_files(monkeypatch, storage):
    first = take_snapshot()
    change_something()
    take_snapshot()
    invalidate = snapshot._invalidate

    def lease_and_invalidate(filesystem, path):
        snapshot._create_lease(filesystem, path)
        invalidate(filesystem, path)

    monkeypatch.setattr(snapshot, "_invalidate", lease_and_invalidate)
    filesystem, _ = storage_root()
    snapshot._delete_snapshot(filesystem, first.path, is_complete=True)
    assert (Path(first.path) / MEMBERSHIPS).exists()
    delete_old_snapshots(filesystem, str(Path(first.path).parent))
    assert (Path(first.path) / MEMBERSHIPS).exists()


def test_snapshots_of_other_file_systems_are_verified_too():
    """An object store has paths without a slash at the beginning."""
    files = _MockFileSystem()
    files.create_dir("bucket/id/revision=1/users")
    with files.open_output_stream("bucket/id/revision=1/users/part-00000.parquet") as file:
        file.write(b"rows")
    written = snapshot.write_snapshot_manifest(
        files,
        "bucket/id/revision=1",
        JournalHead(revision=1),
        ["users/part-00000.parquet"],
        datetime.now(UTC),
        entities_per_part=1,
    )
    assert stored.files_of(snapshot.verified_manifest(files, "bucket/id/revision=1", 1)) == written
    files.delete_file("bucket/id/revision=1/users/part-00000.parquet")
    with pytest.raises(manifests.ManifestError, match="users/part-00000.parquet is missing"):
        snapshot.verified_manifest(files, "bucket/id/revision=1", 1)
