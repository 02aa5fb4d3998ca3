"""Copy the database to Parquet at one consistent revision, in bounded memory.

A snapshot is a folder `<identity>/revision=<20 digits>-<chain>-<token>` with one folder per table. The chain
is the start of a hash that covers the journal, so that a database with a replaced history does not reuse an
older snapshot, and the last time at which a grant or membership began or ended. A snapshot contains only the
grants and memberships that are in force.
INVARIANT: a complete snapshot does not change. A snapshot is verified against its manifest (`analytics.snapshots.stored`)
before it is read, and its file names and sizes are compared again afterwards.
INVARIANT: a snapshot in use contains a lease file and is not deleted. A reader first creates its lease and
then reads the manifest; the cleaner first deletes the manifest and then looks for leases. So one of them
notices the other.
"""

import hashlib
import io
import logging
import secrets
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from itertools import islice

import psycopg
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from django.conf import settings
from django.contrib.auth.models import Group
from django.db import connection
from django.db.models import Case, CharField, Func, QuerySet, Value, When
from pyarrow.fs import FileSelector, FileSystem, FileType

from analytics.arrow import arrow_schema
from analytics.folders import folder_problem
from analytics.manifests import MANIFEST_NAME, ManifestError, read_manifest_file, write_manifest_file
from analytics.signatures import has_signing_key, signed_manifest, verified_contents
from analytics.snapshots.guardrails import guardrail_rows
from analytics.snapshots.history import history_revision, history_rows
from analytics.snapshots.stored import (
    LEASE_PREFIX,
    SCHEMA_VERSION,
    Snapshot,
    SnapshotFile,
    check_files,
    files_of,
    snapshot_files,
)
from analytics.storage import (
    Place,
    StorageError,
    discard_path,
    folder_names,
    place_of,
    shown_uri,
    storage,
    storage_problem,
)
from analytics.storage_identity import storage_identity
from analytics.tables import (
    ENTITIES,
    EXTRA_TABLES,
    GRANTS,
    GROUPS,
    GUARDRAILS,
    INACTIVE_USERS,
    MEMBERSHIPS,
    PAST_GRANTS,
    USERS,
    USES,
    Table,
)
from entities.address import instance_address
from entities.models import Entity
from entities.vocabulary import KINDS
from grants.active_generation import active_generation
from grants.consistent_read import consistent_read
from grants.grant_attributes import GrantAttributes
from grants.history import catch_up
from grants.journal_queries import data_head
from grants.models import (
    PRINCIPAL_TYPES,
    User,
    clear_permission_ids,
    permission_ids,
)
from grants.policies.catalogue import GENERATIONS
from grants.policies.policy import rules_digest
from grants.policies.times import format_time
from grants.querysets import effective_memberships
from grants.usage import days_of_use, newest_use
from grants.validity import at_time, in_force, last_change_of_time

ROWS_PER_GROUP = 100_000
BLOCK_BYTES = 8_000_000
ROWS_PER_FILE = 500_000


def write_rows(
    filesystem: FileSystem,
    folder: str,
    name: str,
    schema: pa.Schema,
    parts: Iterable[QuerySet],
    check: Callable[[], None],
) -> list[str]:
    """Write the rows of querysets as several files in `folder/name`, so that Spark reads them in parallel.

    The querysets return values in the order of the schema. Without rows, there is one file without rows.
    check: called between batches of rows; its exceptions end the writing.
    Return the paths of the files within `folder`.
    """
    filesystem.create_dir(f"{folder}/{name}")
    paths: list[str] = []
    # an error ends the COPY at once, because the connection is locked until then, and its transaction is rolled back
    with closing(_batches(parts, schema)) as batches:
        batch = next(batches, None)
        while batch is not None or not paths:
            paths.append(f"{name}/part-{len(paths):05}.parquet")
            rows_in_file = 0
            with pq.ParquetWriter(
                f"{folder}/{paths[-1]}", schema, filesystem=filesystem, compression="zstd"
            ) as writer:
                while batch is not None and rows_in_file < ROWS_PER_FILE:
                    check()
                    writer.write_batch(batch.cast(schema))
                    rows_in_file += batch.num_rows
                    batch = next(batches, None)
    return paths


def _batches(parts: Iterable[QuerySet], schema: pa.Schema) -> Generator[pa.RecordBatch, None, None]:
    read = _copy_batches if connection.vendor == "postgresql" else _fetch_batches
    for rows in parts:
        yield from read(rows, schema)


