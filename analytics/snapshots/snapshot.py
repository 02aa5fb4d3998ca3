"""Copy the database to Parquet at one consistent revision.

A snapshot is a folder `<identity>/revision=<20 digits>-<chain>-<token>` with one folder per table. The chain is the start of the
journal's hash at that revision, so that a database with a replaced history does not reuse an older snapshot.
INVARIANT: the manifest is written last and deleted first, a snapshot without it is never read, and a complete snapshot does not
change. A snapshot is verified against its manifest before it is read, and its file names and sizes are compared again afterwards.
INVARIANT: a snapshot in use contains a lease file and is not deleted. A reader first creates its lease and then reads the
manifest; the cleaner first deletes the manifest and then looks for leases. So one of them notices the other.
"""

import io
import logging
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain, islice

import psycopg
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from django.conf import settings
from django.contrib.auth.models import Group
from django.db import connection, transaction
from django.db.models import Case, CharField, QuerySet, Value, When
from pyarrow.fs import FileSelector, FileSystem, FileType

from analytics.arrow import arrow_schema
from analytics.manifests import MANIFEST_NAME, ManifestError, has_signing_key
from analytics.snapshots.manifest import LEASE_PREFIX, SnapshotFile, check_files, verified_files, write_snapshot_manifest
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
from grants.grant_attributes import GrantAttributes
from grants.journal import RUN_ACTIONS
from grants.models import GroupGrant, JournalHead, JournalLine, User, UserGrant, clear_permission_ids, permission_ids
from grants.querysets import effective_memberships

logger = logging.getLogger(__name__)

ROWS_PER_GROUP = 100_000
BLOCK_BYTES = 8_000_000
ROWS_PER_FILE = 500_000
# a lease or an incomplete snapshot that is older than this belongs to a process that was killed
ABANDONED_AFTER = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A complete snapshot.

    path: its folder in the file system of the storage. files: as its manifest lists them.
    replaced_fault: why an earlier snapshot of the same revision was not used; empty if there was none.
    """

    path: str
    revision: int
    files: tuple[SnapshotFile, ...]
    replaced_fault: str = ""

    @property
    def uri(self) -> str:
        """The address under which Spark reads it."""
        return spark_uri(self.path)

    @property
    def size_bytes(self) -> int:
        return sum(file.bytes for file in self.files)


@contextmanager
def lease_snapshot(*, check: Callable[[], None] = lambda: None) -> Iterator[Snapshot]:
    """Yield a snapshot of the newest revision, and keep it until the block ends. Write it if there is no intact one.

    check: called between batches of rows; its exceptions end the writing. Raise StorageError, also at the end of the block if
    files of the snapshot were changed in the meantime.
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
        raise StorageError(f"The snapshot could not be verified after it was read ({error}). Run the analysis again.") from error
    except ManifestError as error:
        _invalidate(filesystem, snapshot.path)
        raise StorageError(f"The snapshot was changed outside the console while it was read ({error}), so the result would be "
                           f"wrong. Run the analysis again.") from None


def _lease_newest(filesystem: FileSystem, folder: str, check: Callable[[], None]) -> tuple[Snapshot, str]:
    """Return a snapshot of the newest revision and the path of its lease."""
    with _consistent_read():
        head = _data_head()
        stem = f"revision={head.revision:020}-{head.hash[:12]}"
        fault = ""
        for name in folder_names(filesystem, folder):
            if name.startswith(stem):
                try:
                    if leased := _lease_intact(filesystem, f"{folder}/{name}", head.revision):
                        return leased
                except ManifestError as error:
                    fault = str(error)
        path = f"{folder}/{stem}-{secrets.token_hex(4)}"
        files, lease = _write_snapshot(filesystem, path, head.revision, check)
    return Snapshot(path, head.revision, files, fault), lease


def _data_head() -> JournalHead | JournalLine:
    """Return the newest journal line that is not about a run. Lines about runs do not change the data."""
    head = JournalHead.objects.filter(pk=1).first() or JournalHead()
    if JournalLine.objects.filter(revision=head.revision, action__in=RUN_ACTIONS).exists():
        return JournalLine.objects.exclude(action__in=RUN_ACTIONS).order_by("-revision").first() or JournalHead()
    return head


def _lease_intact(filesystem: FileSystem, path: str, revision: int) -> tuple[Snapshot, str] | None:
    """Lease a stored snapshot and verify it. Return None if it is incomplete, or was deleted in the meantime.

    Raise ManifestError if it is damaged; then it is never used again. Without a journal key, no snapshot can be verified.
    """
    if not has_signing_key() or not filesystem.get_file_info(f"{path}/{MANIFEST_NAME}").is_file:
        return None
    lease = ""
    try:
        lease = _create_lease(filesystem, path)
        snapshot = Snapshot(path, revision, verified_files(filesystem, path, revision))
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


@contextmanager
def _consistent_read() -> Iterator[None]:
    """Open a transaction that reads one state of the database and does not block writers."""
    if connection.vendor == "sqlite":
        connection.ensure_connection()
        # the settings use BEGIN IMMEDIATE, which takes the write lock; a deferred transaction reads from the WAL
        mode, connection.transaction_mode = connection.transaction_mode, "DEFERRED"
        try:
            with transaction.atomic(durable=True):
                yield
        finally:
            connection.transaction_mode = mode
        return
    with transaction.atomic(durable=True):
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


