"""The manifest of a snapshot: its files with their sizes and modification times, its revision and its
schema version.

It is written last and deleted first, so a snapshot without a manifest is incomplete. Verification takes one
listing of the snapshot and opens only the manifest.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass

from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType

from analytics.manifests import (
    MANIFEST_NAME,
    ManifestError,
    read_manifest_file,
    signed_manifest,
    verified_contents,
    write_manifest_file,
)
from analytics.tables import SNAPSHOT_TABLES

LEASE_PREFIX = "_LEASE-"
PURPOSE = "snapshot manifest"
# Increase it if the manifest changes, or the rows of a table get another meaning. A change of columns changes
# SCHEMA_VERSION by itself.
_MEANING = 2
SCHEMA_VERSION = f"{_MEANING}-{hashlib.sha256(repr(SNAPSHOT_TABLES).encode()).hexdigest()[:16]}"


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """One Parquet file. path: within the snapshot. changed_ns: its modification time, if the storage knows
    it.
    """

    path: str
    bytes: int
    changed_ns: int | None


def write_snapshot_manifest(
    filesystem: FileSystem, folder: str, revision: int, paths: Collection[str]
) -> tuple[SnapshotFile, ...]:
    """Write the manifest of a complete snapshot and return its files. paths: of the files, within the snapshot.

    One listing.
    """
    files = [
        SnapshotFile(info.path.removeprefix(f"{folder}/"), info.size, info.mtime_ns)
        for info in _stored_files(filesystem, folder)
    ]
    if missing := set(paths) - {file.path for file in files}:
        raise OSError(f"{folder}/{min(missing)} is missing after it was written")
    contents = {
        "snapshot": _name_of(folder),
        "revision": revision,
        "schema": SCHEMA_VERSION,
        "files": [asdict(file) for file in sorted(files, key=lambda file: file.path)],
    }
    write_manifest_file(filesystem, folder, signed_manifest(PURPOSE, contents))
    return _files_of(contents)


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
    files = _files_of(contents)
    check_files(filesystem, folder, files)
    return files


def check_files(
    filesystem: FileSystem, folder: str, files: Iterable[SnapshotFile], *, ignore_times: bool = False
) -> None:
    """Raise ManifestError unless the folder contains exactly these files. One listing; opens no file.

    ignore_times: for a snapshot in use. Some network file systems correct the time of a file after it was
    written.
    """
    expected = {file.path: file for file in files}
    for info in _stored_files(filesystem, folder):
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


def _stored_files(filesystem: FileSystem, folder: str) -> list[FileInfo]:
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


def _files_of(contents: Mapping) -> tuple[SnapshotFile, ...]:
    return tuple(SnapshotFile(**file) for file in contents["files"])


def _name_of(folder: str) -> str:
    return folder.rpartition("/")[2]
