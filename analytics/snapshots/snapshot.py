"""Copy the database to Parquet at one consistent revision.

A snapshot is a folder `<identity>/revision=<20 digits>-<chain>-<token>` with one folder per table. The chain
is the start of a hash that covers the journal, so that a database with a replaced history does not reuse an
older snapshot, and the last time at which a grant or membership began or ended. A snapshot contains only the
grants and memberships that are in force.
INVARIANT: the manifest is written last and deleted first, a snapshot without it is never read, and a complete
snapshot does not change. A snapshot is verified against its manifest before it is read, and its file names
and sizes are compared again afterwards.
INVARIANT: a snapshot in use contains a lease file and is not deleted. A reader first creates its lease and
then reads the manifest; the cleaner first deletes the manifest and then looks for leases. So one of them
notices the other.
"""

import hashlib
import logging
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.contrib.auth.models import Group
from django.db.models import Case, CharField, QuerySet, Value, When
from pyarrow.fs import FileSelector, FileSystem, FileType

from analytics.arrow import arrow_schema
from analytics.manifests import MANIFEST_NAME, ManifestError, has_signing_key
from analytics.snapshots.manifest import (
    LEASE_PREFIX,
    SnapshotFile,
    check_files,
    verified_files,
    write_snapshot_manifest,
)
from analytics.snapshots.parquet import write_rows
from analytics.storage import (
    StorageError,
    discard_path,
    folder_names,
    spark_uri,
    storage_problem,
    storage_root,
)
from analytics.storage_identity import storage_identity
from analytics.tables import ENTITIES, GRANTS, GROUPS, MEMBERSHIPS, USERS, Table
from entities.models import Entity
from grants.consistent_read import consistent_read
from grants.grant_attributes import GrantAttributes
from grants.journal_queries import data_head
from grants.models import (
    PRINCIPAL_TYPES,
    User,
    clear_permission_ids,
    permission_ids,
)
from grants.policies.times import format_time
from grants.querysets import effective_memberships
from grants.validity import at_time, in_force, last_change_of_time

logger = logging.getLogger(__name__)

