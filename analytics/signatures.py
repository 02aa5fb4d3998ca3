"""Sign manifests with a journal key, and verify them."""

import hashlib
import hmac
from typing import Any

from analytics.manifests import ManifestError, manifest_body, manifest_bytes, manifest_object, split_manifest
from grants.journal_keys import journal_keys


def has_signing_key() -> bool:
    """Return whether this process can sign manifests."""
    return bool(journal_keys())


def signed_manifest(purpose: str, contents: dict[str, Any]) -> bytes:
    """Return the bytes of a manifest, signed with the first journal key.

    Without a key, the manifest has no signature.
    """
    body = manifest_body(contents)
    key = next(iter(journal_keys().values()), None)
    return manifest_bytes(
        {"key": key.key_id, "signature": key.sign(purpose, _digest(body))} if key else {}, body
    )


def verified_contents(purpose: str, data: bytes) -> dict[str, Any]:
    """Return the contents of a manifest.

    Raise ManifestError unless a known key signed them for this purpose.
    """
    head, body = split_manifest(data)
    key_id, signature = str(head.get("key", "")), str(head.get("signature", ""))
    if not signature:
        raise ManifestError("its manifest is not signed")
    key = journal_keys().get(key_id)
    if key is None:
        raise ManifestError(f"its manifest was signed with the key {key_id}, which is not in JOURNAL_KEYS")
    if not hmac.compare_digest(signature.encode(), key.sign(purpose, _digest(body)).encode()):
        raise ManifestError(
            f"its manifest was changed outside the console: the signature with the key {key_id} does not match"
        )
    return manifest_object(body)


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
