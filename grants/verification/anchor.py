"""Anchor the head of the journal outside the database, and compare the journal with its anchors."""

from collections.abc import Iterator
from pathlib import Path

from django.conf import settings

from grants.journal import current_head
from grants.models import JournalLine
from grants.verification.anchor_places import AnchorError, AnchorPlace, FilePlace, anchor_place

_REVISION, _HASH = JournalLine.HASHED.index("revision"), len(JournalLine.HASHED)


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

    def __init__(self):
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
