"""The journal: append-only, numbered without gaps, each line's hash chained to the line before.

INVARIANT: a change and its lines are written in one transaction, under the lock of the head row, so that revisions follow
the order in which changes took effect.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from django.db import transaction
from django.utils import timezone

from grants.models import JournalHead, JournalLine

LINES_AT_ONCE = 2_000


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


def journal_lock() -> JournalHead:
    """The head row, locked until the transaction ends. Take it before reading what a change depends on."""
    head, _ = JournalHead.objects.get_or_create(pk=1)
    return JournalHead.objects.select_for_update().get(pk=head.pk)


def journal_append(head: JournalHead, changes: Iterable[Change], *, author: Author) -> int:
    """Append one line per change under the locked `head`. Returns the newest revision."""
    assert transaction.get_connection().in_atomic_block, "a journal line is written in the transaction of its change"
    at = timezone.now()
    lines = _lines(head, changes, author, at)
    while batch := list(islice(lines, LINES_AT_ONCE)):
        JournalLine.objects.bulk_create(batch)
    head.save(update_fields=["revision", "hash"])
    return head.revision


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


def first_break() -> Break | None:
    """Walk the whole chain; None when it holds. Reads in chunks, keeps one line in memory."""
    expected, previous_hash = 1, JournalHead._meta.get_field("hash").default
    for line in JournalLine.objects.order_by("revision").iterator(chunk_size=LINES_AT_ONCE):
        if line.revision != expected:
            return Break(expected, f"line {expected} is missing: line {line.revision} follows line {expected - 1}")
        if line.hash != line.hash_after(previous_hash):
            return Break(line.revision, f"line {line.revision} was changed after it was written: its hash does not match")
        expected, previous_hash = expected + 1, line.hash
    head = JournalHead.objects.filter(pk=1).first()
    if head is not None and (head.revision, head.hash) != (expected - 1, previous_hash):
        return Break(expected, f"line {expected} is missing: the journal ends at line {expected - 1} "
                               f"where its head says {head.revision}")
    return None
