"""Append lines to the journal and verify it. Lines are numbered without gaps, and each has a hash over the previous line.

INVARIANT: a change and its lines are written in one transaction, under the lock of the head row. Therefore the revisions are
in the order in which the changes took effect.
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
    """The content of one journal line. Addresses and principals are in written form. reason: replaces the author's reason."""

    action: str
    principal: str = ""
    entity: str = ""
    privilege: str = ""
    detail: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Author:
    """The author of a change, the reason and the request.

    name: the name of the account, or of the command; a command has no `user_id`.
    """

    name: str
    reason: str = ""
    request_id: str = ""
    user_id: int | None = None


@dataclass(frozen=True, slots=True)
class ChainBreak:
    """The first line that breaks the hash chain."""

    revision: int
    sentence: str


def lock_journal() -> JournalHead:
    """Lock the head row until the transaction ends. Call this before reading the data on which a change depends."""
    head, _ = JournalHead.objects.get_or_create(pk=1)
    return JournalHead.objects.select_for_update().get(pk=head.pk)


def append_to_journal(head: JournalHead, changes: Iterable[Change], *, author: Author) -> int:
    """Append one line for each change, after the locked `head`. Return the newest revision."""
    assert transaction.get_connection().in_atomic_block, "a journal line is written in the transaction of its change"
    # The times of lines must not decrease, but the clocks of servers differ and may be set back.
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
    """Return how many journal lines after `revision` can change a decision.

    Reads at most MAX_LINES_READ lines with one query. If there are more, return the number of all lines with a second query.
    """
    later_lines = JournalLine.objects.filter(revision__gt=revision or 0)
    actions = list(later_lines.order_by("revision").values_list("action", flat=True)[: MAX_LINES_READ + 1])
    if len(actions) > MAX_LINES_READ:
        return max(0, current_revision() - (revision or 0))
    return sum(action in DECISION_ACTIONS for action in actions)


def first_break() -> ChainBreak | None:
    """Verify the whole chain. Return the first line that breaks it, or None.

    Reads lines in batches and keeps one line in memory. Lines may be appended during the verification.
    """
    verifier, head = _ChainVerifier(), _head()
    while True:
        chain_break = verifier.verify_new_lines() or verifier.break_before(head)
        if chain_break is not None or verifier.revision == head.revision:
            return chain_break
        # The lines were read after the head. If lines were appended in between, there is a new head now.
        old_head, head = head, _head()
        if head.revision < verifier.revision:
            return verifier.break_after(old_head)


def _head() -> JournalHead:
    return JournalHead.objects.filter(pk=1).first() or JournalHead()


class _ChainVerifier:
    """Verify the chain line by line. revision, hash: of the last verified line."""

    def __init__(self):
        self.revision, self.hash = 0, JournalHead._meta.get_field("hash").default
        # Start below every possible revision, so that lines with a number below 1 are found too.
        self._last_read = -(2**63)

    def verify_new_lines(self) -> ChainBreak | None:
        """Verify every line after the last verified line, and return the first break."""
        lines = JournalLine.objects.filter(revision__gt=self._last_read).order_by("revision")
        for line in lines.iterator(chunk_size=LINES_PER_BATCH):
            if (chain_break := self._verify_line(line)) is not None:
                return chain_break
        return None

    def _verify_line(self, line: JournalLine) -> ChainBreak | None:
        expected = self.revision + 1
        if line.revision < expected:
            return ChainBreak(line.revision, f"line {line.revision} was inserted: the first line has the number 1")
        if line.revision > expected:
            return ChainBreak(expected, f"line {expected} is missing: line {line.revision} follows line {self.revision}")
        if line.hash != line.hash_after(self.hash):
            return ChainBreak(expected, f"line {expected} was changed after it was written: its hash does not match")
        self.revision = self._last_read = line.revision
        self.hash = line.hash
        return None

    def break_before(self, head: JournalHead) -> ChainBreak | None:
        """Return a break if lines before `head` are missing, or if the last line was changed."""
        if self.revision < head.revision:
            missing = self.revision + 1
            return ChainBreak(missing, f"line {missing} is missing: the journal ends at line {self.revision} where its head says "
                                       f"{head.revision}")
        if self.revision == head.revision and self.hash != head.hash:
            return ChainBreak(self.revision, f"line {self.revision} was changed after it was written: its hash is not the head's")
        return None

    def break_after(self, head: JournalHead) -> ChainBreak:
        """Return the break for lines that exist after `head`."""
        added = head.revision + 1
        return ChainBreak(added, f"line {added} was inserted: the head says that the journal ends at line {head.revision}")
