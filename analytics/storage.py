"""The storage of snapshots and results: a folder of this machine, or any URI that pyarrow and Spark both
read.

A path in this module is a path within the storage's file system. SNAPSHOT_URI names its root.
"""

import logging
import os
from urllib.parse import parse_qsl, quote, unquote

from pyarrow import ArrowInvalid
from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem

from analytics.folders import folder_problem
from analytics.settings import settings
from entities.errors import Refusal
from entities.frozen import frozen

logger = logging.getLogger(__name__)

# Shorter texts are not replaced in messages, because they are parts of other words.
MIN_SECRET_CHARACTERS = 4


class StorageError(Refusal):
    """The folder of snapshots and results cannot be used. The message names the folder and the remedy."""

    status = 503


@frozen
class Place:
    """A folder of a storage: its file system, its path there, and its URI for Spark."""

    filesystem: FileSystem
    path: str
    spark_uri: str

    def child(self, name: str) -> "Place":
        """Return the folder of this name in this folder."""
        return Place(self.filesystem, f"{self.path}/{name}", f"{self.spark_uri}/{name}")

    @property
    def exists(self) -> bool:
        return self.filesystem.get_file_info(self.path).type != FileType.NotFound


def place_of(uri: str, name: str) -> Place:
    """Return the folder at a path or URI. Raise StorageError if it cannot be used. name: of the setting or option.

    The URI for Spark has a scheme, because the default file system of a cluster is not the local one, and no
    percent-encoding, which Spark does not decode. It has no password, which Hadoop ignores and Spark would
    log: SPARK_CONF contains the credentials of Spark.
    """
    try:
        filesystem, path = (
            FileSystem.from_uri(uri) if "://" in uri else (LocalFileSystem(), os.path.abspath(uri))
        )
    except (ArrowInvalid, OSError) as error:
        # without the original exception, because a traceback in the log would contain its text
        raise StorageError(
            f"{name} is {shown_uri(uri)}, which cannot be used: {without_credentials(str(error), uri)}"
        ) from None
    path = path.rstrip("/")
    if "://" not in uri:
        return Place(filesystem, path, f"file://{path}")
    scheme, _, location = uri.split("?")[0].rstrip("/").partition("://")
    account, at, host = location.rpartition("@")
    return Place(filesystem, path, f"{scheme}://{account.partition(':')[0]}{at}{host}")


def storage() -> Place:
    """Return the folder of SNAPSHOT_URI. Raise StorageError if it cannot be used."""
    return place_of(settings.SNAPSHOT_URI, "SNAPSHOT_URI")


def storage_root() -> tuple[FileSystem, str]:
    """Return the file system and the path of SNAPSHOT_URI. Raise StorageError if it cannot be used."""
    place = storage()
    return place.filesystem, place.path


def shown_uri(uri: str = "") -> str:
    """Return a URI, by default SNAPSHOT_URI, for messages: without parameters, and with `***` for a password."""
    uri = uri or settings.SNAPSHOT_URI
    scheme, separator, rest = uri.partition("://")
    if not separator:
        return uri
    location, _, parameters = rest.partition("?")
    if "@" in parameters:
        # perhaps the second half of a password with an unencoded question mark
        return f"{scheme}://***"
    account, at, host = location.rpartition("@")
    # `abfss://container@account...` has no password
    has_password = ":" in account or "/" in account
    return (
        f"{scheme}://{account.partition(':')[0]}:***@{host}"
        if has_password
        else f"{scheme}://{account}{at}{host}"
    )


def without_credentials(text: str, uri: str = "") -> str:
    """Return the text without the secrets of a URI, by default SNAPSHOT_URI: its password and its parameters,
    percent-encoded or decoded.
    """
    uri = uri or settings.SNAPSHOT_URI
    _, separator, rest = uri.partition("://")
    if not separator:
        return text
    parameters = rest.partition("?")[2]
    password = rest.rpartition("@")[0].partition(":")[2]
    text = text.replace(uri, shown_uri(uri))
    for secret in sorted(
        {password, parameters, *(value for _, value in parse_qsl(parameters))}, key=len, reverse=True
    ):
        for form in (secret, unquote(secret), quote(secret, safe="")):
            text = text.replace(form, "***") if len(form) >= MIN_SECRET_CHARACTERS else text
    return text


def storage_problem(error: OSError) -> str:
    """Return a sentence that names the problem of the storage folder and how to solve it."""
    return folder_problem("The folder of snapshots and results", shown_uri(), error, "SNAPSHOT_URI")


def folder_names(filesystem: FileSystem, path: str) -> list[str]:
    """Return the names of the folders in `path`, sorted. Empty if there is no such folder."""
    infos = filesystem.get_file_info(FileSelector(path, allow_not_found=True))
    return sorted(info.base_name for info in infos if info.type == FileType.Directory)


def link_or_copy(filesystem: FileSystem, source: str, target: str) -> None:
    """Give a file another path: as a hard link on a file system of this machine, as a copy elsewhere."""
    if isinstance(filesystem, LocalFileSystem):
        try:
            os.link(source, target)
            return
        except OSError:
            # some file systems have no hard links
            pass
    filesystem.copy_file(source, target)


def parquet_paths(filesystem: FileSystem, path: str) -> list[str]:
    """Return the paths of the Parquet files in `path`, sorted. Empty if there is no such folder.

    Files with names that begin with `_` or `.` are skipped: they contain no rows, or they are not complete.
    """
    infos = filesystem.get_file_info(FileSelector(path, allow_not_found=True))
    return sorted(
        info.path
        for info in infos
        if info.type == FileType.File
        and info.base_name.endswith(".parquet")
        and not info.base_name.startswith(("_", "."))
    )


def storage_path(relative_path: str) -> str:
    """Return the path of a file or folder below SNAPSHOT_URI.

    Raise StorageError if SNAPSHOT_URI cannot be used.
    """
    return f"{storage_root()[1]}/{relative_path}"


def discard_folder(relative_path: str) -> None:
    """Remove a folder below SNAPSHOT_URI that is no longer needed. A failure is logged."""
    try:
        filesystem, root = storage_root()
    except StorageError as error:
        logger.warning("%s could not be removed: %s", relative_path, error)
        return
    discard_path(filesystem, f"{root}/{relative_path}")


def discard_path(filesystem: FileSystem, path: str) -> None:
    """Remove a folder of the storage.

    A failure is only logged, because a folder that is not removed does no harm.
    """
    try:
        if filesystem.get_file_info(path).type == FileType.Directory:
            filesystem.delete_dir(path)
    except OSError as error:
        logger.warning("%s could not be removed: %s", path, error)
