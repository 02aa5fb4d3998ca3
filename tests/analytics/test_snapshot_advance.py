"""A snapshot advances by journal lines, and equals a full one."""

import random
import threading
from datetime import timedelta
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from django.db import connection, connections, transaction
from django.utils import timezone
from pyarrow.fs import LocalFileSystem

from analytics.snapshots import advance, stored
from analytics.snapshots import snapshot as snapshots
from analytics.snapshots.snapshot import export_snapshot, lease_snapshot
from analytics.tables import EXTRA_TABLES, SNAPSHOT_TABLES
from entities.models import Entity
from grants.changes import write_period_lines
from grants.journal import Author, JournalEntry, append_to_journal, lock_journal
from grants.models import JournalLine, UserGrant
from grants.validity import Validity, at_time
from tests.support.changes import (
    add_group,
    add_member,
    add_user,
    change_grants,
    delete_entity,
    register_entity,
    remove_user,
    set_user_active,
)
from tests.support.random_histories import begin_history, change_at_random
from tests.support.random_tenants import seeds
from tests.support.tenant_documents import entity, import_lines

pytestmark = pytest.mark.django_db(transaction=True)

ENTITIES = 40


@pytest.fixture(autouse=True)
def storage(settings, tmp_path, monkeypatch):
    settings.SNAPSHOT_URI = str(tmp_path / "snapshots")
    monkeypatch.setattr(advance, "LEAST_ENTITIES_PER_PART", 4)
    # ids go on after those of other tests
    monkeypatch.setattr(advance, "PARTS", 1_000_000)
    return tmp_path


@pytest.fixture
def tenant():
    add_user("ada")
    import_lines(*(entity(f"namespace:n{number:02}", "live") for number in range(ENTITIES)))
    change_grants(grant=[("user:ada", f"namespace:n{number:02}", "READ") for number in range(ENTITIES)])


def rows(snapshot, table):
    read = ds.dataset(f"{snapshot.path}/{table.name}", format="parquet").to_table().to_pylist()
    return sorted(read, key=str)


def take(*, extra_tables=()):
    with lease_snapshot(extra_tables=extra_tables) as taken:
        return taken


def inodes(snapshot):
    return {path.stat().st_ino for path in Path(snapshot.path).rglob("*.parquet")}


def reused(first, second):
    """Return how many files of the second snapshot are those of the first one."""
    return len(inodes(first) & inodes(second))


def write_period_lines_until(at, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("grants.changes.period_lines.timezone.now", lambda: at)
        write_period_lines()


def check_equals_full(snapshot, folder, *, tables=SNAPSHOT_TABLES):
    with at_time(snapshot.at):
        full = export_snapshot(str(folder))
    assert full.revision == snapshot.revision
    for table in tables:
        assert rows(snapshot, table) == rows(full, table), table.name


@pytest.mark.parametrize("seed", seeds(range(2)))
def test_after_each_random_change_the_snapshot_equals_a_full_one(seed, storage, monkeypatch):
    dice = random.Random(seed)
    begin_history(dice)
    before, most_reused = take(), 0
    for number in range(8):
        change_at_random(dice)
        # periods begin and end an hour or two later
        with at_time(timezone.now() + timedelta(minutes=15 * number)) as at:
            if dice.random() < 0.5:
                write_period_lines_until(at, monkeypatch)
            extra_tables = EXTRA_TABLES if number % 4 == 3 else ()
            snapshot = take(extra_tables=extra_tables)
            check_equals_full(snapshot, storage / str(number), tables=(*SNAPSHOT_TABLES, *extra_tables))
        if snapshot.path != before.path:
            most_reused = max(most_reused, reused(before, snapshot))
        before = snapshot
    assert most_reused


def test_one_changed_grant_rewrites_its_part_and_leaves_the_older_snapshot_as_it_was(tenant, storage):
    first = take()
    change_grants(revoke=[("user:ada", "namespace:n20", "READ")])
    second = take()
    unchanged = {path for path in Path(first.path).glob("[eg]*s/part*") if path.parent.name != "groups"}
    assert len(unchanged) > 20 and reused(first, second) == len(unchanged) - 2
    check_equals_full(second, storage / "full")
    assert len(rows(first, stored.SNAPSHOT_TABLES[5])) == ENTITIES
    assert take().path == second.path, "the advanced snapshot has a valid manifest"


def test_a_period_that_ends_changes_the_snapshot_without_a_journal_line(tenant, storage):
    end = timezone.now().replace(microsecond=0) + timedelta(hours=1)
    change_grants(grant=[("user:ada", "namespace:n07", "WRITE", Validity(None, end))])
    first = take()
    with at_time(end):
        second = take()
        assert second.revision == first.revision and reused(first, second)
        check_equals_full(second, storage / "full")
    with at_time(end - timedelta(minutes=1)):
        assert take().path == first.path


def test_the_period_line_of_a_membership_reuses_all_parts_of_entities_and_grants(
    tenant, storage, monkeypatch
):
    add_group("team")
    end = timezone.now().replace(microsecond=0) + timedelta(hours=1)
    add_member("ada", "team", Validity(None, end))
    change_grants(grant=[("group:team", "namespace:n07", "WRITE")])
    write_period_lines()
    first = take()
    with at_time(end):
        write_period_lines_until(end, monkeypatch)
        line = JournalLine.objects.latest("revision")
        assert (line.action, line.entity) == ("expire", "")
        second = take()
        assert second.revision > first.revision and reused(first, second) > 20
        check_equals_full(second, storage / "full")


def test_a_change_of_a_user_reuses_all_parts_of_entities_and_grants(tenant, storage):
    first = take()
    set_user_active("ada", active=False)
    second = take()
    assert reused(first, second) > 20
    check_equals_full(second, storage / "full")


def test_a_removed_address_that_gets_another_id_is_not_in_the_snapshot_twice(tenant, storage):
    with transaction.atomic():
        change_grants(grant=[("user:ada", "namespace:planned", "READ")])
    change_grants(revoke=[("user:ada", "namespace:planned", "READ")])
    first, before = take(), Entity.objects.get(key="planned").pk
    delete_entity("namespace:planned")
    for number in range(5):
        register_entity(f"namespace:new{number}")
    register_entity("namespace:planned")
    assert Entity.objects.get(key="planned").pk != before
    second = take()
    assert not reused(first, second)
    check_equals_full(second, storage / "full")


def append_lines(*actions):
    with transaction.atomic():
        append_to_journal(lock_journal(), map(JournalEntry, actions), author=Author("test"))


def replace_line_of_base():
    append_lines("describe-nothing")
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE grants_journalline SET action = 'plan-apply' WHERE action = 'describe-nothing'"
        )
        cursor.execute(
            "UPDATE grants_journalline SET hash = 'other' WHERE revision < (SELECT max(revision) FROM grants_journalline)"
        )


