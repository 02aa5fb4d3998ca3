"""Copy the database to Parquet at one consistent revision, in bounded memory.

A snapshot is a folder `<identity>/revision=<20 digits>-<chain>-<token>` with one folder per table. The chain
is the start of a hash that covers the journal, so that a database with a replaced history does not reuse an
older snapshot, and the last time at which a grant or membership began or ended. A snapshot contains only the
grants and memberships that are in force.
A snapshot may share unchanged files with an older one (`analytics.snapshots.advance`).
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
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from django.conf import settings
from django.contrib.auth.models import Group
from django.db import connection
from django.db.models import Case, CharField, Exists, Expression, Func, OuterRef, Q, QuerySet, Value, When
from django.db.models.functions import Coalesce, Concat
from pyarrow.fs import FileSelector, FileSystem, FileType

from analytics.arrow import arrow_schema
from analytics.folders import folder_problem
from analytics.manifests import MANIFEST_NAME, ManifestError, read_manifest_file, write_manifest_file
from analytics.signatures import has_signing_key, signed_manifest, verified_contents
from analytics.snapshots.advance import Base, base_of, entities_per_part
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
    MATCHES,
    MEMBERSHIPS,
    PAST_GRANTS,
    PATTERNS,
    REVEALED,
    ROLE_GROUPS,
    USERS,
    USES,
    Table,
)
from entities.address import instance_address
from entities.models import PATTERN, Entity
from entities.vocabulary import KINDS
from grants.active_generation import active_generation
from grants.consistent_read import consistent_read
from grants.grant_attributes import GrantAttributes
from grants.history import catch_up
from grants.journal_queries import data_head
from grants.models import (
    PRINCIPAL_TYPES,
    JournalHead,
    JournalLine,
    PrincipalType,
    RoleGroup,
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
ROWS_PER_BUFFER = 20_000
# the tables with parts (`analytics.snapshots.advance`): the column with the id of the entity, and that of the model
_ENTITY_COLUMNS = {ENTITIES: ("id", "id"), GRANTS: ("entity_id", "content_object_id")}


def write_rows(
    filesystem: FileSystem,
    folder: str,
    name: str,
    schema: pa.Schema,
    parts: Iterable[QuerySet],
    check: Callable[[], None],
    *,
    part_of: tuple[str, int] | None,
    reused: Collection[str],
) -> list[str]:
    """Write the rows of querysets as several files in `folder/name`, so that Spark reads them in parallel.

    The querysets return values in the order of the schema. Without rows, there is one file without rows.
    check: called between batches of rows; its exceptions end the writing.
    part_of: a column, and how many of its values one file contains; None for files of ROWS_PER_FILE rows.
    reused: the paths of files of this table that are there already, with other rows.
    Return the paths of all files within `folder`. At most ROWS_PER_BUFFER rows of each file are in memory.
    """
    filesystem.create_dir(f"{folder}/{name}")
    with ExitStack() as stack:
        files: dict[int, _PartFile] = {}

        def file_of(number: int) -> _PartFile:
            if number not in files:
                path = f"{folder}/{name}/part-{number:05}.parquet"
                writer = pq.ParquetWriter(path, schema, filesystem=filesystem, compression="zstd")
                files[number] = _PartFile(stack.enter_context(writer))
            return files[number]

        # an error ends the COPY at once, because the connection is locked until then, and its transaction is rolled back
        batches = stack.enter_context(closing(_batches(parts, schema)))
        for number, batch in _numbered_batches(batches, part_of):
            check()
            file_of(number).write(batch.cast(schema))
        if not files and not reused:
            file_of(0)
        for file in files.values():
            file.flush()
    return [*reused, *(f"{name}/part-{number:05}.parquet" for number in files)]


class _PartFile:
    """A Parquet file that collects rows until they are worth a row group."""

    def __init__(self, writer: pq.ParquetWriter):
        self._writer = writer
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self._rows += batch.num_rows
        if self._rows >= ROWS_PER_BUFFER:
            self.flush()

    def flush(self) -> None:
        if self._batches:
            self._writer.write_table(pa.Table.from_batches(self._batches))
        self._batches, self._rows = [], 0


def _numbered_batches(
    batches: Iterable[pa.RecordBatch], part_of: tuple[str, int] | None
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of all batches by file, with the number of the file. part_of: see `write_rows`."""
    rows = 0
    for batch in batches:
        if part_of is None:
            yield rows // ROWS_PER_FILE, batch
            rows += batch.num_rows
            continue
        column, values_per_file = part_of
        numbers = batch.column(column).to_numpy() // values_per_file
        if (numbers[1:] < numbers[:-1]).any():
            order = np.argsort(numbers, kind="stable")
            batch, numbers = batch.take(pa.array(order)), numbers[order]
        limits = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), batch.num_rows]
        for first, end in pairwise(limits):
            yield int(numbers[first]), batch.slice(first, end - first)


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
    filesystem: FileSystem,
    folder: str,
    head: JournalHead | JournalLine,
    paths: Collection[str],
    at: datetime,
    *,
    entities_per_part: int,
) -> tuple[SnapshotFile, ...]:
    """Write the manifest of a complete snapshot and return its files.

    head: the newest journal line in the snapshot. paths: of the files, within the snapshot.
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
        "revision": head.revision,
        "hash": head.hash,
        "entities_per_part": entities_per_part,
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


def verified_manifest(filesystem: FileSystem, folder: str, revision: int) -> Mapping:
    """Return the contents of the manifest of a snapshot after comparing it with the storage.

    Raise ManifestError if it is not exactly the snapshot that was written, FileNotFoundError if it has no
    manifest.
    """
    contents = verified_contents(PURPOSE, read_manifest_file(filesystem, folder))
    if contents["schema"] != SCHEMA_VERSION:
        raise ManifestError("it was written by another version of the console")
    if (contents["snapshot"], contents["revision"]) != (_name_of(folder), revision):
        raise ManifestError(f"its manifest belongs to {contents['snapshot']}")
    check_files(filesystem, folder, files_of(contents))
    return contents


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
            head = data_head()
            files, lease = _write_snapshot(place.filesystem, place.path, head, at, extra_tables=EXTRA_TABLES)
    except OSError as error:
        raise StorageError(
            folder_problem("The folder of the snapshot", shown_uri(uri), error, "the command")
        ) from error
    _release(place.filesystem, lease)
    return Snapshot(place, head.revision, files, at)


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
    _prepare(extra_tables)
    with consistent_read(), at_time() as at:
        head = data_head()
        stem = f"revision={head.revision:020}-{_chain(head.hash, at, extra_tables=extra_tables)}"
        leased, fault = _lease_state(folder, stem, head.revision, at)
        if leased is None:
            _lock_state(f"{folder.path}/{stem}", check)
            # another run may have written it in the meantime
            leased, later_fault = _lease_state(folder, stem, head.revision, at)
            fault = fault or later_fault
        if leased is not None:
            return leased
        place = folder.child(f"{stem}-{secrets.token_hex(4)}")
        with _lease_base(folder, head, at) as base:
            files, lease = _write_snapshot(
                folder.filesystem, place.path, head, at, check, extra_tables=extra_tables, base=base
            )
    return Snapshot(place, head.revision, files, at, fault), lease


def _lease_state(
    folder: Place, stem: str, revision: int, at: datetime
) -> tuple[tuple[Snapshot, str] | None, str]:
    """Lease an intact snapshot of a state, if one is stored. Return it with its lease, or None; and why a damaged one is not
    used.

    stem: the start of the names of the snapshots of the state.
    """
    fault = ""
    for name in folder_names(folder.filesystem, folder.path):
        if name.startswith(stem):
            try:
                if leased := _lease_intact(folder.child(name), revision, at):
                    snapshot, lease, _ = leased
                    return (snapshot, lease), ""
            except ManifestError as error:
                fault = str(error)
    return None, fault


def _lock_state(name: str, check: Callable[[], None]) -> None:
    """Wait until no other transaction writes this snapshot, and lock it until the end of the transaction.

    On SQLite there is no such lock: two runs write a snapshot each.
    """
    if connection.vendor != "postgresql":
        return
    key = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], signed=True)
    with connection.cursor() as cursor:
        while True:
            cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [key])
            if cursor.fetchone()[0]:
                return
            check()
            time.sleep(0.1)


@contextmanager
def _lease_base(folder: Place, head: JournalHead | JournalLine, at: datetime) -> Iterator[Base | None]:
    """Yield the newest older snapshot if the new one can reuse its files, and keep it until the block ends."""
    base, lease = None, ""
    names = [name for name in folder_names(folder.filesystem, folder.path) if name.startswith("revision=")]
    # the newest first
    for name in names[::-1][: settings.SNAPSHOTS_KEPT]:
        revision = int(name.removeprefix("revision=").partition("-")[0])
        # a damaged snapshot is invalidated
        with suppress(ManifestError):
            if revision <= head.revision and (leased := _lease_intact(folder.child(name), revision, at)):
                snapshot, lease, contents = leased
                break
    try:
        if lease:
            base = base_of(snapshot, contents, head.revision, at)
        yield base
    finally:
        _release(folder.filesystem, lease)


def _prepare(extra_tables: Collection[Table]) -> None:
    """Bring the history up to date, if it is read."""
    if PAST_GRANTS in extra_tables:
        catch_up()


def _chain(journal_hash: str, at: datetime, *, extra_tables: Collection[Table]) -> str:
    """Return the text that identifies the state of the data at a time, together with its revision.

    extra_tables: the text also identifies them and their data, except what has a journal line for each change.
    """
    parts = [journal_hash, *(table.name for table in extra_tables)]
    if (last_change := last_change_of_time(at)) is not None:
        parts.append(format_time(last_change))
    if USES in extra_tables:
        parts.append(f"uses up to {newest_use()}")
    if PAST_GRANTS in extra_tables:
        parts.append(f"history up to line {history_revision()}")
    if len(parts) == 1:
        return journal_hash[:12]
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:12]


def _lease_intact(place: Place, revision: int, at: datetime) -> tuple[Snapshot, str, Mapping] | None:
    """Lease a stored snapshot and verify it. Return it with its lease and the contents of its manifest, or None if it is
    incomplete, or was deleted in the meantime.

    Raise ManifestError if it is damaged; then it is never used again. Without a journal key, no snapshot can
    be verified.
    """
    filesystem, path = place.filesystem, place.path
    if not has_signing_key() or not filesystem.get_file_info(f"{path}/{MANIFEST_NAME}").is_file:
        return None
    lease = ""
    try:
        lease = _create_lease(filesystem, path)
        contents = verified_manifest(filesystem, path, revision)
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
    return Snapshot(place, revision, files_of(contents), at), lease, contents


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
    head: JournalHead | JournalLine,
    at: datetime,
    check: Callable[[], None] = lambda: None,
    *,
    extra_tables: Collection[Table],
    base: Base | None = None,
) -> tuple[tuple[SnapshotFile, ...], str]:
    """Write a snapshot and return its files and the path of a lease.

    base: reuse the files of this snapshot that did not change.
    """
    per_part = entities_per_part() if base is None else base.entities_per_part
    try:
        filesystem.create_dir(path)
        lease = _create_lease(filesystem, path)
        paths: list[str] = []
        for table, parts in _table_rows(extra_tables=extra_tables):
            part_of, reused = None, []
            if table in _ENTITY_COLUMNS:
                column, model_column = _ENTITY_COLUMNS[table]
                part_of = column, per_part
                if base is not None:
                    reused = base.reuse_files(table, filesystem, path)
                    parts = base.changed_rows(parts, model_column)
            paths += write_rows(
                filesystem,
                path,
                table.name,
                arrow_schema(table),
                parts,
                check,
                part_of=part_of,
                reused=reused,
            )
        if base is not None:
            # the files were linked or copied after they were verified
            check_files(filesystem, base.snapshot.path, base.snapshot.files, ignore_times=True)
        return write_snapshot_manifest(filesystem, path, head, paths, at, entities_per_part=per_part), lease
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
    # a user may be in a role in several ways, of which the last one that ends counts
    has_groups = Q(group__in=RoleGroup.objects.values("role"))
    end = Coalesce("valid_until", Value(datetime.max.replace(tzinfo=UTC)))
    members = effective_memberships().filter(has_groups).alias(end=end)
    same = effective_memberships().filter(user=OuterRef("user"), group=OuterRef("group")).alias(end=end)
    later = same.filter(Q(end__gt=OuterRef("end")) | Q(end=OuterRef("end"), pk__lt=OuterRef("pk")))
    yield (
        MEMBERSHIPS,
        tuple(
            rows.values_list("user_id", "group_id", ends)
            for rows in (effective_memberships().exclude(has_groups), members.exclude(Exists(later)))
        ),
    )
    if ROLE_GROUPS in extra_tables:
        yield ROLE_GROUPS, (RoleGroup.objects.values_list("role_id", "group_id"),)
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
            rows.order_by()
            .annotate(kind=Value(row.name), privilege_name=privilege, pattern_text=pattern)
            .values_list(
                "kind",
                row.id_column,
                "content_object_id",
                "privilege_name",
                *GrantAttributes._fields,
                _TimeText("granted_at"),
                ends,
                "pattern_text",
            )
            for row in PRINCIPAL_TYPES.values()
            for rows, pattern in _grants_on_entities(row)
        ),
    )
    yield (
        REVEALED,
        tuple(
            row.held_grants.filter(content_object__state=PATTERN, pattern__isnull=False, **in_force())
            .order_by()
            .annotate(
                kind=Value(row.name), container=Coalesce("application", "namespace"), privilege_name=privilege
            )
            .values_list("kind", row.id_column, "container", "privilege_name")
            .distinct()
            for row in PRINCIPAL_TYPES.values()
        ),
    )
    if PATTERNS in extra_tables:
        yield PATTERNS, tuple(_grants_on_patterns(row, privilege) for row in PRINCIPAL_TYPES.values())
    if MATCHES in extra_tables:
        first, second = (
            row.held_grants.filter(pattern__isnull=False, **in_force())
            .exclude(content_object__state=PATTERN)
            .order_by()
            .values_list("pattern_id", "content_object_id", _TimeText("content_object__created_at"))
            for row in PRINCIPAL_TYPES.values()
        )
        yield MATCHES, (first.union(second),)
    if GUARDRAILS in extra_tables:
        yield from guardrail_rows(privilege)
    if PAST_GRANTS in extra_tables:
        yield from history_rows()


def _grants_on_entities(principal_type: PrincipalType) -> Iterator[tuple[QuerySet, Expression]]:
    """Yield the grants in force on entities, and then the derived grants that give something else, each with the text of
    the pattern.
    """
    patterns = Entity.rows.filter(state=PATTERN).values("pk")
    in_force_now = principal_type.held_grants.filter(**in_force())
    yield in_force_now.filter(pattern=None).exclude(content_object__in=patterns), Value("")
    others = in_force_now.filter(
        Q(pattern=None) | Q(pk__lt=OuterRef("pk")),
        content_object=OuterRef("content_object"),
        permission=OuterRef("permission"),
        **{principal_type.name: OuterRef(principal_type.name)},
    )
    derived = in_force_now.filter(~Exists(others), pattern__isnull=False)
    text = Concat("pattern__kind", Value(":"), "pattern__key", output_field=CharField())
    yield derived.exclude(content_object__in=patterns), text


def _grants_on_patterns(principal_type: PrincipalType, privilege: Expression) -> QuerySet:
    """Return the grants in force on patterns, with the columns of PATTERNS."""
    text = Concat("content_object__kind", Value(":"), "content_object__key", output_field=CharField())
    return (
        principal_type.grants.filter(content_object__state=PATTERN, **in_force())
        .order_by()
        .annotate(kind=Value(principal_type.name), pattern_text=text, privilege_name=privilege)
        .values_list(
            "kind",
            principal_type.id_column,
            "content_object_id",
            "pattern_text",
            "privilege_name",
            _TimeText("granted_at"),
        )
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
