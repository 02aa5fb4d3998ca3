"""The file of an evidence bundle: a ZIP archive with a manifest, the signature of the manifest, and the
listed files; and the addresses that it covers.

The comment of the archive, its last 128 bytes, is the signature of all other bytes in hexadecimal digits. A
change of any byte is therefore detected, even if it changes no file. The signature of the manifest is valid
after the files are extracted, too.
"""

import hashlib
import json
import os
import shutil
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO

from django.db.models import QuerySet

from entities.address import Address
from entities.models import State
from grants.evidence.grant_periods import periods_in
from grants.evidence.revision_ranges import Range
from grants.evidence.signing import is_signature_valid, public_key, sign
from grants.models.history import EntityPeriod, HistoryAddress

ROWS_PER_READ = 2_000


def content_count(container: Address, kind: str, bounds: Range) -> int:
    """Return the number of addresses that `contents_of` yields. Runs two queries."""
    return _inside(container, kind, bounds).count() + (kind in ("", container.kind))


def contents_of(container: Address, kind: str, bounds: Range) -> Iterator[Address]:
    """Yield the container, and the addresses inside it that were live in these revisions, by kind and key.

    kind: only addresses of this kind; empty for all. Runs two queries.
    """
    if kind in ("", container.kind):
        yield container
    for row in _inside(container, kind, bounds).iterator(chunk_size=ROWS_PER_READ):
        yield Address(*row)


def _inside(container: Address, kind: str, bounds: Range) -> QuerySet:
    row = (
        HistoryAddress.objects.filter(kind=container.kind, key=container.key)
        .values_list("pk", flat=True)
        .first()
    )
    live = EntityPeriod.objects.filter(periods_in(bounds), state=State.LIVE)
    inside = live.filter(**{container.kind: row or 0}).exclude(entity=row or 0)
    return (
        (inside.filter(kind=kind) if kind else inside)
        .order_by("kind", "key")
        .values_list("kind", "key")
        .distinct()
    )


FORMAT = 1
MANIFEST, SIGNATURE = "manifest.json", "manifest.sig"
CHUNK_BYTES = 1 << 20
MAX_MANIFEST_BYTES = 1 << 20
SIGNATURE_DIGITS = 128
# the same for every bundle, so that equal content gives equal bytes
_TIMESTAMP = (1980, 1, 1, 0, 0, 0)


class BundleError(Exception):
    """A bundle cannot be trusted. The message names the file and what is wrong with it."""


def write_bundle(path: Path, contents: Mapping[str, Any], files: Mapping[str, Path]) -> dict[str, Any]:
    """Write a bundle that only the current user can read, and return its manifest.

    contents: further members of the manifest. files: by name in the bundle. Raise JournalReadOnly without a
    journal key.
    """
    manifest = {
        "format": FORMAT,
        **contents,
        "public_key": public_key(),
        "files": [{"name": name, **_facts_of(source)} for name, source in sorted(files.items())],
    }
    data = json.dumps(manifest, ensure_ascii=False, indent=2).encode()
    with open(os.open(path, os.O_CREAT | os.O_TRUNC | os.O_RDWR, 0o600), "r+b") as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.comment = b"0" * SIGNATURE_DIGITS
            archive.writestr(_member(MANIFEST), data)
            archive.writestr(_member(SIGNATURE), sign(data).hex())
            for name, source in sorted(files.items()):
                with (
                    source.open("rb") as stream,
                    archive.open(_member(name), "w", force_zip64=True) as target,
                ):
                    shutil.copyfileobj(stream, target)
        digest = _digest_without_comment(file)
        file.seek(-SIGNATURE_DIGITS, os.SEEK_END)
        file.write(sign(digest).hex().encode())
    return manifest


