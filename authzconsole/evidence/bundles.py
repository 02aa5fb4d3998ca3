"""The signed bundles of evidence and of reviews in the storage."""

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from django.http import Http404, StreamingHttpResponse

from analytics.storage import StorageError, storage_root
from analytics.storage_identity import storage_identity
from authzconsole.common.zip_files import zip_response

CHUNK_BYTES = 1 << 18


def store_bundle(bundle: Path, folder: str, name: str) -> tuple[str, str]:
    """Copy a bundle into a folder of the storage. Return its path below SNAPSHOT_URI and its SHA-256 hash."""
    filesystem, root = storage_root()
    path = f"{folder}/{storage_identity()}/{name}"
    filesystem.create_dir(f"{root}/{folder}/{storage_identity()}", recursive=True)
    with (
        bundle.open("rb") as source,
        filesystem.open_output_stream(f"{root}/{path}", compression=None) as target,
    ):
        shutil.copyfileobj(source, target)
        source.seek(0)
        return path, hashlib.file_digest(source, "sha256").hexdigest()


def bundle_chunks(path: str) -> Iterator[bytes]:
    """Open the bundle at a path below SNAPSHOT_URI, and return an iterator over its content.

    Raise StorageError or OSError if it cannot be opened.
    """
    filesystem, root = storage_root()
    file = filesystem.open_input_stream(f"{root}/{path}", compression=None)

    def chunks() -> Iterator[bytes]:
        with file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk

    return chunks()


def bundle_response(path: str, name: str) -> StreamingHttpResponse:
    """Return the response of a page that streams a bundle. path: empty if there is none. name: of the file, without its
    extension. Raise Http404 if there is no such file.
    """
    try:
        if path:
            return zip_response(bundle_chunks(path), name)
    except (StorageError, OSError):
        pass
    raise Http404("there is no such file")
