"""What accounts decide about findings: accept until a time, open again, assign an owner, and rules that accept classes.

Every change leaves a journal line. Administrators make them.
"""

from collections.abc import Collection
from datetime import datetime

from django.utils import timezone

from authzconsole.findings.kinds import KINDS, finding_text
from authzconsole.findings.refresh import finding_sentence
from authzconsole.findings.rules import active_rules, matches
from authzconsole.models import AcceptanceRule, Finding, FindingState
from entities.text import storage_fault
from entities.vocabulary import clip, quantity
from grants.authority.transactions import administrator_transaction
from grants.errors import GrantError
from grants.journal import Author, JournalEntry, append_to_journal
from grants.models import User
from grants.outcomes import Outcome
from grants.policies.times import format_time
from grants.roles.capabilities import Capability, roles_with

# findings that one change is about
MAX_CHANGED = 200
MAX_RULES = 200
MAX_PATTERN_CHARACTERS = 300
MAX_NAMED = 3
# an account with this capability sees all findings
READER = Capability.READ_JOURNAL


class FindingError(GrantError):
    """A decision about findings is refused. field: at fault, if there is exactly one."""


class UnknownFinding(FindingError):
    """There is no such finding or rule."""

    status = 404


class FindingResolved(FindingError):
    """The finding was resolved meanwhile, so there is nothing to decide about it."""

    status = 409


def can_read_findings(account: User) -> bool:
    """Return whether the account sees all findings."""
    return account.can_see_all and account.can(READER)


def accept_findings(numbers: Collection[int], *, until: datetime | None, author: Author) -> Outcome:
    """Accept findings until a time. The reason is that of the author.

    Raise FindingError if the time has passed or a reason is missing, UnknownFinding, or FindingResolved.
    """
    until = _checked_end(until, author)
    with administrator_transaction(author) as head:
        rows = _lock_unresolved(numbers)
        for row in rows:
            row.accept(until, reason=author.reason, by=author.name)
            row.record("accepted", by=author.name, text=f"until {format_time(until)}: {author.reason}")
            row.save()
        entries = [_entry("finding-accept", row, f"until {format_time(until)}") for row in rows]
        revision = append_to_journal(head, entries, author=author)
    return Outcome(True, f"{_count_text(rows)} accepted", revision)


def reopen_findings(numbers: Collection[int], *, author: Author) -> Outcome:
    """Open accepted findings again. A rule that accepted them no longer does, because it must not contradict this: end it
    first. Raise FindingError, UnknownFinding, or FindingResolved.
    """
    with administrator_transaction(author) as head:
        rows = [row for row in _lock_unresolved(numbers) if row.state == FindingState.ACCEPTED]
        if ruled := next((row for row in rows if row.rule_id is not None), None):
            raise FindingError(f"{ruled} is accepted by rule {ruled.rule_id}: end the rule to open it again")
        if not rows:
            return Outcome(False, "the findings are open already: nothing changed", head.revision)
        for row in rows:
            row.end_acceptance()
            row.record("reopened", by=author.name, text=author.reason)
            row.save()
        revision = append_to_journal(head, [_entry("finding-reopen", row) for row in rows], author=author)
    return Outcome(True, f"{_count_text(rows)} opened again", revision)


def assign_findings(numbers: Collection[int], *, owner: str, author: Author) -> Outcome:
    """Assign findings to an account that can read them. owner: its name; empty to remove the owner.

    Raise FindingError if the account cannot read findings, UnknownFinding, or FindingResolved.
    """
    with administrator_transaction(author) as head:
        account = None
        if owner:
            readers = User.objects.filter(role__in=roles_with(READER), is_active=True)
            account = readers.filter(username=owner).first()
            if account is None:
                raise FindingError(
                    f"`{clip(owner)}` cannot own findings: name an active administrator or auditor",
                    field="owner",
                )
        rows = [row for row in _lock_unresolved(numbers) if row.owner_id != (account and account.pk)]
        if not rows:
            return Outcome(False, "the findings have this owner already: nothing changed", head.revision)
        text = f"to {owner}" if owner else "to nobody"
        for row in rows:
            row.owner = account
            row.record("assigned", by=author.name, text=text)
            row.save()
        entries = [_entry("finding-assign", row, text) for row in rows]
        revision = append_to_journal(head, entries, author=author)
    return Outcome(True, f"{_count_text(rows)} assigned {text}", revision)


