"""The journal: append-only, numbered without gaps, each line's hash chained to the line before.

INVARIANT: a change and its lines are written in one transaction, under the lock of the head row, so that revisions follow
the order in which changes took effect.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from django.db import transaction
from django.utils import timezone

from grants.bulk_rows import database_time, insert_rows
from grants.models import JournalHead, JournalLine

ACTIONS = (
    "grant", "revoke", "plan", "register", "delete", "recreate", "describe", "user-add", "user-activate", "user-deactivate",
    "user-change", "role-set", "password-set", "principal-add", "group-add", "member-add", "member-remove", "generation-activate",
    "plan-apply", "schedule-on", "schedule-off", "schedule-change", "token-add", "token-revoke",
)
# what a decision is made of: grants, memberships, who is active, and what there is
DECISION_ACTIONS = {"grant", "revoke", "register", "delete", "recreate", "user-activate", "user-deactivate", "principal-add",
            "member-add", "member-remove"}
LINES_PER_BATCH = 2_000
MAX_LINES_READ = 1_000
_COLUMNS = (*JournalLine.HASHED, "hash")


@dataclass(frozen=True, slots=True)
class Change:
    """What one line says happened. Addresses and principals in their written form. reason: its own, where it has one."""

    action: str
    principal: str = ""
    entity: str = ""
    privilege: str = ""
    detail: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Author:
    """Who changes something, why, and in which request. name: the account's name, or the command's."""

    name: str
    reason: str = ""
    request_id: str = ""
    user_id: int | None = None


@dataclass(frozen=True, slots=True)
class Break:
    """The first line at which the chain does not hold."""

    revision: int
    sentence: str


def lock_journal() -> JournalHead:
    """The head row, locked until the transaction ends. Take it before reading what a change depends on."""
    head, _ = JournalHead.objects.get_or_create(pk=1)
    return JournalHead.objects.select_for_update().get(pk=head.pk)


def append_to_journal(head: JournalHead, changes: Iterable[Change], *, author: Author) -> int:
    """Append one line per change under the locked `head`. Returns the newest revision."""
    assert transaction.get_connection().in_atomic_block, "a journal line is written in the transaction of its change"
    # the clocks of two servers differ, and a clock may be set back: lines keep their order in time, too
    head.at = at = max(now := timezone.now(), head.at or now)
    lines = _lines(head, changes, author, at)
    while batch := list(islice(lines, LINES_PER_BATCH)):
        insert_rows(JournalLine, _COLUMNS, [_row(line) for line in batch])
    head.save(update_fields=["revision", "at", "hash"])
    return head.revision


def _row(line: JournalLine) -> tuple:
    revision, at, *rest = (getattr(line, column) for column in _COLUMNS)
    return (revision, database_time(at), *rest)


def _lines(head: JournalHead, changes: Iterable[Change], author: Author, at) -> Iterator[JournalLine]:
    for change in changes:
        line = JournalLine(
            revision=head.revision + 1, at=at, actor=author.name, action=change.action, principal=change.principal,
            entity=change.entity, privilege=change.privilege, detail=change.detail,
            reason=change.reason or author.reason, request_id=author.request_id,
        )
        line.hash = line.hash_after(head.hash)
        head.revision, head.hash = line.revision, line.hash
        yield line


def current_revision() -> int:
    """The revision of the newest change; 0 before the first."""
    return JournalHead.objects.filter(pk=1).values_list("revision", flat=True).first() or 0


def decision_changes_after(revision: int | None) -> int:
    """How many changes since that revision may make another answer of a decision. One or two queries, which read no more than
    MAX_LINES_READ lines; past that it is how many lines there are."""
    later = JournalLine.objects.filter(revision__gt=revision or 0)
    read = list(later.order_by("revision").values_list("action", flat=True)[: MAX_LINES_READ + 1])
    if len(read) > MAX_LINES_READ:
        return max(0, current_revision() - (revision or 0))
    return sum(action in DECISION_ACTIONS for action in read)


def first_break() -> Break | None:
    """Walk the whole chain; None when it holds. Reads in chunks, keeps one line in memory. Changes may go on meanwhile."""
    walk, head = _Walk(), _head()
    while True:
        found = walk.on() or walk.behind(head)
        if found is not None or walk.revision == head.revision:
            return found
        # the lines were read after the head: what was added between has moved it
        ended, head = head, _head()
        if head.revision < walk.revision:
            return walk.beyond(ended)


def _head() -> JournalHead:
    return JournalHead.objects.filter(pk=1).first() or JournalHead()


class _Walk:
    """How far the chain was followed."""

    def __init__(self):
        self.revision, self.hash = 0, JournalHead._meta.get_field("hash").default
        # further back than any number, or a line before the first would not be seen
        self._seen = -(2**63)

    def on(self) -> Break | None:
        """Follow every line that is there now."""
        lines = JournalLine.objects.filter(revision__gt=self._seen).order_by("revision")
        for line in lines.iterator(chunk_size=LINES_PER_BATCH):
            if (found := self._follow(line)) is not None:
                return found
        return None

    def _follow(self, line: JournalLine) -> Break | None:
        expected = self.revision + 1
        if line.revision < expected:
            return Break(line.revision, f"line {line.revision} was inserted: the first line has the number 1")
        if line.revision > expected:
            return Break(expected, f"line {expected} is missing: line {line.revision} follows line {self.revision}")
        if line.hash != line.hash_after(self.hash):
            return Break(expected, f"line {expected} was changed after it was written: its hash does not match")
        self.revision = self._seen = line.revision
        self.hash = line.hash
        return None

    def behind(self, head: JournalHead) -> Break | None:
        """What is missing or changed before `head`."""
        if self.revision < head.revision:
            missing = self.revision + 1
            return Break(missing, f"line {missing} is missing: the journal ends at line {self.revision} where its head says "
                                  f"{head.revision}")
        if self.revision == head.revision and self.hash != head.hash:
            return Break(self.revision, f"line {self.revision} was changed after it was written: its hash is not the head's")
        return None

    def beyond(self, head: JournalHead) -> Break:
        added = head.revision + 1
        return Break(added, f"line {added} was inserted: the head says that the journal ends at line {head.revision}")
