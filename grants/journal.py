"""Append lines to the journal and verify it. Lines are numbered without gaps, and each has a hash over the
previous line.

INVARIANT: a change and its lines are written in one transaction, under the lock of the head row. Therefore
the revisions are in the order in which the changes took effect.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice

from django.db import transaction
from django.dispatch import Signal
from django.utils import timezone

from entities.frozen import frozen
from grants.author_names import ACCOUNT_SUFFIX, is_reserved_name
from grants.bulk_rows import database_time, insert_rows
from grants.errors import JournalReadOnly
from grants.journal_keys import head_fault, is_line_signed, signing_key
from grants.models import JournalHead, JournalLine, line_hash

# Actions that change neither data nor settings: a snapshot and a plan stay current after them. A finding is derived from
# data, and what is decided about it changes no decision about access.
NEUTRAL_ACTIONS = {
    "run-start": "Run started",
    "run-cancel": "Run cancelled",
    "plan-create": "Plan created",
    "events-seal": "Security events sealed",
    "finding-open": "Finding opened",
    "finding-accept": "Finding accepted",
    "finding-reopen": "Finding opened again",
    "finding-assign": "Finding assigned",
    "finding-rule-add": "Findings accepted by a rule",
    "finding-rule-end": "Rule about findings ended",
    "alert-add": "Alert added",
    "alert-delete": "Alert deleted",
    "connection-add": "Connection to a platform added",
    "connection-change": "Connection to a platform changed",
    "connection-delete": "Connection to a platform deleted",
    "connection-sync": "Console brought in line with a platform",
    "connection-push": "Platform brought in line with the console",
    "alert-fire": "Figure crossed the value of an alert",
}
# Steps of access requests. The grants of an approved request have lines of their own.
REQUEST_ACTIONS = {
    "request-create": "Access requested",
    "request-approve": "Request approved",
    "request-deny": "Request denied",
    "request-ask": "Question asked",
    "request-answer": "Question answered",
    "request-cancel": "Request withdrawn",
    "request-expire": "Request expired",
}
REVIEW_ACTIONS = {
    "review-start": "Review started",
    "review-answer": "Review items answered",
    "review-assign": "Review items moved",
    "review-sign-off": "Review items signed off",
    "review-finish": "Review finished",
    "review-cancel": "Review cancelled",
    "review-retry": "Review prepared again",
    "usage-import": "Use imported",
}
BREAK_GLASS_ACTIONS = {
    "break-glass-start": "Break-glass access started",
    "break-glass-end": "Break-glass access ended",
    "break-glass-review": "Break-glass access reviewed",
}
GUARDRAIL_ACTIONS = {
    "guardrail-propose": "Change of guardrails proposed",
    "guardrail-set": "Guardrail written",
    "guardrail-delete": "Guardrail deleted",
    "exception-set": "Exception from a guardrail made",
    "exception-end": "Exception from a guardrail ended",
    "guardrail-violate": "Guardrail violated",
}
# by the action of a line as it is stored, which never changes: its label
ACTIONS = {
    "grant": "Granted",
    "revoke": "Revoked",
    "begin": "Period began",
    "expire": "Expired",
    "plan": "Registered as planned",
    "register": "Registered",
    "delete": "Deleted",
    "recreate": "Recreated",
    "describe": "Description changed",
    "user-add": "User added",
    "user-invite": "User invited",
    "user-invite-cancel": "Invitation cancelled",
    "user-activate": "User activated",
    "user-deactivate": "User deactivated",
    "user-change": "User changed",
    "role-set": "Console role changed",
    "password-set": "Password set",
    "principal-add": "Account became a principal",
    "group-add": "Group added",
    "group-change": "Group changed",
    "group-remove": "Group removed",
    "member-add": "Member added",
    "member-remove": "Member removed",
    "generation-activate": "Generation activated",
    "plan-apply": "Plan applied",
    "schedule-on": "Nightly run switched on",
    "schedule-off": "Nightly run switched off",
    "schedule-change": "Nightly run changed",
    "token-add": "Token created",
    "token-revoke": "Token revoked",
    "seal": "Journal sealed",
    "plan-discard": "Plan discarded",
    "identity-link": "Identity linked",
    "identity-unlink": "Identity unlinked",
    "factor-add": "Second factor added",
    "factor-remove": "Second factor removed",
    "factor-reset": "Second factors reset",
    "user-rename": "User renamed",
    "user-remove": "User removed",
    "group-rename": "Group renamed",
    "token-remove": "Token removed",
    "storage-identity": "Storage identity changed",
    "sessions-end": "Sessions ended",
    "sign-in-limits-clear": "Sign-in limits cleared",
    "webhook-add": "Webhook created",
    "webhook-change": "Webhook changed",
    "webhook-delete": "Webhook deleted",
    **BREAK_GLASS_ACTIONS,
    **REQUEST_ACTIONS,
    "catalogue-publish": "Published in the catalogue",
    "catalogue-withdraw": "Withdrawn from the catalogue",
    "approvers-propose": "Approvers of a namespace proposed",
    "approvers-set": "Approvers of a namespace changed",
    "delegation-set": "Limits of delegation changed",
    "generation-propose": "Generation proposed",
    "generation-schedule": "Activation scheduled",
    "generation-schedule-cancel": "Scheduled activation cancelled",
    "generation-schedule-refuse": "Scheduled activation refused",
    "steward-propose": "Data steward proposed",
    "steward-add": "Data steward assigned",
    "steward-remove": "Data steward removed",
    **REVIEW_ACTIONS,
    **GUARDRAIL_ACTIONS,
    **NEUTRAL_ACTIONS,
}
# Actions about a grant on the entity of the line, or about its state. A line of a period without an entity is about a
# membership.
GRANT_ACTIONS = {"grant", "revoke", "begin", "expire"}
STATE_ACTIONS = {"plan", "register", "delete", "recreate"}
# Actions that can change a decision: grants, memberships, active users and the states of entities.
DECISION_ACTIONS = {
    "grant",
    "revoke",
    "begin",
    "expire",
    "register",
    "delete",
    "recreate",
    "user-activate",
    "user-deactivate",
    "principal-add",
    "member-add",
    "member-remove",
    "user-rename",
    "user-remove",
    "group-rename",
    "group-remove",
}
SEAL = "seal"
# This signal is sent with each batch of lines, in the transaction of the change.
lines_appended = Signal()
LINES_PER_BATCH = 2_000
MAX_LINES_PER_PROOF = 100_000
MAX_LINES_READ = 1_000
_COLUMNS = (*JournalLine.HASHED, "hash", "key_id", "mac")


@frozen
class JournalEntry:
    """The content of one journal line.

    Addresses and principals are in written form. reason: replaces the author's reason.
    """

    action: str
    principal: str = ""
    entity: str = ""
    privilege: str = ""
    detail: str = ""
    reason: str = ""


@frozen
class Author:
    """The author of a change, the reason and the request.

    name: the name of the account, or of the command; a command has no `user_id`. request_id: generated by the
    console.
    caller_request_id: sent by the caller. token: number of the API token of the request; issuer: the creator
    of the token.
    is_provisioner: the request has a token with the scope `provision` (grants.authority.transactions).
    """

    name: str
    reason: str = ""
    request_id: str = ""
    user_id: int | None = None
    caller_request_id: str = ""
    token: int | None = None
    issuer: str = ""
    is_provisioner: bool = False

    @property
    def actor(self) -> str:
        """Return the name in journal lines. It tells an account apart from a command of the same name."""
        return (
            self.name + ACCOUNT_SUFFIX
            if self.user_id is not None and is_reserved_name(self.name)
            else self.name
        )


@frozen
class ChainBreak:
    """The first line at which the chain does not hold."""

    revision: int
    sentence: str


@frozen
class Proof:
    """The result of verifying a part of the journal. verified_to: the last verified line. is_complete: it is
    the newest line.
    """

    chain_break: ChainBreak | None
    verified_to: int
    is_complete: bool


def lock_journal() -> JournalHead:
    """Lock the head row until the transaction ends. Call this before reading the data that a change depends
    on.

    Raise JournalReadOnly if this console cannot verify the signature of the head.
    """
    head, _ = JournalHead.objects.get_or_create(pk=1)
    head = JournalHead.objects.select_for_update().get(pk=head.pk)
    if fault := head_fault(head):
        raise JournalReadOnly(fault)
    return head


def append_to_journal(head: JournalHead, changes: Iterable[JournalEntry], *, author: Author) -> int:
    """Append one line for each change, after the locked `head`. Return the newest revision."""
    assert transaction.get_connection().in_atomic_block, (
        "a journal line is written in the transaction of its change"
    )
    # The times of lines must not decrease, but the clocks of servers differ and may be set back.
    head.at = at = max(now := timezone.now(), head.at or now)
    lines = _lines(head, changes, author, at)
    while batch := list(islice(lines, LINES_PER_BATCH)):
        insert_rows(JournalLine, _COLUMNS, [_row(line) for line in batch])
        lines_appended.send(sender=JournalLine, lines=batch)
    sign_head(head)
    head.save(update_fields=["revision", "at", "hash", "key_id", "mac"])
    return head.revision


def sign_head(head: JournalHead) -> None:
    key = signing_key()
    head.key_id, head.mac = key.key_id, key.sign_head(head.revision, head.hash)


def _row(line: JournalLine) -> tuple:
    revision, at, *rest = (getattr(line, column) for column in _COLUMNS)
    return (revision, database_time(at), *rest)


def _lines(head: JournalHead, changes: Iterable[JournalEntry], author: Author, at) -> Iterator[JournalLine]:
    key, actor = signing_key(), author.actor
    for change in changes:
        line = JournalLine(
            revision=head.revision + 1,
            at=at,
            actor=actor,
            action=change.action,
            principal=change.principal,
            entity=change.entity,
            privilege=change.privilege,
            detail=change.detail,
            reason=change.reason or author.reason,
            request_id=author.request_id,
            caller_request_id=author.caller_request_id,
            token=author.token,
            issuer=author.issuer,
        )
        line.hash = line.hash_after(head.hash)
        line.key_id, line.mac = key.key_id, key.sign_line(line.hash)
        head.revision, head.hash = line.revision, line.hash
        yield line


def current_revision() -> int:
    """Return the revision of the newest line; 0 for an empty journal."""
    return JournalHead.objects.filter(pk=1).values_list("revision", flat=True).first() or 0


def decision_changes_after(revision: int | None, also: Collection[str]) -> int:
    """Return how many journal lines after `revision` can change a decision, or have one of the actions `also`.

    Reads at most MAX_LINES_READ lines with one query. If there are more, return the number of all
    later lines, an upper bound, with a second query.
    """
    later_lines = JournalLine.objects.filter(revision__gt=revision or 0)
    actions = list(later_lines.order_by("revision").values_list("action", flat=True)[: MAX_LINES_READ + 1])
    if len(actions) > MAX_LINES_READ:
        return max(0, current_revision() - (revision or 0))
    return sum(action in DECISION_ACTIONS or action in also for action in actions)


def first_break(
    visit: Callable[[tuple], None] | None = None, *, is_signature_required: bool = True
) -> ChainBreak | None:
    """Verify the whole chain. Return the first line that breaks it, or None.

    Reads lines in batches and keeps one line in memory. Lines may be appended during the verification.
    visit: called with the values of each verified line, in the order of `VERIFIED_COLUMNS`.
    is_signature_required: whether lines without a known key, and the signature of the head, count as a break.
    """
    verifier, head = _ChainVerifier(visit=visit, is_signature_required=is_signature_required), current_head()
    while True:
        chain_break = verifier.verify_new_lines() or verifier.break_before(head)
        if chain_break is not None or verifier.revision == head.revision:
            return chain_break or (_unsigned_head(head) if is_signature_required else None)
        # The lines were read after the head. If lines were appended in between, there is a new head now.
        old_head, head = head, current_head()
        if head.revision < verifier.revision:
            return verifier.break_after(old_head)


def verify_part(after: int = 0, max_lines: int = MAX_LINES_PER_PROOF) -> Proof:
    """Verify at most `max_lines` lines after line `after`. Call this again with `verified_to` to continue."""
    previous = JournalLine.objects.filter(revision=after).first() if after > 0 else None
    if previous is None and after > 0:
        return Proof(ChainBreak(after, f"line {after} is missing"), 0, False)
    verifier, head = _ChainVerifier(previous), current_head()
    chain_break = verifier.verify_new_lines(max_lines)
    if chain_break is None and verifier.revision < after + max_lines:
        # fewer lines than allowed, so this is the end of the journal
        head = current_head() if verifier.revision > head.revision else head
        chain_break = (
            verifier.break_before(head)
            or (verifier.break_after(head) if verifier.revision > head.revision else None)
            or _unsigned_head(head)
        )
    return Proof(chain_break, verifier.revision, chain_break is None and verifier.revision >= head.revision)


def read_only_reason() -> str:
    """Return why nothing can be changed, such as a missing key; an empty string if changes are possible."""
    return head_fault(current_head())


def current_head() -> JournalHead:
    """Return the head; that of an empty journal if there is none."""
    return JournalHead.objects.filter(pk=1).first() or JournalHead()


def _unsigned_head(head: JournalHead) -> ChainBreak | None:
    fault = head_fault(head)
    return ChainBreak(head.revision, fault) if fault else None


def _sealed_to() -> int:
    """Return the revision of the newest `seal` line with a valid signature; 0 if there is none.

    Lines before it do not need a signature, because its signature covers their hashes.
    """
    seals = JournalLine.objects.filter(action=SEAL).order_by("-revision")
    return next(
        (line.revision for line in seals.iterator() if is_line_signed(line.key_id, line.mac, line.hash)), 0
    )


VERIFIED_COLUMNS = _COLUMNS
_HASH = _COLUMNS.index("hash")


class _ChainVerifier:
    """Verify the chain line by line. revision, hash: those of the last verified line."""

    def __init__(
        self,
        previous: JournalLine | None = None,
        visit: Callable[[tuple], None] | None = None,
        is_signature_required: bool = True,
    ):
        self.revision, self.hash = 0, JournalHead._meta.get_field("hash").default
        # Start below every possible revision, so that lines with a number below 1 are found too.
        self._last_read = -(2**63)
        if previous is not None:
            self.revision = self._last_read = previous.revision
            self.hash = previous.hash
        self._visit = visit
        self._last_unsigned = _sealed_to() if is_signature_required else 2**63

    def verify_new_lines(self, max_lines: int | None = None) -> ChainBreak | None:
        """Verify every line after the last verified line, or the first `max_lines` of them.

        Return the first break.
        """
        lines = (
            JournalLine.objects.filter(revision__gt=self._last_read)
            .order_by("revision")
            .values_list(*_COLUMNS)
        )
        for values in (lines[:max_lines] if max_lines else lines).iterator(chunk_size=LINES_PER_BATCH):
            if (chain_break := self._verify_line(values)) is not None:
                return chain_break
            if self._visit:
                self._visit(values)
        return None

    def _verify_line(self, values: tuple) -> ChainBreak | None:
        expected, revision = self.revision + 1, values[0]
        if revision < expected:
            return ChainBreak(revision, f"line {revision} was inserted: the first line has the number 1")
        if revision > expected:
            return ChainBreak(
                expected, f"line {expected} is missing: line {revision} follows line {self.revision}"
            )
        content_hash, key_id, mac = values[_HASH:]
        if content_hash != line_hash(self.hash, values[:_HASH]):
            return ChainBreak(
                expected, f"line {expected} was changed after it was written: its hash does not match"
            )
        is_signed = is_line_signed(key_id, mac, content_hash)
        if is_signed is False:
            return ChainBreak(
                expected,
                f"line {expected} was changed after it was written: its signature with the key {key_id} "
                f"does not match",
            )
        if is_signed is None and revision > self._last_unsigned:
            return ChainBreak(
                expected,
                f"line {expected} is signed with the key {key_id}, which is not in JOURNAL_KEYS"
                if key_id
                else f"line {expected} is not signed",
            )
        self.revision = self._last_read = revision
        self.hash = content_hash
        return None

    def break_before(self, head: JournalHead) -> ChainBreak | None:
        """Return a break if lines before `head` are missing, or if the last line was changed."""
        if self.revision < head.revision:
            missing = self.revision + 1
            return ChainBreak(
                missing,
                f"line {missing} is missing: the journal ends at line {self.revision}, but its head says "
                f"{head.revision}",
            )
        if self.revision == head.revision and self.hash != head.hash:
            return ChainBreak(
                self.revision,
                f"line {self.revision} was changed after it was written: its hash is not the head's",
            )
        return None

    def break_after(self, head: JournalHead) -> ChainBreak:
        """Return the break for lines that exist after `head`."""
        added = head.revision + 1
        return ChainBreak(
            added, f"line {added} was inserted: the head says that the journal ends at line {head.revision}"
        )