def add_rule(
    *, kind: str, pattern: str, until: datetime | None, author: Author
) -> tuple[AcceptanceRule, Outcome]:
    """Accept the findings of a kind whose subjects have the form of a pattern, also later ones, until a time.

    Raise FindingError if the kind is unknown, if no finding matches, if another rule overlaps, or as `accept_findings`
    does.
    """
    if kind not in KINDS:
        raise FindingError(
            f"`{clip(kind)}` is not a kind of findings; the kinds are {', '.join(KINDS)}", field="kind"
        )
    if not pattern or storage_fault(pattern, MAX_PATTERN_CHARACTERS):
        raise FindingError(
            f"enter a pattern of at most {MAX_PATTERN_CHARACTERS} characters, such as `namespace:sandbox*`, or `*`",
            field="pattern",
        )
    until = _checked_end(until, author)
    with administrator_transaction(author) as head:
        unresolved = Finding.objects.select_for_update().filter(kind=kind, resolved_at=None).order_by("pk")
        rows = [row for row in unresolved if matches(pattern, row.subject)]
        if not rows:
            raise FindingError(
                f"the pattern `{clip(pattern)}` matches no {KINDS[kind].title.lower()} now: correct it, or wait for the "
                "first finding",
                field="pattern",
            )
        rules = [rule for rule in active_rules() if rule.kind == kind]
        if other := next((rule for rule in rules if _overlaps(rule, pattern, rows)), None):
            raise FindingError(
                f"the pattern overlaps {other}, `{other.pattern}`, which accepts some of the same findings: end that "
                "rule first, or narrow the pattern",
                field="pattern",
            )
        if len(rules) >= MAX_RULES:
            raise FindingError(f"there are {MAX_RULES} rules already, which is the limit")
        # one that has ended keeps its pattern
        AcceptanceRule.objects.filter(kind=kind, pattern=pattern).delete()
        rule = AcceptanceRule.objects.create(
            kind=kind,
            pattern=pattern,
            until=until,
            reason=author.reason,
            made_by=author.name,
            made_at=timezone.now(),
        )
        accepted = [row for row in rows if row.state == FindingState.OPEN]
        for row in accepted:
            row.accept(until, reason=author.reason, by=author.name, rule=rule)
            row.record("accepted", by=author.name, text=f"by {rule}")
            row.save()
        detail = f"{rule}: {kind}, {pattern}, until {format_time(until)}"
        revision = append_to_journal(head, [JournalEntry("finding-rule-add", detail=detail)], author=author)
    return rule, Outcome(True, f"{rule} was added, and accepts {_count_text(accepted)} now", revision)


def end_rule(number: int, *, author: Author) -> Outcome:
    """End a rule. What it accepted is open again. Raise UnknownFinding if there is no such rule."""
    with administrator_transaction(author) as head:
        rule = AcceptanceRule.objects.filter(pk=number).first()
        if rule is None:
            raise UnknownFinding(f"there is no rule with the number {number}")
        rows = list(Finding.objects.select_for_update().filter(rule=rule).order_by("pk"))
        for row in rows:
            row.end_acceptance()
            row.record("reopened", by=author.name, text=f"{rule} was ended")
            row.save()
        entry = JournalEntry("finding-rule-end", detail=f"{rule}: {rule.kind}, {rule.pattern}")
        revision = append_to_journal(head, [entry], author=author)
        rule.delete()
    return Outcome(True, f"rule {number} was ended; {_count_text(rows)} opened again", revision)


def _checked_end(until: datetime | None, author: Author) -> datetime:
    """Return the end of an acceptance. Raise FindingError without an end in the future and a reason."""
    if until is None:
        raise FindingError("enter the last day, such as 2027-03-01", field="until")
    if until <= timezone.now():
        raise FindingError(f"the end {format_time(until)} is in the past: enter a later day", field="until")
    if not author.reason.strip():
        raise FindingError("enter a reason: readers of the journal need it", field="reason")
    return until


def _lock_unresolved(numbers: Collection[int]) -> list[Finding]:
    """Lock the findings and return them. Raise FindingError, UnknownFinding or FindingResolved."""
    if not numbers:
        raise FindingError("select at least one finding")
    if len(numbers) > MAX_CHANGED:
        raise FindingError(f"select at most {MAX_CHANGED} findings at once")
    found = {row.pk: row for row in Finding.objects.select_for_update().filter(pk__in=numbers).order_by("pk")}
    if missing := next((number for number in numbers if number not in found), None):
        raise UnknownFinding(f"there is no finding with the number {missing}")
    if resolved := [str(row.pk) for row in found.values() if row.resolved_at is not None]:
        names = ", ".join(resolved[:MAX_NAMED])
        raise FindingResolved(
            f"{quantity(len(resolved), 'finding was', 'findings were')} resolved meanwhile ({names}): look at the list "
            "again; nothing was changed"
        )
    return list(found.values())


def _overlaps(rule: AcceptanceRule, pattern: str, rows: list[Finding]) -> bool:
    """Return whether a rule and a pattern accept the same findings: one covers the other, or both match one of the rows."""
    return (
        matches(rule.pattern, pattern)
        or matches(pattern, rule.pattern)
        or any(matches(rule.pattern, row.subject) for row in rows)
    )


def _entry(action: str, row: Finding, text: str = "") -> JournalEntry:
    sentence = finding_sentence(row)
    return JournalEntry(action, detail=f"{sentence}; {text}" if text else sentence)


def _count_text(rows: list[Finding]) -> str:
    """Return the number of findings; the text of a single one."""
    if len(rows) == 1:
        return f"{rows[0]} ({finding_text(rows[0])})"
    return quantity(len(rows), "finding", "findings")