def _fetch_batches(rows: QuerySet, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    remaining = rows.iterator(chunk_size=ROWS_PER_GROUP // 10)
    while batch := list(islice(remaining, ROWS_PER_GROUP)):
        columns = zip(zip(*batch, strict=True), schema.types, strict=True)
        yield pa.record_batch([pa.array(column, data_type) for column, data_type in columns], schema=schema)


def _copy_batches(rows: QuerySet, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Read rows with COPY as CSV, which is several times as fast as creating Python objects."""
    statement = psycopg.ClientCursor(connection.connection).mogrify(*rows.query.sql_with_params())
    with (
        connection.cursor() as cursor,
        cursor.copy(f"COPY ({statement}) TO STDOUT (FORMAT csv, ENCODING 'UTF8')") as copy,
    ):
        try:
            for batch in _read_csv(_CopyFile(copy), schema):
                for first in range(0, batch.num_rows, ROWS_PER_GROUP):
                    yield batch.slice(first, ROWS_PER_GROUP)
        except pa.ArrowInvalid as error:
            if "Empty CSV file" not in str(error):
                raise


def _read_csv(file: io.RawIOBase, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    # PostgreSQL writes null as an empty field, an empty string as two quotation marks, and a boolean as one
    # letter
    return pa.csv.open_csv(
        file,
        read_options=pa.csv.ReadOptions(column_names=schema.names, block_size=BLOCK_BYTES),
        parse_options=pa.csv.ParseOptions(newlines_in_values=True),
        convert_options=pa.csv.ConvertOptions(
            column_types=schema,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            true_values=["t"],
            false_values=["f"],
        ),
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


PURPOSE = "snapshot manifest"


def write_snapshot_manifest(
    filesystem: FileSystem, folder: str, revision: int, paths: Collection[str], at: datetime
) -> tuple[SnapshotFile, ...]:
    """Write the manifest of a complete snapshot and return its files. paths: of the files, within the snapshot.

    It also has what a job without the database needs: the active generation, the digests of the rules, the kinds and the
    name of the instance.
    One listing; one query.
    """
    files = [
        SnapshotFile(info.path.removeprefix(f"{folder}/"), info.size, info.mtime_ns)
        for info in snapshot_files(filesystem, folder)
    ]
    if missing := set(paths) - {file.path for file in files}:
        raise OSError(f"{folder}/{min(missing)} is missing after it was written")
    contents = {
        "snapshot": _name_of(folder),
        "revision": revision,
        "schema": SCHEMA_VERSION,
        "at": format_time(at),
        "generation": active_generation().name,
        "rules": {name: rules_digest(generation) for name, generation in GENERATIONS.items()},
        "usage_kept_days": settings.USAGE_KEPT_DAYS,
        "instance": instance_address().key,
        "kinds": [asdict(kind) for kind in KINDS.values()],
        "files": [asdict(file) for file in sorted(files, key=lambda file: file.path)],
    }
    write_manifest_file(filesystem, folder, signed_manifest(PURPOSE, contents))
    return files_of(contents)


def verified_files(filesystem: FileSystem, folder: str, revision: int) -> tuple[SnapshotFile, ...]:
    """Return the files of a snapshot after comparing the manifest with the storage.

    Raise ManifestError if it is not exactly the snapshot that was written, FileNotFoundError if it has no
    manifest.
    """
    contents = verified_contents(PURPOSE, read_manifest_file(filesystem, folder))
    if contents["schema"] != SCHEMA_VERSION:
        raise ManifestError("it was written by another version of the console")
    if (contents["snapshot"], contents["revision"]) != (_name_of(folder), revision):
        raise ManifestError(f"its manifest belongs to {contents['snapshot']}")
    files = files_of(contents)
    check_files(filesystem, folder, files)
    return files


def _name_of(folder: str) -> str:
    return folder.rpartition("/")[2]


logger = logging.getLogger(__name__)

# a lease or an incomplete snapshot that is older than this belongs to a process that was killed
ABANDONED_AFTER = timedelta(hours=24)


@contextmanager
def lease_snapshot(
    *, check: Callable[[], None] = lambda: None, extra_tables: Collection[Table] = ()
) -> Iterator[Snapshot]:
    """Yield a snapshot of the newest revision, and keep it until the block ends. Write it if there is no
    intact one.

    check: called between batches of rows; its exceptions end the writing. extra_tables: those of
    EXTRA_TABLES that it contains.
    Raise StorageError, also at the end of the block if files of the snapshot were changed in the meantime.
    """
    folder = storage().child(storage_identity())
    try:
        snapshot, lease = _lease_newest(folder, check, extra_tables=extra_tables)
    except OSError as error:
        raise StorageError(storage_problem(error)) from error
    try:
        _delete_old_snapshots_or_warn(folder.filesystem, folder.path)
        yield snapshot
        _check_unchanged(folder.filesystem, snapshot)
    finally:
        _release(folder.filesystem, lease)


def export_snapshot(uri: str) -> Snapshot:
    """Write a snapshot with all tables to a path or URI, for standalone jobs. The console does not delete it.

    Raise StorageError if there is something already, or if it cannot be written.
    """
    place = place_of(uri, "The URI of the snapshot")
    try:
        if place.exists:
            raise StorageError(
                f"There is something at {shown_uri(uri)} already: choose another place, or remove it."
            )
        _prepare(EXTRA_TABLES)
        with consistent_read(), at_time() as at:
            revision = data_head().revision
            files, lease = _write_snapshot(
                place.filesystem, place.path, revision, at, extra_tables=EXTRA_TABLES
            )
    except OSError as error:
        raise StorageError(
            folder_problem("The folder of the snapshot", shown_uri(uri), error, "the command")
        ) from error
    _release(place.filesystem, lease)
    return Snapshot(place, revision, files, at)


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


def _lease_newest(
    folder: Place, check: Callable[[], None], *, extra_tables: Collection[Table]
) -> tuple[Snapshot, str]:
    """Return a snapshot of the newest revision and the path of its lease."""
    filesystem = folder.filesystem
    _prepare(extra_tables)
    with consistent_read(), at_time() as at:
        head = data_head()
        stem = f"revision={head.revision:020}-{_chain(head.hash, at, extra_tables=extra_tables)}"
        fault = ""
        for name in folder_names(filesystem, folder.path):
            if name.startswith(stem):
                try:
                    if leased := _lease_intact(folder.child(name), head.revision, at):
                        return leased
                except ManifestError as error:
                    fault = str(error)
        place = folder.child(f"{stem}-{secrets.token_hex(4)}")
        files, lease = _write_snapshot(
            filesystem, place.path, head.revision, at, check, extra_tables=extra_tables
        )
    return Snapshot(place, head.revision, files, at, fault), lease


def _prepare(extra_tables: Collection[Table]) -> None:
    """Bring the history up to date, if it is read."""
    if PAST_GRANTS in extra_tables:
        catch_up()


def _chain(journal_hash: str, at: datetime, *, extra_tables: Collection[Table]) -> str:
    """Return the text that identifies the state of the data at a time, together with its revision.

    extra_tables: the text also identifies their data.
    """
    parts = [journal_hash]
    if (last_change := last_change_of_time(at)) is not None:
        parts.append(format_time(last_change))
    if USES in extra_tables:
        parts.append(f"uses up to {newest_use()}")
    if GUARDRAILS in extra_tables:
        # a change of a guardrail has a journal line
        parts.append("guardrails")
    if PAST_GRANTS in extra_tables:
        parts.append(f"history up to line {history_revision()}")
    if len(parts) == 1:
        return journal_hash[:12]
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:12]


def _lease_intact(place: Place, revision: int, at: datetime) -> tuple[Snapshot, str] | None:
    """Lease a stored snapshot and verify it. Return None if it is incomplete, or was deleted in the meantime.

    Raise ManifestError if it is damaged; then it is never used again. Without a journal key, no snapshot can
    be verified.
    """
    filesystem, path = place.filesystem, place.path
    if not has_signing_key() or not filesystem.get_file_info(f"{path}/{MANIFEST_NAME}").is_file:
        return None
    lease = ""
    try:
        lease = _create_lease(filesystem, path)
        snapshot = Snapshot(place, revision, verified_files(filesystem, path, revision), at)
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
    filesystem: FileSystem,
    path: str,
    revision: int,
    at: datetime,
    check: Callable[[], None] = lambda: None,
    *,
    extra_tables: Collection[Table],
) -> tuple[tuple[SnapshotFile, ...], str]:
    """Write a snapshot and return its files and the path of a lease."""
    try:
        filesystem.create_dir(path)
        lease = _create_lease(filesystem, path)
        paths: list[str] = []
        for table, parts in _table_rows(extra_tables=extra_tables):
            paths += write_rows(filesystem, path, table.name, arrow_schema(table), parts, check)
        return write_snapshot_manifest(filesystem, path, revision, paths, at), lease
    except BaseException:
        discard_path(filesystem, path)
        raise


class _TimeText(Func):
    """A time as an RFC 3339 text in UTC, to the second, like `format_time`."""

    output_field = CharField()

    def as_postgresql(self, compiler, connection, **context):
        template = """to_char(%(expressions)s AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')"""
        return self.as_sql(compiler, connection, template=template, **context)

    def as_sqlite(self, compiler, connection, **context):
        # the percent signs are replaced twice
        template = "strftime('%%%%Y-%%%%m-%%%%dT%%%%H:%%%%M:%%%%SZ', %(expressions)s)"
        return self.as_sql(compiler, connection, template=template, **context)


def _table_rows(*, extra_tables: Collection[Table]) -> Iterator[tuple[Table, tuple[QuerySet, ...]]]:
    """Yield each table with the querysets of its rows at the time of the question, with values in the order
    of the columns.
    """
    yield ENTITIES, (Entity.objects.values_list(*ENTITIES.column_names),)
    principals = User.objects.principals()
    yield USERS, (principals.filter(is_active=True).values_list("id", "username"),)
    yield INACTIVE_USERS, (principals.filter(is_active=False).values_list("id", "username"),)
    yield GROUPS, (Group.objects.values_list("id", "name"),)
    ends = _TimeText("valid_until")
    yield MEMBERSHIPS, (effective_memberships().values_list("user_id", "group_id", ends),)
    if USES in extra_tables:
        yield USES, (days_of_use().values_list("user_id", "entity_id", "first_day", "last_day"),)
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
                "kind",
                row.id_column,
                "content_object_id",
                "privilege_name",
                *GrantAttributes._fields,
                _TimeText("granted_at"),
                ends,
            )
            for row in PRINCIPAL_TYPES.values()
        ),
    )
    if GUARDRAILS in extra_tables:
        yield from guardrail_rows(privilege)
    if PAST_GRANTS in extra_tables:
        yield from history_rows()


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
