"""Where snapshots and results lie: a folder of this machine, or any URI that pyarrow and Spark both read."""

import errno
import hashlib
import logging
import os

from django.conf import settings
from django.db import connection
from pyarrow import ArrowInvalid
from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem

logger = logging.getLogger(__name__)

REMEDIES = {
    errno.ENOSPC: "it is full: free some space",
    errno.EDQUOT: "the quota is used up: free some space",
    errno.EROFS: "it is read-only",
    errno.EACCES: "it may not be written",
    errno.EPERM: "it may not be written",
    errno.ENOTDIR: "a file stands where a folder should be: remove it",
    errno.EEXIST: "a file stands where a folder should be: remove it",
    errno.ENOENT: "there is no such place: create it",
    errno.EFBIG: "its files may not become that large: raise the limit",
}


class StorageError(Exception):
    """The folder of snapshots and results cannot be used; the message names it and says what to do."""


def storage_root() -> tuple[FileSystem, str]:
    """The file system and path of SNAPSHOT_URI. Raises StorageError."""
    where = settings.SNAPSHOT_URI
    try:
        filesystem, path = FileSystem.from_uri(where) if "://" in where else (LocalFileSystem(), os.path.abspath(where))
        return filesystem, path.rstrip("/")
    except (ArrowInvalid, OSError) as error:
        raise StorageError(f"SNAPSHOT_URI is {where}, which cannot be used: {error}") from error


def spark_uri(path: str) -> str:
    """What Spark calls `path` of the storage: with a scheme, as a cluster has another default, and without any escapes."""
    where = settings.SNAPSHOT_URI
    if "://" not in where:
        return f"file://{path}"
    _, root = storage_root()
    return where.split("?")[0].rstrip("/") + path.removeprefix(root)


def database_identity() -> str:
    """A folder name that tells databases which share a storage apart."""
    described = connection.settings_dict
    text = "\n".join(str(described[part]) for part in ("HOST", "PORT", "NAME"))
    return f"{connection.vendor}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def storage_sentence(error: OSError) -> str:
    """What went wrong with the folder, where, and what to do."""
    remedy = REMEDIES.get(error.errno, str(error))
    return (f"The folder of snapshots and results, {settings.SNAPSHOT_URI}, cannot be written: {remedy}, "
            f"or point SNAPSHOT_URI at another place.")


def folder_names(filesystem: FileSystem, path: str) -> list[str]:
    """The names of the folders in `path`, sorted; none where there is no such folder."""
    found = filesystem.get_file_info(FileSelector(path, allow_not_found=True))
    return sorted(info.base_name for info in found if info.type == FileType.Directory)


def file_paths(filesystem: FileSystem, path: str, extension: str) -> list[str]:
    """The files in `path` whose names end so, sorted; none where there is no such folder."""
    found = filesystem.get_file_info(FileSelector(path, allow_not_found=True))
    return sorted(i.path for i in found if i.type == FileType.File and i.base_name.endswith(extension)
                  and not i.base_name.startswith(("_", ".")))


def is_file(filesystem: FileSystem, path: str) -> bool:
    return filesystem.get_file_info(path).type == FileType.File


def storage_path(below: str) -> str:
    """The path within the storage's file system of something below SNAPSHOT_URI."""
    return f"{storage_root()[1]}/{below}"


def folder_discard(below: str) -> None:
    """Remove a folder below SNAPSHOT_URI that nothing needs any longer."""
    try:
        filesystem, root = storage_root()
    except StorageError as error:
        logger.warning("%s could not be removed: %s", below, error)
        return
    path_discard(filesystem, f"{root}/{below}")


def path_discard(filesystem: FileSystem, path: str) -> None:
    """Remove a folder of the storage; what cannot be removed is in nobody's way."""
    try:
        if filesystem.get_file_info(path).type == FileType.Directory:
            filesystem.delete_dir(path)
    except OSError as error:
        logger.warning("%s could not be removed: %s", path, error)