def _write_snapshot(
    filesystem: FileSystem, path: str, revision: int, check: Callable[[], None]
) -> tuple[tuple[SnapshotFile, ...], str]:
    """Write a snapshot and return its files and the path of a lease."""
    try:
        filesystem.create_dir(path)
        lease = _create_lease(filesystem, path)
        rows_by_path: dict[str, int] = {}
        for table, parts in _table_rows():
            filesystem.create_dir(f"{path}/{table.name}")
            rows_by_path |= _write_table(filesystem, path, table, parts, check)
        return write_snapshot_manifest(filesystem, path, revision, rows_by_path), lease
    except BaseException:
        discard_path(filesystem, path)
        raise


def _table_rows() -> Iterator[tuple[Table, tuple[QuerySet, ...]]]:
    """Yield each table with the querysets of its rows. Their values have the order of the columns."""
    yield ENTITIES, (Entity.objects.values_list(*ENTITIES.column_names),)
    yield USERS, (User.objects.active_principals().values_list("id", "username"),)
    yield GROUPS, (Group.objects.values_list("id", "name"),)
    yield MEMBERSHIPS, (effective_memberships().values_list("user_id", "group_id"),)
    # the database may have been restored since this process read the keys
    clear_permission_ids()
    privilege = Case(*(When(permission_id=pk, then=Value(privilege.value)) for privilege, pk in permission_ids().items()),
                     output_field=CharField())
    yield GRANTS, tuple(
        model.objects.annotate(kind=Value(kind), privilege_name=privilege).order_by()
        .values_list("kind", f"{kind}_id", "content_object_id", "privilege_name", *GrantAttributes._fields)
        for kind, model in (("user", UserGrant), ("group", GroupGrant))
    )


def _batches(rows: QuerySet, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    return _copy_batches(rows, schema) if connection.vendor == "postgresql" else _fetch_batches(rows, schema)


def _fetch_batches(rows: QuerySet, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    remaining = rows.iterator(chunk_size=ROWS_PER_GROUP // 10)
    while batch := list(islice(remaining, ROWS_PER_GROUP)):
        columns = zip(zip(*batch, strict=True), schema.types, strict=True)
        yield pa.record_batch([pa.array(column, data_type) for column, data_type in columns], schema=schema)


def _copy_batches(rows: QuerySet, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Read rows with COPY as CSV, which is several times as fast as creating Python objects."""
    statement = psycopg.ClientCursor(connection.connection).mogrify(*rows.query.sql_with_params())
    with connection.cursor() as cursor, cursor.copy(f"COPY ({statement}) TO STDOUT (FORMAT csv, ENCODING 'UTF8')") as copy:
        try:
            for batch in _read_csv(_CopyFile(copy), schema):
                for first in range(0, batch.num_rows, ROWS_PER_GROUP):
                    yield batch.slice(first, ROWS_PER_GROUP)
        except pa.ArrowInvalid as error:
            if "Empty CSV file" not in str(error):
                raise


def _read_csv(file: io.RawIOBase, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    # PostgreSQL writes null as an empty field, and an empty string as two quotation marks
    return pa.csv.open_csv(
        file, read_options=pa.csv.ReadOptions(column_names=schema.names, block_size=BLOCK_BYTES),
        parse_options=pa.csv.ParseOptions(newlines_in_values=True),
        convert_options=pa.csv.ConvertOptions(column_types=schema, null_values=[""], strings_can_be_null=True,
                                              quoted_strings_can_be_null=False),
    )


class _CopyFile(io.RawIOBase):
    """A file object that reads the output of a running COPY."""

    def __init__(self, copy: psycopg.Copy):
        self._copy, self._buffered = copy, b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        blocks, length = [self._buffered], len(self._buffered)
        while size < 0 or length < size:
            block = bytes(self._copy.read())
            if not block:
                break
            blocks.append(block)
            length += len(block)
        data = b"".join(blocks)
        size = len(data) if size < 0 else size
        self._buffered = data[size:]
        return data[:size]


def _write_table(
    filesystem: FileSystem, snapshot: str, table: Table, parts: tuple[QuerySet, ...], check: Callable[[], None]
) -> dict[str, int]:
    """Write several files, so that Spark reads them in parallel; an empty table has one file without rows.

    Return the number of rows of each file, by its path within the snapshot.
    """
    schema = arrow_schema(table)
    writer, rows_by_path, path = None, {}, ""
    try:
        for batch in chain.from_iterable(_batches(rows, schema) for rows in parts):
            check()
            if writer is None or rows_by_path[path] >= ROWS_PER_FILE:
                if writer is not None:
                    writer.close()
                path = _part_path(table, len(rows_by_path))
                writer, rows_by_path[path] = _writer(filesystem, f"{snapshot}/{path}", schema), 0
            writer.write_batch(batch.cast(schema))
            rows_by_path[path] += batch.num_rows
        if writer is None:
            path = _part_path(table, 0)
            writer, rows_by_path[path] = _writer(filesystem, f"{snapshot}/{path}", schema), 0
    finally:
        if writer is not None:
            writer.close()
    return rows_by_path


def _part_path(table: Table, number: int) -> str:
    return f"{table.name}/part-{number:05}.parquet"


def _writer(filesystem: FileSystem, path: str, schema: pa.Schema) -> pq.ParquetWriter:
    return pq.ParquetWriter(path, schema, filesystem=filesystem, compression="zstd")


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
    written_at = {name: manifest.mtime or datetime.now(UTC)
                  for name, manifest in zip(names, manifests, strict=True) if manifest.is_file}
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
