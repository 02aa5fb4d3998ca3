"""Append to the journal and verify it: lines numbered without gaps, each with a hash over the line before.

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
# Actions that can change a decision: grants, memberships, active users and the states of entities.
DECISION_ACTIONS = {"grant", "revoke", "register", "delete", "recreate", "user-activate", "user-deactivate", "principal-add",
            "member-add", "member-remove"}
LINES_PER_BATCH = 2_000
MAX_LINES_READ = 1_000
_COLUMNS = (*JournalLine.HASHED, "hash")


@dataclass(frozen=True, slots=True)
class Change:
    """The content of one journal line. Addresses and principals are in written form. reason: overrides the author's."""

    action: str
    principal: str = ""
    entity: str = ""
    privilege: str = ""
    detail: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Author:
    """The author of a change, the reason and the request. name: of the account or of the command (without `user_id`)."""

    name: str
    reason: str = ""
    request_id: str = ""
    user_id: int | None = None


@dataclass(frozen=True, slots=True)
class ChainBreak:
    """The first line at which the chain does not hold."""

    revision: int
    sentence: str


def lock_journal() -> JournalHead:
    """Lock the head row until the transaction ends. Call this before reading the data that a change depends on."""
    head, _ = JournalHead.objects.get_or_create(pk=1)
    return JournalHead.objects.select_for_update().get(pk=head.pk)


def append_to_journal(head: JournalHead, changes: Iterable[Change], *, author: Author) -> int:
    """Append one line per change under the locked `head`. Returns the newest revision."""
    assert transaction.get_connection().in_atomic_block, "a journal line is written in the transaction of its change"
    # Clocks differ between servers and may be set back. Times of lines never decrease.
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
    """Return the revision of the newest line; 0 for an empty journal."""
    return JournalHead.objects.filter(pk=1).values_list("revision", flat=True).first() or 0


def decision_changes_after(revision: int | None) -> int:
    """Return how many journal lines after a revision can change a decision.

    Takes one or two queries that read at most MAX_LINES_READ lines; if there are more, return the number of all lines.
    """
    later_lines = JournalLine.objects.filter(revision__gt=revision or 0)
    actions = list(later_lines.order_by("revision").values_list("action", flat=True)[: MAX_LINES_READ + 1])
    if len(actions) > MAX_LINES_READ:
        return max(0, current_revision() - (revision or 0))
    return sum(action in DECISION_ACTIONS for action in actions)


def first_break() -> ChainBreak | None:
    """Verify the whole chain and return the first line where it breaks, or None.

    Reads in chunks, keeps one line in memory, and works while new lines are appended.
    """
    walk, head = _Walk(), _head()
    while True:
        chain_break = walk.follow_lines() or walk.break_before(head)
        if chain_break is not None or walk.revision == head.revision:
            return chain_break
        # The lines were read after the head. If lines were appended in between, the head has moved.
        old_head, head = head, _head()
        if head.revision < walk.revision:
            return walk.break_after(old_head)


def _head() -> JournalHead:
    return JournalHead.objects.filter(pk=1).first() or JournalHead()


class _Walk:
    """The position up to which the chain is verified."""

    def __init__(self):
        self.revision, self.hash = 0, JournalHead._meta.get_field("hash").default
        # Smaller than any revision, so that a line with a number below 1 is found too.
        self._seen = -(2**63)

    def follow_lines(self) -> ChainBreak | None:
        """Verify every line that exists now, and return the first break."""
        lines = JournalLine.objects.filter(revision__gt=self._seen).order_by("revision")
        for line in lines.iterator(chunk_size=LINES_PER_BATCH):
            if (chain_break := self._follow(line)) is not None:
                return chain_break
        return None

    def _follow(self, line: JournalLine) -> ChainBreak | None:
        expected = self.revision + 1
        if line.revision < expected:
            return ChainBreak(line.revision, f"line {line.revision} was inserted: the first line has the number 1")
        if line.revision > expected:
            return ChainBreak(expected, f"line {expected} is missing: line {line.revision} follows line {self.revision}")
        if line.hash != line.hash_after(self.hash):
            return ChainBreak(expected, f"line {expected} was changed after it was written: its hash does not match")
        self.revision = self._seen = line.revision
        self.hash = line.hash
        return None

    def break_before(self, head: JournalHead) -> ChainBreak | None:
        """Return a break if lines are missing before `head` or the last one was changed."""
        if self.revision < head.revision:
            missing = self.revision + 1
            return ChainBreak(missing, f"line {missing} is missing: the journal ends at line {self.revision} where its head says "
                                  f"{head.revision}")
        if self.revision == head.revision and self.hash != head.hash:
            return ChainBreak(self.revision, f"line {self.revision} was changed after it was written: its hash is not the head's")
        return None

    def break_after(self, head: JournalHead) -> ChainBreak:
        added = head.revision + 1
        return ChainBreak(added, f"line {added} was inserted: the head says that the journal ends at line {head.revision}")
