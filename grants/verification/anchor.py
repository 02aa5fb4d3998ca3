"""Anchor the head of the journal outside the database, and compare the journal with its anchors.

The setting JOURNAL_ANCHOR lists places: `file:PATH` for an append-only file, `syslog:` for the local syslog, `syslog:HOST:PORT`
for a remote one. Only files can be compared later.
"""

import fcntl
import json
import logging
import logging.handlers
import os
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings

from grants.journal import current_head
from grants.models import JournalHead, JournalLine

logger = logging.getLogger(__name__)
_REVISION, _HASH = JournalLine.HASHED.index("revision"), len(JournalLine.HASHED)
MAX_RECORD_BYTES = 1_000


class AnchorError(Exception):
    """An anchor cannot be written, or contradicts the journal."""


def place_fault(place: str) -> str:
    """Return why a text cannot be a place of JOURNAL_ANCHOR; an empty text if it can."""
    scheme, _, rest = place.partition(":")
    if scheme == "file" and rest.startswith("/"):
        return ""
    if scheme == "syslog" and (not rest or rest.rpartition(":")[2].isdigit()):
        return ""
    return f"`{place}` is not a place: write file:/PATH, syslog: or syslog:HOST:PORT"


def anchor_journal() -> int:
    """Write the head of the journal to every place that does not have it. Return the revision. Raise AnchorError."""
    head = current_head()
    if head.revision:
        record = json.dumps({"revision": head.revision, "at": head.at.isoformat(), "hash": head.hash, "key_id": head.key_id,
                             "mac": head.mac})
        for place in settings.JOURNAL_ANCHOR:
            scheme, _, rest = place.partition(":")
            if scheme == "file":
                _append_to_file(Path(rest), head, record)
            else:
                _send_to_syslog(rest, record)
    return head.revision


def _append_to_file(path: Path, head: JournalHead, record: str) -> None:
    try:
        # O_APPEND works with files that have the append-only attribute (`chattr +a`)
        with open(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600), "r+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            newest = _last_record(file)
            if newest and newest["revision"] > head.revision:
                raise AnchorError(f"{path} has line {newest['revision']} of the journal, but the journal ends at line "
                                  f"{head.revision}")
            if newest and newest["revision"] == head.revision:
                if newest["hash"] != head.hash:
                    raise AnchorError(f"{path} has another hash of line {head.revision}")
                return
            file.write(record.encode() + b"\n")
            os.fsync(file.fileno())
    except OSError as error:
        raise AnchorError(f"{path} cannot be written: {error.strerror}") from None


def anchored_revision(place: str) -> int:
    """Return the newest revision in an anchor file; 0 if there is none or it cannot be read."""
    try:
        with open(place.removeprefix("file:"), "rb") as file:
            record = _last_record(file)
            return record["revision"] if record else 0
    except (OSError, ValueError, KeyError):
        return 0


def _last_record(file) -> dict | None:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - MAX_RECORD_BYTES))
    lines = file.read().splitlines()
    return json.loads(lines[-1]) if lines else None


def _send_to_syslog(address: str, record: str) -> None:
    host, _, port = address.rpartition(":")
    try:
        handler = logging.handlers.SysLogHandler((host or "127.0.0.1", int(port)) if address else "/dev/log",
                                                 facility=logging.handlers.SysLogHandler.LOG_AUTH)
    except OSError as error:
        raise AnchorError(f"syslog cannot be reached: {error.strerror}") from None
    try:
        handler.emit(logging.LogRecord("authzconsole", logging.INFO, "", 0, "authzconsole journal %s", (record,), None))
    finally:
        handler.close()


class AnchorCheck:
    """Compare journal lines, in their order, with the records of the anchor files. Keeps one record of each file in memory."""

    def __init__(self):
        paths = [Path(place.removeprefix("file:")) for place in settings.JOURNAL_ANCHOR if place.startswith("file:")]
        self._records = {path: _records(path) for path in paths if path.exists()}
        self._next = {path: next(records, None) for path, records in self._records.items()}
        self._fault, self._newest = "", 0

    def check(self, values: tuple) -> None:
        self._newest = revision = values[_REVISION]
        for path, record in self._next.items():
            while record is not None and record[0] == revision and not self._fault:
                if record[1] != values[_HASH]:
                    self._fault = f"line {revision} differs from its anchor in {path}: the journal was rewritten"
                record = self._next[path] = next(self._records[path], None)

    def first_fault(self) -> str:
        """Return the first contradiction after all lines were checked; an empty text if there is none."""
        for path, record in self._next.items():
            if record is not None and not self._fault:
                what = "it is not in the order of the lines" if record[0] <= self._newest else (
                    f"the journal ends at line {self._newest}, so lines were removed")
                self._fault = f"{path} has an anchor of line {record[0]}, but {what}"
        return self._fault


def _records(path: Path) -> Iterator[tuple[int, str]]:
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                record = json.loads(line)
                yield record["revision"], record["hash"]
            except (ValueError, KeyError, TypeError):
                raise AnchorError(f"line {number} of {path} is not an anchor") from None