FULL = {
    "unknown action": lambda: append_lines("unknown"),
    "seal": lambda: append_lines("seal"),
    "many lines": lambda: append_lines(*["plan-apply"] * 1_001),
    "replaced journal": replace_line_of_base,
    "many changed parts": lambda: change_grants(
        grant=[("user:ada", f"namespace:n{number:02}", "WRITE") for number in range(ENTITIES)]
    ),
}


@pytest.mark.parametrize("change", FULL)
def test_lines_that_do_not_say_what_changed_need_a_full_snapshot(change, tenant, storage, monkeypatch):
    monkeypatch.setattr(advance, "MOST_CHANGED_PARTS", 4)
    first = take()
    FULL[change]()
    second = take()
    assert second.revision > first.revision and not reused(first, second)
    check_equals_full(second, storage / "full")


def test_a_snapshot_of_another_schema_version_is_not_advanced(tenant, storage, monkeypatch):
    first = take()
    monkeypatch.setattr(snapshots, "SCHEMA_VERSION", "2-other")
    set_user_active("ada", active=False)
    assert not reused(first, take())


def test_a_damaged_snapshot_is_not_advanced(tenant, storage):
    first = take()
    next(Path(first.path, "grants").iterdir()).unlink()
    set_user_active("ada", active=False)
    second = take()
    assert not reused(first, second)
    check_equals_full(second, storage / "full")


def test_a_storage_without_hard_links_copies_the_unchanged_files(tenant, storage, monkeypatch):
    first = take()
    set_user_active("ada", active=False)

    def refuse(source, target):
        raise OSError("hard links are not supported")

    monkeypatch.setattr("analytics.storage.os.link", refuse)
    second = take()
    assert not reused(first, second)
    copied = {file.path for file in second.files if file.path.startswith("grants/")}
    assert all(Path(first.path, path).read_bytes() == Path(second.path, path).read_bytes() for path in copied)
    check_equals_full(second, storage / "full")
    assert isinstance(second.place.filesystem, LocalFileSystem) and take().path == second.path


@pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite has no lock for it")
def test_of_two_runs_that_advance_a_snapshot_at_once_one_writes_and_the_other_uses_its_result(
    tenant, storage
):
    take()
    change_grants(revoke=[("user:ada", "namespace:n20", "READ")])
    at, barrier, results = timezone.now(), threading.Barrier(3), []

    def run():
        try:
            barrier.wait(timeout=10)
            with at_time(at):
                results.append(take())
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert len(results) == 3 and len({result.path for result in results}) == 1
    names = [path.name for path in Path(results[0].path).parent.iterdir()]
    assert sum(name.startswith(f"revision={results[0].revision:020}") for name in names) == 1


def test_an_entity_without_grants_and_the_last_grant_leave_readable_tables(storage):
    add_user("ada")
    register_entity("namespace:a")
    change_grants(grant=[("user:ada", "namespace:a", "READ")])
    take()
    change_grants(revoke=[("user:ada", "namespace:a", "READ")])
    assert not UserGrant.objects.exists()
    check_equals_full(take(), storage / "none")
    remove_user("ada", revokes_grants=True)
    check_equals_full(take(), storage / "no-users")
