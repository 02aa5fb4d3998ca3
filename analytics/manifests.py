"""Signed manifests: the list of the files of a snapshot or a report, stored next to them.

A manifest has two parts, separated by a line feed: the id of a journal key with the signature, and the
contents as JSON.
"""

import hashlib
import hmac
import json
from typing import Any

from pyarrow.fs import FileSystem

from grants.journal_keys import journal_keys

# Spark and `storage.parquet_paths` skip names with this beginning.
MANIFEST_NAME = "_MANIFEST"


class ManifestError(Exception):
    """A manifest cannot be trusted. The message completes the sentence "the snapshot is not used: ..."."""


def has_signing_key() -> bool:
    """Return whether this process can sign manifests."""
    return bool(journal_keys())


def signed_manifest(purpose: str, contents: dict[str, Any]) -> bytes:
    """Return the bytes of a manifest, signed with the first journal key.

    Without a key, the manifest has no signature.
    """
    body = json.dumps(contents, ensure_ascii=True, separators=(",", ":")).encode()
    key = next(iter(journal_keys().values()), None)
    head = {"key": key.key_id, "signature": key.sign(purpose, _digest(body))} if key else {}
    return json.dumps(head).encode() + b"\n" + body


def verified_contents(purpose: str, data: bytes) -> dict[str, Any]:
    """Return the contents of a manifest.

    Raise ManifestError unless a known key signed them for this purpose.
    """
    head_text, _, body = data.partition(b"\n")
    try:
        head = json.loads(head_text)
        key_id, signature = str(head.get("key", "")), str(head.get("signature", ""))
    except (ValueError, AttributeError):
        raise ManifestError("its manifest is damaged") from None
    if not signature:
        raise ManifestError("its manifest is not signed")
    key = journal_keys().get(key_id)
    if key is None:
        raise ManifestError(f"its manifest was signed with the key {key_id}, which is not in JOURNAL_KEYS")
    if not hmac.compare_digest(signature.encode(), key.sign(purpose, _digest(body)).encode()):
        raise ManifestError(
            f"its manifest was changed outside the console: the signature with the key {key_id} does not match"
        )
    return json.loads(body)


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def write_manifest_file(filesystem: FileSystem, folder: str, data: bytes) -> None:
    """Write the manifest of a folder. Call it after all other files are written."""
    with filesystem.open_output_stream(f"{folder}/{MANIFEST_NAME}") as file:
        file.write(data)


def read_manifest_file(filesystem: FileSystem, folder: str) -> bytes:
    """Return the bytes of the manifest in a folder. Raise OSError if it cannot be read."""
    with filesystem.open_input_file(f"{folder}/{MANIFEST_NAME}") as file:
        return file.read()
