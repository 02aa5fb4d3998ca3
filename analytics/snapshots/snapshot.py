"""Copy the database to Parquet at one consistent revision.

A snapshot is a folder `<database>/revision=<20 digits>-<chain>-<token>` with one folder per table. The chain is the start of the
journal's hash at that revision, so that a database with a replaced history does not reuse an older snapshot.
INVARIANT: `_COMPLETE` is written last, a snapshot without it is never read, and a complete snapshot does not change. A snapshot
in use contains a lease file and is not deleted.
"""

import io
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
from pyarrow.fs import FileSelector, FileSystem

from analytics.arrow import arrow_schema
from analytics.storage import (
    StorageError,
    database_identity,
    discard_path,
    folder_names,
    is_file,
    spark_uri,
    storage_problem,
    storage_root,
)
from analytics.tables import ENTITIES, GRANTS, GROUPS, MEMBERSHIPS, USERS, Table
from entities.models import Entity
from grants.grant_attributes import GrantAttributes
from grants.models import GroupGrant, JournalHead, User, UserGrant, permission_ids
from grants.querysets import effective_memberships

ROWS_PER_GROUP = 100_000
BLOCK_BYTES = 8_000_000
ROWS_PER_FILE = 500_000
# a lease or an incomplete snapshot that is older than this belongs to a process that was killed
ABANDONED_AFTER = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A complete snapshot. path: its folder in the file system of the storage."""

    path: str
    revision: int

    @property
    def uri(self) -> str:
        """The address under which Spark reads it."""
        return spark_uri(self.path)

    @property
    def size_bytes(self) -> int:
        filesystem, _ = storage_root()
        return sum(info.size or 0 for info in filesystem.get_file_info(FileSelector(self.path, recursive=True)))


@contextmanager
def lease_snapshot(*, check: Callable[[], None] = lambda: None) -> Iterator[Snapshot]:
    """Yield a snapshot of the newest revision, and keep it until the block ends. Write it if there is none.

    check: called between batches of rows; its exceptions end the writing. Raise StorageError.
    """
    filesystem, root = storage_root()
    folder = f"{root}/{database_identity()}"
    try:
        snapshot = _newest_snapshot(filesystem, folder, check)
        lease = f"{snapshot.path}/_LEASE-{secrets.token_hex(4)}"
        filesystem.open_output_stream(lease).close()
        delete_old_snapshots(filesystem, folder)
    except OSError as error:
        raise StorageError(storage_problem(error)) from error
    try:
        yield snapshot
    finally:
        # a lease that cannot be deleted expires after ABANDONED_AFTER
        with suppress(OSError):
            filesystem.delete_file(lease)


def _newest_snapshot(filesystem: FileSystem, folder: str, check: Callable[[], None]) -> Snapshot:
    with _consistent_read():
        head = JournalHead.objects.filter(pk=1).first() or JournalHead()
        stem = f"revision={head.revision:020}-{head.hash[:12]}"
        for name in folder_names(filesystem, folder):
            if name.startswith(stem) and is_file(filesystem, f"{folder}/{name}/_COMPLETE"):
                return Snapshot(f"{folder}/{name}", head.revision)
        path = f"{folder}/{stem}-{secrets.token_hex(4)}"
        _write_snapshot(filesystem, path, check)
    return Snapshot(path, head.revision)


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


def _write_snapshot(filesystem: FileSystem, path: str, check: Callable[[], None]) -> None:
    try:
        for table, parts in _table_rows():
            filesystem.create_dir(f"{path}/{table.name}")
            _write_table(filesystem, f"{path}/{table.name}", table, parts, check)
        filesystem.open_output_stream(f"{path}/_COMPLETE").close()
    except BaseException:
        discard_path(filesystem, path)
        raise


def _table_rows() -> Iterator[tuple[Table, tuple[QuerySet, ...]]]:
    """Yield each table with the querysets of its rows. Their values have the order of the columns."""
    yield ENTITIES, (Entity.objects.values_list(*ENTITIES.column_names),)
    yield USERS, (User.objects.active_principals().values_list("id", "username"),)
    yield GROUPS, (Group.objects.values_list("id", "name"),)
    yield MEMBERSHIPS, (effective_memberships().values_list("user_id", "group_id"),)
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
    # PostgreSQL writes null as an empty field, and an empty text as two quotation marks
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


def _write_table(filesystem: FileSystem, folder: str, table: Table, parts: tuple[QuerySet, ...], check) -> None:
    """Write several files, so that Spark reads them in parallel; an empty table has one file without rows."""
    schema = arrow_schema(table)
    writer, rows_written, files = None, 0, 0
    try:
        for batch in chain.from_iterable(_batches(rows, schema) for rows in parts):
            check()
            if writer is None or rows_written >= ROWS_PER_FILE:
                if writer is not None:
                    writer.close()
                writer, rows_written, files = _writer(filesystem, folder, files, schema), 0, files + 1
            writer.write_batch(batch.cast(schema))
            rows_written += batch.num_rows
        writer = writer or _writer(filesystem, folder, files, schema)
    finally:
        if writer is not None:
            writer.close()


def _writer(filesystem: FileSystem, folder: str, number: int, schema: pa.Schema) -> pq.ParquetWriter:
    return pq.ParquetWriter(f"{folder}/part-{number:05}.parquet", schema, filesystem=filesystem, compression="zstd")


def delete_old_snapshots(filesystem: FileSystem, folder: str) -> None:
    """Delete all snapshots but the newest SNAPSHOTS_KEPT, those in use, and those being written."""
    names = [name for name in folder_names(filesystem, folder) if name.startswith("revision=")]
    complete_marks = filesystem.get_file_info([f"{folder}/{name}/_COMPLETE" for name in names])
    # by time, not by revision, because a restored or emptied database starts again at a lower revision
    written_at = {name: mark.mtime or datetime.now(UTC)
                  for name, mark in zip(names, complete_marks, strict=True) if mark.is_file}
    kept = sorted(written_at, key=written_at.get)[-settings.SNAPSHOTS_KEPT :]
    for name in names:
        if name not in kept and not _is_active(filesystem, f"{folder}/{name}", is_complete=name in written_at):
            discard_path(filesystem, f"{folder}/{name}")


def _is_active(filesystem: FileSystem, path: str, *, is_complete: bool) -> bool:
    """Return whether a process reads the snapshot, or still writes it."""
    files = filesystem.get_file_info(FileSelector(path, allow_not_found=True, recursive=True))
    newest_abandoned = datetime.now(UTC) - ABANDONED_AFTER
    recent_files = [file for file in files if file.mtime is None or file.mtime > newest_abandoned]
    return any(file.base_name.startswith("_LEASE-") for file in recent_files) if is_complete else bool(recent_files)
