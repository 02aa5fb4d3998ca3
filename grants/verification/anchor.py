"""Anchor the head of the journal outside the database, and compare the journal with its anchors.

The setting JOURNAL_ANCHOR lists the places: `file:PATH` for an append-only file, `s3://BUCKET/PREFIX` for a
folder of an object store, `syslog:` for the local syslog, `syslog:HOST:PORT` for a remote one. The journal is
compared with files and folders.
"""

import fcntl
import json
import logging
import logging.handlers
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from django.conf import settings

from entities.errors import Refusal
from grants.journal import current_head
from grants.models import JournalHead, JournalLine

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

MAX_RECORD_BYTES = 1_000
_REVISION, _HASH = JournalLine.HASHED.index("revision"), len(JournalLine.HASHED)


class AnchorError(Refusal):
    """An anchor cannot be written or read, or contradicts the journal."""


class AnchorPlace(Protocol):
    """A place for anchors. name: its name in messages."""

    name: str

    def write(self, head: JournalHead) -> None:
        """Store the head unless the place already has it. Raise AnchorError if it cannot be stored."""

    def records(self) -> Iterator[tuple[int, str]] | None:
        """Return an iterator over (revision, hash) of each stored head, in order; None for a place that
        cannot be read back.

        Raise AnchorError if reading fails.
        """


def anchor_place(text: str) -> AnchorPlace:
    """Return the place that an entry of JOURNAL_ANCHOR names. Raise AnchorError if the entry is invalid."""
    scheme, _, rest = text.partition(":")
    if scheme == "file" and rest.startswith("/"):
        return FilePlace(Path(rest))
    if scheme == "s3" and urlsplit(text).netloc:
        return ObjectStorePlace(text)
    if scheme == "syslog" and (not rest or rest.rpartition(":")[2].isdigit()):
        return SyslogPlace(rest)
    raise AnchorError(
        f"`{text}` is not a place: write file:/PATH, s3://BUCKET/PREFIX, syslog: or syslog:HOST:PORT"
    )


def _record(head: JournalHead) -> str:
    return json.dumps(
        {
            "revision": head.revision,
            "at": head.at.isoformat(),
            "hash": head.hash,
            "key_id": head.key_id,
            "mac": head.mac,
        }
    )


def _check_newest(name: str, newest: tuple[int, str] | None, head: JournalHead) -> bool:
    """Return whether the head is missing at the place. Raise AnchorError if the place contradicts it."""
    if newest is None or newest[0] < head.revision:
        return True
    if newest[0] > head.revision:
        raise AnchorError(
            f"{name} has line {newest[0]} of the journal, but the journal ends at line {head.revision}"
        )
    if newest[1] != head.hash:
        raise AnchorError(f"{name} has another hash of line {head.revision}")
    return False