def verify_bundle(path: Path, trusted_keys: set[str]) -> dict[str, Any]:
    """Return the manifest of a bundle. Raise BundleError if a file was changed, added or removed, or the
    signature is not valid.

    trusted_keys: public keys of which one must have signed the bundle; if it is empty, any key may have
    signed it. Reads every file once, in bounded memory. Needs no database.
    """
    with _open_bundle(path) as archive:
        data, signature = _read_small(archive, MANIFEST), _read_small(archive, SIGNATURE)
        manifest = _parse_manifest(data)
        if not _is_signed(manifest["public_key"], signature, data):
            raise BundleError(f"{MANIFEST} or {SIGNATURE} was changed: the signature does not match")
        if trusted_keys and manifest["public_key"] not in trusted_keys:
            raise BundleError(f"the bundle was signed with the unknown key {manifest['public_key']}")
        _verify_files(archive, {file["name"]: file for file in manifest["files"]})
    with path.open("rb") as file:
        if not _is_signed(manifest["public_key"], archive.comment, _digest_without_comment(file)):
            raise BundleError(
                f"{path.name} is not the original archive: its files are unchanged and signed, but it was packed "
                "again. Verify the original, or the files with the file verify.py of an evidence bundle"
            )
    return manifest


def _digest_without_comment(file: BinaryIO) -> bytes:
    """Return the SHA-256 digest of all bytes before the last `SIGNATURE_DIGITS`."""
    digest, remaining = hashlib.sha256(), file.seek(0, os.SEEK_END) - SIGNATURE_DIGITS
    file.seek(0)
    while chunk := file.read(max(0, min(CHUNK_BYTES, remaining))):
        digest.update(chunk)
        remaining -= len(chunk)
    return digest.digest()


def _is_signed(key: str, signature: bytes, data: bytes) -> bool:
    try:
        return is_signature_valid(key, bytes.fromhex(signature.decode("ascii")), data)
    except ValueError:
        return False


def _member(name: str) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name, _TIMESTAMP)
    member.compress_type, member.external_attr = zipfile.ZIP_DEFLATED, 0o600 << 16
    return member


def _facts_of(source: Path) -> dict[str, Any]:
    with source.open("rb") as stream:
        return _facts_of_stream(stream)


def _facts_of_stream(stream: IO[bytes]) -> dict[str, Any]:
    """Return the size and the SHA-256 hash of a stream, as they are in the manifest."""
    digest = hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]
    return {"bytes": stream.tell(), "sha256": digest}


@contextmanager
def _open_bundle(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        raise BundleError(f"{path.name} is damaged: {error}") from None
    except OSError as error:
        raise BundleError(f"{path} cannot be read: {error.strerror or error}") from None


def _read_small(archive: zipfile.ZipFile, name: str) -> bytes:
    if name not in archive.namelist():
        raise BundleError(f"{name} is missing")
    with _open_member(archive, name) as stream:
        data = stream.read(MAX_MANIFEST_BYTES + 1)
    if len(data) > MAX_MANIFEST_BYTES:
        raise BundleError(f"{name} is too long")
    return data


@contextmanager
def _open_member(archive: zipfile.ZipFile, name: str) -> Iterator[Any]:
    """Open a file of the archive. Name the file in the error if its bytes are damaged."""
    try:
        with archive.open(name) as stream:
            yield stream
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise BundleError(f"{name} was changed: {error}") from None


def _parse_manifest(data: bytes) -> dict[str, Any]:
    try:
        manifest = json.loads(data)
        if manifest["format"] != FORMAT:
            raise BundleError(
                f"the bundle has the format {manifest['format']}; this version reads format {FORMAT}"
            )
        names = [file["name"] for file in manifest["files"]]
        is_complete = isinstance(manifest["public_key"], str) and all(isinstance(name, str) for name in names)
    except (ValueError, KeyError, TypeError):
        is_complete = False
    if not is_complete:
        raise BundleError(f"{MANIFEST} was changed: it is not a manifest of an evidence bundle")
    return manifest


def _verify_files(archive: zipfile.ZipFile, files: Mapping[str, Mapping[str, Any]]) -> None:
    stored = [name for name in archive.namelist() if name not in (MANIFEST, SIGNATURE)]
    if repeated := [name for name in stored if stored.count(name) > 1]:
        raise BundleError(f"{repeated[0]} is stored twice")
    if added := set(stored) - files.keys():
        raise BundleError(f"{min(added)} was added")
    if missing := files.keys() - set(stored):
        raise BundleError(f"{min(missing)} is missing")
    for name, expected in sorted(files.items()):
        with _open_member(archive, name) as stream:
            facts = _facts_of_stream(stream)
        if facts != {member: expected.get(member) for member in facts}:
            raise BundleError(f"{name} was changed: its content is not what {MANIFEST} says")