# a lease or an incomplete snapshot that is older than this belongs to a process that was killed
ABANDONED_AFTER = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A complete snapshot.

    path: its folder in the file system of the storage. files: as its manifest lists them.
    at: the time at which its grants and memberships are in force.
    replaced_fault: why an earlier snapshot of the same revision was not used; empty if there was none.
    """

    path: str
    revision: int
    files: tuple[SnapshotFile, ...]
    at: datetime = field(compare=False)
    replaced_fault: str = ""

    @property
    def uri(self) -> str:
        """The address under which Spark reads it."""
        return spark_uri(self.path)

    @property
    def state(self) -> str:
        """The name of the state of the data: another snapshot of the same state has the same name."""
        return self.path.rpartition("/")[2].rpartition("-")[0]

    @property
    def size_bytes(self) -> int:
        return sum(file.bytes for file in self.files)


@contextmanager
def lease_snapshot(*, check: Callable[[], None] = lambda: None) -> Iterator[Snapshot]:
    """Yield a snapshot of the newest revision, and keep it until the block ends. Write it if there is no
    intact one.

    check: called between batches of rows; its exceptions end the writing.
    Raise StorageError, also at the end of the block if files of the snapshot were changed in the meantime.
    """
    filesystem, root = storage_root()
    folder = f"{root}/{storage_identity()}"
    try:
        snapshot, lease = _lease_newest(filesystem, folder, check)
    except OSError as error:
        raise StorageError(storage_problem(error)) from error
    try:
        _delete_old_snapshots_or_warn(filesystem, folder)
        yield snapshot
        _check_unchanged(filesystem, snapshot)
    finally:
        _release(filesystem, lease)


def _check_unchanged(filesystem: FileSystem, snapshot: Snapshot) -> None:
    try:
        check_files(filesystem, snapshot.path, snapshot.files, ignore_times=True)
    except OSError as error:
        raise StorageError(
            f"The snapshot could not be verified after it was read ({error}). Run the analysis again."
        ) from error
    except ManifestError as error:
        _invalidate(filesystem, snapshot.path)
        raise StorageError(
            f"The snapshot was changed outside the console while it was read ({error}), so the result would be "
            f"wrong. Run the analysis again."
        ) from None


def _lease_newest(filesystem: FileSystem, folder: str, check: Callable[[], None]) -> tuple[Snapshot, str]:
    """Return a snapshot of the newest revision and the path of its lease."""
    with consistent_read(), at_time() as at:
        head = data_head()
        stem = f"revision={head.revision:020}-{_chain(head.hash, at)}"
        fault = ""
        for name in folder_names(filesystem, folder):
            if name.startswith(stem):
                try:
                    if leased := _lease_intact(filesystem, f"{folder}/{name}", head.revision, at):
                        return leased
                except ManifestError as error:
                    fault = str(error)
        path = f"{folder}/{stem}-{secrets.token_hex(4)}"
        files, lease = _write_snapshot(filesystem, path, head.revision, check)
    return Snapshot(path, head.revision, files, at, fault), lease


def _chain(journal_hash: str, at: datetime) -> str:
    """Return the text that identifies the state of the data at a time, together with its revision."""
    last_change = last_change_of_time(at)
    if last_change is None:
        return journal_hash[:12]
    return hashlib.sha256(f"{journal_hash} {format_time(last_change)}".encode()).hexdigest()[:12]


def _lease_intact(
    filesystem: FileSystem, path: str, revision: int, at: datetime
) -> tuple[Snapshot, str] | None:
    """Lease a stored snapshot and verify it. Return None if it is incomplete, or was deleted in the meantime.

    Raise ManifestError if it is damaged; then it is never used again. Without a journal key, no snapshot can
    be verified.
    """
    if not has_signing_key() or not filesystem.get_file_info(f"{path}/{MANIFEST_NAME}").is_file:
        return None
    lease = ""
    try:
        lease = _create_lease(filesystem, path)
        snapshot = Snapshot(path, revision, verified_files(filesystem, path, revision), at)
    except FileNotFoundError:
        _release(filesystem, lease)
        return None
    except ManifestError as error:
        logger.warning("The snapshot %s is not used, and a new one is taken: %s", path, error)
        _invalidate(filesystem, path)
        _release(filesystem, lease)
        raise
    except BaseException:
        _release(filesystem, lease)
        raise
    return snapshot, lease


def _create_lease(filesystem: FileSystem, path: str) -> str:
    lease = f"{path}/{LEASE_PREFIX}{secrets.token_hex(4)}"
    filesystem.open_output_stream(lease).close()
    return lease


def _release(filesystem: FileSystem, lease: str) -> None:
    # a lease that cannot be deleted expires after ABANDONED_AFTER
    if lease:
        with suppress(OSError):
            filesystem.delete_file(lease)


def _invalidate(filesystem: FileSystem, path: str) -> None:
    """Delete the manifest, so that the snapshot is not used again."""
    with suppress(OSError):
        filesystem.delete_file(f"{path}/{MANIFEST_NAME}")


def _write_snapshot(
    filesystem: FileSystem, path: str, revision: int, check: Callable[[], None]
) -> tuple[tuple[SnapshotFile, ...], str]:
    """Write a snapshot and return its files and the path of a lease."""
    try:
        filesystem.create_dir(path)
        lease = _create_lease(filesystem, path)
        paths: list[str] = []
        for table, parts in _table_rows():
            paths += write_rows(filesystem, path, table.name, arrow_schema(table), parts, check)
        return write_snapshot_manifest(filesystem, path, revision, paths), lease
    except BaseException:
        discard_path(filesystem, path)
        raise


def _table_rows() -> Iterator[tuple[Table, tuple[QuerySet, ...]]]:
    """Yield each table with the querysets of its rows at the time of the question, with values in the order
    of the columns.
    """
    yield ENTITIES, (Entity.objects.values_list(*ENTITIES.column_names),)
    yield USERS, (User.objects.active_principals().values_list("id", "username"),)
    yield GROUPS, (Group.objects.values_list("id", "name"),)
    yield MEMBERSHIPS, (effective_memberships().values_list("user_id", "group_id"),)
    # the database may have been restored since this process read the keys
    clear_permission_ids()
    privilege = Case(
        *(When(permission_id=pk, then=Value(privilege.value)) for privilege, pk in permission_ids().items()),
        output_field=CharField(),
    )
    yield (
        GRANTS,
        tuple(
            row.grants.filter(**in_force())
            .annotate(kind=Value(row.name), privilege_name=privilege)
            .order_by()
            .values_list(
                "kind", row.id_column, "content_object_id", "privilege_name", *GrantAttributes._fields
            )
            for row in PRINCIPAL_TYPES.values()
        ),
    )


def _delete_old_snapshots_or_warn(filesystem: FileSystem, folder: str) -> None:
    try:
        delete_old_snapshots(filesystem, folder)
    except OSError as error:
        logger.warning("Old snapshots could not be removed: %s", error)


def delete_old_snapshots(filesystem: FileSystem, folder: str) -> None:
    """Delete all snapshots but the newest SNAPSHOTS_KEPT, those in use, and those being written.

    folder: the folder of the snapshots with one identity.
    """
    names = [name for name in folder_names(filesystem, folder) if name.startswith("revision=")]
    manifests = filesystem.get_file_info([f"{folder}/{name}/{MANIFEST_NAME}" for name in names])
    # by time, not by revision, because a restored or emptied database starts again at a lower revision
    written_at = {
        name: manifest.mtime or datetime.now(UTC)
        for name, manifest in zip(names, manifests, strict=True)
        if manifest.is_file
    }
    kept = sorted(written_at, key=written_at.get)[-settings.SNAPSHOTS_KEPT :]
    for name in names:
        path = f"{folder}/{name}"
        if name not in kept and not _is_active(filesystem, path, is_complete=name in written_at):
            _delete_snapshot(filesystem, path, is_complete=name in written_at)


def _delete_snapshot(filesystem: FileSystem, path: str, *, is_complete: bool) -> None:
    """Delete the manifest, and then the files unless a reader created a lease in the meantime."""
    if is_complete:
        _invalidate(filesystem, path)
        if _is_active(filesystem, path, is_complete=True):
            return
    discard_path(filesystem, path)


def _is_active(filesystem: FileSystem, path: str, *, is_complete: bool) -> bool:
    """Return whether a process reads the snapshot, or still writes it."""
    files = filesystem.get_file_info(FileSelector(path, allow_not_found=True, recursive=True))
    newest_abandoned = datetime.now(UTC) - ABANDONED_AFTER
    if is_complete:
        files = [file for file in files if file.base_name.startswith(LEASE_PREFIX)]
    else:
        # the folder too, because its writer may not have created a file yet
        files = [filesystem.get_file_info(path), *files]
    # in an object store, a folder has no modification time
    return any(file.mtime > newest_abandoned if file.mtime else file.type == FileType.File for file in files)