class FilePlace:
    """A file with one JSON object per line."""

    def __init__(self, path: Path):
        self.path, self.name = path, str(path)

    def write(self, head: JournalHead) -> None:
        try:
            # O_APPEND works with files that have the append-only attribute (`chattr +a`)
            with open(
                os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600), "r+b", buffering=0
            ) as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                if _check_newest(self.name, self._newest(file), head):
                    file.write(_record(head).encode() + b"\n")
                    os.fsync(file.fileno())
        except OSError as error:
            raise AnchorError(f"{self.name} cannot be written: {error.strerror}") from None

    def newest_revision(self) -> int:
        """Return the revision of the last anchor; 0 if there is none.

        Raise OSError or AnchorError if it cannot be read.
        """
        with open(self.path, "rb") as file:
            newest = self._newest(file)
        return newest[0] if newest else 0

    def _newest(self, file: IO[bytes]) -> tuple[int, str] | None:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - MAX_RECORD_BYTES))
        lines = file.read().splitlines()
        return self._parse_anchor(lines[-1], "the last line") if lines else None

    def records(self) -> Iterator[tuple[int, str]]:
        if not self.path.exists():
            return
        with open(self.path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                yield self._parse_anchor(line, f"line {number}")

    def _parse_anchor(self, line: str | bytes, position: str) -> tuple[int, str]:
        try:
            record = json.loads(line)
            return record["revision"], record["hash"]
        except (ValueError, KeyError, TypeError):
            raise AnchorError(f"{position} of {self.name} is not an anchor") from None


class ObjectStorePlace:
    """A folder of an object store, with one object per head. A name contains revision and hash, so lists of
    names are enough.

    Objects are never replaced, so the folder works with a retention lock. They are in subfolders of
    REVISIONS_PER_FOLDER revisions, so that writing lists only the newest ones. pyarrow takes the credentials
    from the environment.
    """

    REVISIONS_PER_FOLDER = 100_000
    _NAME = re.compile(r"(\d{20})-([0-9a-f]{64})\.json")

    def __init__(self, uri: str):
        self._uri = uri
        # without the options of the URI
        self.name = uri.partition("?")[0].rstrip("/")

    def write(self, head: JournalHead) -> None:
        try:
            files, root = self._file_system()
            folders = self._names(files, root)
            newest = [*self._anchors(files, f"{root}/{folders[-1]}")][-1] if folders else None
            if _check_newest(self.name, newest, head):
                folder = f"{root}/{head.revision // self.REVISIONS_PER_FOLDER:015}"
                with files.open_output_stream(f"{folder}/{head.revision:020}-{head.hash}.json") as file:
                    file.write(_record(head).encode())
        except OSError as error:
            raise AnchorError(f"{self.name} cannot be written: {error}") from None

    def records(self) -> Iterator[tuple[int, str]]:
        try:
            files, root = self._file_system()
            for folder in self._names(files, root):
                yield from self._anchors(files, f"{root}/{folder}")
        except OSError as error:
            raise AnchorError(f"{self.name} cannot be read: {error}") from None

    def _anchors(self, files: "FileSystem", folder: str) -> Iterator[tuple[int, str]]:
        for name in self._names(files, folder):
            if (match := self._NAME.fullmatch(name)) is None:
                raise AnchorError(f"{name} in {self.name} is not an anchor")
            yield int(match[1]), match[2]

    def _names(self, files: "FileSystem", folder: str) -> list[str]:
        from pyarrow.fs import FileSelector

        return sorted(
            file.base_name for file in files.get_file_info(FileSelector(folder, allow_not_found=True))
        )

    def _file_system(self) -> tuple["FileSystem", str]:
        # imported here, because most processes never need it
        from pyarrow.fs import FileSystem

        try:
            files, folder = FileSystem.from_uri(self._uri)
        except ValueError as error:
            raise AnchorError(f"{self.name}: {error}") from None
        return files, folder.rstrip("/")


class SyslogPlace:
    """The local syslog, or a remote one at HOST:PORT. It cannot be read."""

    name = "syslog"

    def __init__(self, address: str):
        host, _, port = address.rpartition(":")
        self._address = (host or "127.0.0.1", int(port)) if address else "/dev/log"

    def write(self, head: JournalHead) -> None:
        try:
            handler = logging.handlers.SysLogHandler(
                self._address, facility=logging.handlers.SysLogHandler.LOG_AUTH
            )
        except OSError as error:
            raise AnchorError(f"syslog cannot be reached: {error.strerror}") from None
        try:
            record = logging.LogRecord(
                "authzconsole", logging.INFO, "", 0, "authzconsole journal %s", (_record(head),), None
            )
            handler.emit(record)
        finally:
            handler.close()

    def records(self) -> None:
        return None


def anchor_journal() -> int:
    """Write the head of the journal to every place that does not have it. Return the revision.

    Raise AnchorError if a place cannot be written or contradicts the journal.
    """
    head = current_head()
    if head.revision:
        for text in settings.JOURNAL_ANCHOR:
            anchor_place(text).write(head)
    return head.revision


def anchored_revision(text: str) -> int:
    """Return the newest revision in the anchor file of a place; 0 if there is none or it cannot be read."""
    try:
        return FilePlace(Path(text.removeprefix("file:"))).newest_revision()
    except (AnchorError, OSError):
        return 0


class AnchorCheck:
    """Compare journal lines, in their order, with the anchors of files and folders.

    Keeps one anchor of each place in memory.
    """

    def __init__(self) -> None:
        places: list[AnchorPlace] = [anchor_place(text) for text in settings.JOURNAL_ANCHOR]
        self._records: dict[str, Iterator[tuple[int, str]]] = {
            place.name: records for place in places if (records := place.records()) is not None
        }
        self._next = {name: next(records, None) for name, records in self._records.items()}
        self._is_empty = {name: record is None for name, record in self._next.items()}
        self._fault, self._newest = "", 0

    def check(self, values: tuple) -> None:
        self._newest = revision = values[_REVISION]
        for name, record in self._next.items():
            while record is not None and record[0] == revision and not self._fault:
                if record[1] != values[_HASH]:
                    self._fault = (
                        f"line {revision} differs from its anchor in {name}: the journal was rewritten"
                    )
                record = self._next[name] = next(self._records[name], None)

    def first_fault(self) -> str:
        """Return the first contradiction after all lines were checked; an empty string if there is none."""
        for name, record in self._next.items():
            if record is not None and not self._fault:
                what = (
                    "it is not in the order of the lines"
                    if record[0] <= self._newest
                    else (f"the journal ends at line {self._newest}, so lines were removed")
                )
                self._fault = f"{name} has an anchor of line {record[0]}, but {what}"
            if self._is_empty[name] and self._newest and not self._fault:
                self._fault = (
                    f"{name} has no anchor: it was removed, or nothing was anchored yet (the scheduler anchors every "
                    f"minute, and `manage.py anchor_journal` at once)"
                )
        return self._fault
