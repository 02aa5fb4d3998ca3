"""A stored snapshot: its manifest, its files, and how a standalone job reads it.

INVARIANT: the manifest lists the files with their sizes and modification times, and what a job needs to know. It is
written last and deleted first, and a snapshot without it is never read.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from datetime import datetime

from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType

from analytics.manifests import DAMAGED, MANIFEST_NAME, ManifestError, unverified_contents
from analytics.storage import Place, StorageError, place_of, shown_uri, without_credentials
from analytics.tables import EXTRA_TABLES, SNAPSHOT_TABLES
from entities.frozen import frozen
from grants.policies.times import parse_time

LEASE_PREFIX = "_LEASE-"
# Increase it if the manifest changes, or the rows of a table get another meaning. A change of columns changes
# SCHEMA_VERSION by itself.
_MEANING = 4
SCHEMA_VERSION = (
    f"{_MEANING}-{hashlib.sha256(repr((*SNAPSHOT_TABLES, *EXTRA_TABLES)).encode()).hexdigest()[:16]}"
)


@frozen
class SnapshotFile:
    """One Parquet file. path: within the snapshot. changed_ns: its modification time, if the storage knows
    it.
    """

    path: str
    bytes: int
    changed_ns: int | None


@frozen
class Snapshot:
    """A complete snapshot.

    place: its folder. files: as its manifest lists them.
    at: the time at which its grants and memberships are in force.
    replaced_fault: why an earlier snapshot of the same revision was not used; empty if there was none.
    """

    place: Place
    revision: int
    files: tuple[SnapshotFile, ...]
    at: datetime = field(compare=False)
    replaced_fault: str = ""

    @property
    def path(self) -> str:
        """Its folder in the file system of the storage."""
        return self.place.path

    @property
    def uri(self) -> str:
        """The address under which Spark reads it."""
        return self.place.spark_uri

    @property
    def state(self) -> str:
        """The name of the state of the data: another snapshot of the same state has the same name."""
        return self.path.rpartition("/")[2].rpartition("-")[0]

    @property
    def size_bytes(self) -> int:
        return sum(file.bytes for file in self.files)


@contextmanager
def stored_snapshot(uri: str) -> Iterator[tuple[Snapshot, Mapping]]:
    """Yield the snapshot at a path or URI and the contents of its manifest, without verifying the signature.

    Raise StorageError if it is missing, not complete, of another schema version, or not as its manifest lists it; also
    at the end of the block if it was changed in the meantime.
    """
    place = place_of(uri, "--snapshot")
    try:
        snapshot, contents = _open(place, shown_uri(uri))
        yield snapshot, contents
        check_files(place.filesystem, place.path, snapshot.files, ignore_times=True)
    except ManifestError as error:
        raise StorageError(
            f"The snapshot at {shown_uri(uri)} is not used, because {error}. Write a new one with manage.py snapshot."
        ) from None


def _open(place: Place, shown: str) -> tuple[Snapshot, Mapping]:
    write_one = "write one with manage.py snapshot URI"
    try:
        if not place.exists:
            raise StorageError(f"There is no snapshot at {shown}: {write_one}.")
        contents = unverified_contents(place.filesystem, place.path)
    except FileNotFoundError:
        raise StorageError(
            f"The snapshot at {shown} is not complete, because it has no manifest: wait until it is written, or "
            f"{write_one}."
        ) from None
    except OSError as error:
        raise StorageError(
            f"The snapshot at {shown} cannot be read: {without_credentials(str(error))}"
        ) from None
    if contents.get("schema") != SCHEMA_VERSION:
        raise ManifestError(
            f"it has the schema version {contents.get('schema')}, and this version of the pipeline reads {SCHEMA_VERSION}: "
            f"install the pipeline of the version of the console that wrote it"
        )
    try:
        snapshot = Snapshot(place, int(contents["revision"]), files_of(contents), parse_time(contents["at"]))
        # a copy in another storage has other modification times
        check_files(place.filesystem, place.path, snapshot.files, ignore_times=True)
    except (KeyError, TypeError, ValueError):
        raise ManifestError(DAMAGED) from None
    return snapshot, contents


def check_files(
    filesystem: FileSystem, folder: str, files: Iterable[SnapshotFile], *, ignore_times: bool = False
) -> None:
    """Raise ManifestError unless the folder contains exactly these files. One listing; opens no file.

    ignore_times: for a snapshot in use. Some network file systems correct the time of a file after it was
    written.
    """
    expected = {file.path: file for file in files}
    for info in snapshot_files(filesystem, folder):
        path = info.path.removeprefix(f"{folder}/")
        file = expected.pop(path, None)
        if file is None:
            raise ManifestError(f"{path} was added")
        if info.size != file.bytes:
            raise ManifestError(f"{path} has {info.size or 0:,} bytes instead of {file.bytes:,}")
        if info.mtime_ns != file.changed_ns and not ignore_times:
            raise ManifestError(f"{path} was replaced")
    if expected:
        raise ManifestError(f"{min(expected)} is missing")


def snapshot_files(filesystem: FileSystem, folder: str) -> list[FileInfo]:
    """Return all files of a snapshot but its manifest and its leases.

    Files that Spark does not read are skipped too.
    """
    infos = filesystem.get_file_info(FileSelector(folder, allow_not_found=True, recursive=True))
    return [
        info
        for info in infos
        if info.type == FileType.File
        and not info.base_name.startswith((".", LEASE_PREFIX))
        and info.path != f"{folder}/{MANIFEST_NAME}"
    ]


def files_of(contents: Mapping) -> tuple[SnapshotFile, ...]:
    """Return the files that a manifest lists."""
    return tuple(SnapshotFile(**file) for file in contents["files"])
