"""The file of a backup: a compressed tar archive that begins with the manifest."""

import hashlib
import io
import os
import shutil
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from analytics.manifests import ManifestError
from analytics.signatures import has_signing_key, signed_manifest, verified_contents


class BackupError(Exception):
    """A backup cannot be written or restored.

    The message names the problem and, where there is one, the remedy.
    """


FORMAT = 1
PURPOSE = "backup"
MANIFEST, KEYS, DATABASE, REPORTS = "manifest", "keys", "database", "reports/"
CHUNK_BYTES = 1 << 20
MAX_MANIFEST_BYTES = 64 << 20
_DAMAGE = (tarfile.TarError, EOFError, zlib.error, OSError)


def file_facts(path: Path) -> dict[str, int | str]:
    """Return the size and the SHA-256 hash of a file."""
    with path.open("rb") as file:
        return {"size": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def write_archive(path: Path, contents: dict[str, Any], files: Mapping[str, Path]) -> None:
    """Write a backup. `path` is complete or unchanged, and only the current user can read it.

    Raise BackupError if the backup cannot be signed or written.
    """
    if not has_signing_key():
        raise BackupError("JOURNAL_KEYS contains no key, so the backup cannot be signed")
    facts = {name: file_facts(file) for name, file in files.items()}
    manifest = signed_manifest(PURPOSE, {"format": FORMAT, **contents, "files": facts})
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            with tarfile.open(fileobj=file, mode="w:gz", compresslevel=1) as archive:
                _add(archive, MANIFEST, io.BytesIO(manifest), len(manifest))
                for name, source in files.items():
                    with source.open("rb") as stream:
                        _add(archive, name, stream, source.stat().st_size)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _add(archive: tarfile.TarFile, name: str, stream: BinaryIO, size: int) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o600
    archive.addfile(member, stream)


@contextmanager
def opened_archive(path: Path) -> Iterator[tarfile.TarFile]:
    """Open a backup for reading. Raise BackupError if it is damaged, here and while it is read."""
    try:
        with tarfile.open(path, mode="r:gz") as archive:
            yield archive
    except FileNotFoundError:
        raise BackupError(f"{path} does not exist") from None
    except _DAMAGE as error:
        raise BackupError(f"{path} is not a backup, or is damaged or truncated ({error})") from None


def read_head(path: Path) -> tuple[bytes, bytes]:
    """Return the bytes of the manifest and of the encrypted keys (empty without keys).

    The bytes are not verified yet.
    """
    with opened_archive(path) as archive:
        first = archive.next()
        if first is None or first.name != MANIFEST or first.size > MAX_MANIFEST_BYTES:
            raise BackupError(f"{path} is not a backup: it does not begin with a manifest")
        manifest = _content(archive, first).read()
        second = archive.next()
        has_keys = second is not None and second.name == KEYS and second.size < CHUNK_BYTES
        return manifest, _content(archive, second).read() if has_keys and second else b""


def verified_manifest(path: Path, manifest: bytes) -> dict[str, Any]:
    """Return the contents of the manifest. Raise BackupError unless a key of JOURNAL_KEYS signed it."""
    try:
        contents = verified_contents(PURPOSE, manifest)
    except ManifestError as error:
        raise BackupError(f"{path} is not restored: {error}") from None
    if contents.get("format") != FORMAT:
        raise BackupError(
            f"{path} has the format {contents.get('format')}, but this version reads the format {FORMAT}"
        )
    return contents


def extract_files(path: Path, contents: dict[str, Any], folder: Path) -> dict[str, Path]:
    """Extract all files into `folder`, with numbers as names, and return their paths by name.

    Raise BackupError if the files differ from the manifest.
    """
    expected: dict[str, dict] = contents["files"]
    extracted: dict[str, Path] = {}
    with opened_archive(path) as archive:
        for member in archive:
            if member.name == MANIFEST:
                continue
            if member.name not in expected or member.name in extracted or not member.isreg():
                raise BackupError(f"{path} is damaged: {member.name} is not in its manifest")
            target = folder / str(len(extracted))
            with target.open("xb") as file:
                shutil.copyfileobj(_content(archive, member), file)
            if file_facts(target) != expected[member.name]:
                raise BackupError(f"{path} is damaged: {member.name} differs from the manifest")
            extracted[member.name] = target
        _read_to_end(archive)
    if missing := expected.keys() - extracted.keys():
        raise BackupError(f"{path} is damaged: {min(missing)} is missing")
    return extracted


def _read_to_end(archive: tarfile.TarFile) -> None:
    """Read the rest of the archive after the last file, so that a truncated end is an error too."""
    while archive.fileobj is not None and archive.fileobj.read(CHUNK_BYTES):
        pass


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> BinaryIO:
    stream = archive.extractfile(member)
    if stream is None:
        raise BackupError(f"the backup is damaged: {member.name} is not a file")
    return stream  # type: ignore[return-value]
