"""Manifests: the list of the files of a snapshot, a report or the result of a job, stored next to them.

A manifest has two parts, separated by a line feed: a JSON object with the id of a journal key and the signature, which
is empty without a key, and the contents as JSON. `analytics.signatures` signs and verifies them.
"""

import hashlib
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType

# Spark and `storage.parquet_paths` skip names with this beginning.
MANIFEST_NAME = "_MANIFEST"
HASHES_AT_ONCE = 4
DAMAGED = "its manifest is damaged"
READ_BYTES = 4 << 20


class ManifestError(Exception):
    """A manifest cannot be trusted. The message completes the sentence "the snapshot is not used: ..."."""


def manifest_body(contents: dict[str, Any]) -> bytes:
    """Return the contents of a manifest as JSON."""
    return json.dumps(contents, ensure_ascii=True, separators=(",", ":")).encode()


def manifest_bytes(signature: dict[str, str], body: bytes) -> bytes:
    """Return the bytes of a manifest. signature: `key` and `signature`, or empty."""
    return json.dumps(signature).encode() + b"\n" + body


def split_manifest(data: bytes) -> tuple[dict[str, Any], bytes]:
    """Return (the signature, the body), without verification. Raise ManifestError if it is damaged."""
    head, _, body = data.partition(b"\n")
    return manifest_object(head), body


def manifest_object(text: bytes) -> dict[str, Any]:
    """Return one of the parts of a manifest. Raise ManifestError if it is damaged."""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        raise ManifestError(DAMAGED) from None
    if not isinstance(parsed, dict):
        raise ManifestError(DAMAGED)
    return parsed


def write_manifest_file(filesystem: FileSystem, folder: str, data: bytes) -> None:
    """Write the manifest of a folder. Call it after all other files are written."""
    with filesystem.open_output_stream(f"{folder}/{MANIFEST_NAME}") as file:
        file.write(data)


def read_manifest_file(filesystem: FileSystem, folder: str) -> bytes:
    """Return the bytes of the manifest in a folder. Raise OSError if it cannot be read."""
    with filesystem.open_input_file(f"{folder}/{MANIFEST_NAME}") as file:
        return file.read()


def unverified_contents(filesystem: FileSystem, folder: str) -> dict[str, Any]:
    """Return the contents of the manifest in a folder, without verifying its signature.

    Raise OSError if it cannot be read, ManifestError if it is damaged.
    """
    return manifest_object(split_manifest(read_manifest_file(filesystem, folder))[1])


def hashed_files(
    filesystem: FileSystem,
    folder: str,
    is_listed: Callable[[str], bool],
    check: Callable[[], None] = lambda: None,
) -> list[dict[str, Any]]:
    """Return `path` (within the folder), `bytes` and `sha256` of each file in a folder and below, by path.

    is_listed: whether a manifest lists files of this name. check: called before each file; its exceptions end the
    work. Reads every file once. Raise OSError if a file cannot be read.
    """
    infos = filesystem.get_file_info(FileSelector(folder, recursive=True, allow_not_found=True))
    stored = sorted(
        (info for info in infos if info.type == FileType.File and is_listed(info.base_name)),
        key=lambda info: info.path,
    )

    def entry(info: FileInfo) -> dict[str, Any]:
        check()
        path = info.path.removeprefix(f"{folder}/")
        return {"path": path, "bytes": info.size, "sha256": file_hash(filesystem, info.path)}

    with ThreadPoolExecutor(HASHES_AT_ONCE) as threads:
        return list(threads.map(entry, stored))


def file_hash(filesystem: FileSystem, path: str) -> str:
    """Return the SHA-256 hash of a file of the storage."""
    digest = hashlib.sha256()
    with filesystem.open_input_stream(path, compression=None) as file:
        while block := file.read(READ_BYTES):
            digest.update(block)
    return digest.hexdigest()
