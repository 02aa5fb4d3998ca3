"""The signed manifest of a report: its run and its files, with their sizes and SHA-256 hashes.

The database stores the hash of the manifest with the run. A reader loads and verifies the manifest once in
each process, and then verifies each file that it opens. A file is hashed again only if its size or times
changed.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

from pyarrow.fs import FileInfo, FileSystem, FileType, LocalFileSystem

from analytics.manifests import (
    HASHES_AT_ONCE,
    ManifestError,
    file_hash,
    hashed_files,
    read_manifest_file,
    write_manifest_file,
)
from analytics.models import AnalysisRun
from analytics.results.index import INDEX_NAME, is_result_file
from analytics.signatures import has_signing_key, signed_manifest, verified_contents
from analytics.storage import StorageError, storage_path, storage_root
from entities.frozen import frozen

PURPOSE = "report manifest"
MAX_CACHED_MANIFESTS = 64
MAX_CACHED_FILES = 100_000


class ReportChanged(StorageError):
    """The files of a report are not those that its run wrote."""

    status = 409

    def __init__(self, fault: str):
        super().__init__(f"the report was changed outside the console ({fault}); run the analysis again")


@frozen
class ReportFile:
    """The size and the SHA-256 hash of a file."""

    bytes: int
    sha256: str


@frozen
class ReportManifest:
    """The verified manifest of a report. folder: its path in the storage. files: by path within the folder."""

    folder: str
    files: Mapping[str, ReportFile]

    def check_names(self, table: str, names: Iterable[str]) -> None:
        """Raise ReportChanged unless these are the names of all Parquet files of the table."""
        stored = {f"{table}/{name}" for name in names}
        expected = {
            path
            for path in self.files
            if path.startswith(f"{table}/") and not path.endswith(f"/{INDEX_NAME}")
        }
        if added := stored - expected:
            raise ReportChanged(f"{min(added)} was added")
        if missing := expected - stored:
            raise ReportChanged(f"{min(missing)} is missing")

    def check_files(self, filesystem: FileSystem, paths: Sequence[str]) -> None:
        """Raise ReportChanged unless each file has the stored content. paths: in the storage.

        Hashes only unknown files.
        """
        with ThreadPoolExecutor(HASHES_AT_ONCE) as threads:
            infos = filesystem.get_file_info(list(paths))
            list(threads.map(lambda info: self._check_file(filesystem, info), infos))

    def _check_file(self, filesystem: FileSystem, info: FileInfo) -> None:
        path = info.path.removeprefix(f"{self.folder}/")
        expected = self.files.get(path)
        if expected is None:
            raise ReportChanged(f"{path} was added")
        if info.type != FileType.File:
            raise ReportChanged(f"{path} is missing")
        if info.size != expected.bytes:
            raise ReportChanged(f"{path} has {info.size or 0:,} bytes instead of {expected.bytes:,}")
        version = (expected.sha256, *_file_version(filesystem, info))
        if _verified_versions.get(info.path) == version:
            return
        if file_hash(filesystem, info.path) != expected.sha256:
            raise ReportChanged(f"{path} has different content")
        if len(_verified_versions) >= MAX_CACHED_FILES:
            _verified_versions.clear()
        _verified_versions[info.path] = version


# The version of each file that this process has verified, by path.
_verified_versions: dict[str, tuple] = {}


def _file_version(filesystem: FileSystem, info: FileInfo) -> tuple:
    """Return values that change when the file changes.

    For local files they include the ctime, which only the system can set.
    """
    if isinstance(filesystem, LocalFileSystem):
        status = os.stat(info.path)
        return status.st_ino, status.st_mtime_ns, status.st_ctime_ns
    return (info.mtime_ns,)


def write_report_manifest(run: AnalysisRun, folder: str, revision: int, *, check: Callable[[], None]) -> str:
    """Sign the finished report in `folder`, below SNAPSHOT_URI. Return the hash of the manifest; empty
    without a journal key.

    check: called before each file; its exceptions end the signing.
    Reads every file once. Raise OSError if a file cannot be read or the manifest cannot be written.
    """
    if not has_signing_key():
        return ""
    filesystem, root = storage_root()
    path = f"{root}/{folder}"
    files = hashed_files(filesystem, path, is_result_file, check)
    data = signed_manifest(PURPOSE, {**_identity(run, folder, revision), "files": files})
    filesystem.create_dir(path)
    write_manifest_file(filesystem, path, data)
    return hashlib.sha256(data).hexdigest()


def load_manifest(run: AnalysisRun) -> ReportManifest:
    """Verify and return the manifest of a signed report.

    Raise ReportChanged if it is not valid, OSError if it is unreadable.
    """
    path = storage_path(run.result_path)
    contents, files = _verified_manifest(path, run.result_hash)
    identity = _identity(run, run.result_path, run.revision)
    if any(contents[name] != value for name, value in identity.items()):
        raise ReportChanged("its files belong to another run")
    return ReportManifest(path, files)


def _identity(run: AnalysisRun, folder: str, revision: int | None) -> dict:
    return {"folder": folder, "analysis": run.type, "options": run.options, "revision": revision}


@lru_cache(maxsize=MAX_CACHED_MANIFESTS)
def _verified_manifest(path: str, expected_hash: str) -> tuple[Mapping, Mapping[str, ReportFile]]:
    """Return the contents of a manifest and its files, cached because a manifest with this hash never
    changes.
    """
    filesystem, _ = storage_root()
    data = read_manifest_file(filesystem, path)
    if hashlib.sha256(data).hexdigest() != expected_hash:
        raise ReportChanged("its manifest was replaced")
    try:
        contents = verified_contents(PURPOSE, data)
    except ManifestError as error:
        raise ReportChanged(str(error)) from None
    return contents, {file["path"]: ReportFile(file["bytes"], file["sha256"]) for file in contents["files"]}
