"""Store what the sources find: new findings open, known ones keep what was decided about them, and what is no longer found
is resolved.

Pages that show findings refresh them first, so that a fix is seen at once. Only differences are written. A periodic task
does the same, and appends a journal line for each new error.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from analytics.runs.selectors import changes_since_each
from authzconsole.findings.kinds import KINDS, finding_text, in_state
from authzconsole.findings.rules import active_rules, rule_for
from authzconsole.findings.sources import (
    GUARDRAIL_KINDS,
    SOURCES,
    Found,
    Situation,
    is_large_tenant,
    violations_by_guardrail,
)
from authzconsole.models import AcceptanceRule, Finding, FindingState, Severity
from grants.authority.transactions import administrator_transaction
from grants.jobs import JobContext, JobResult, request_job
from grants.journal import Author, JournalEntry, append_to_journal
from grants.models import UNFINISHED_STATES, Guardrail, Job

AUTHOR = Author("findings")
OPEN_ACTION = "finding-open"
GUARDRAIL_JOB = "guardrail-check"
CHECK_EVERY = timedelta(hours=23)
RESOLVED_KEPT = timedelta(days=400)
MAX_ANNOUNCED = 100
_WRITTEN = (
    "figure",
    "note",
    "run",
    "since",
    "resolved_at",
    "accepted_until",
    "accepted_reason",
    "accepted_by",
    "accepted_figure",
    "rule",
    "is_announced",
    "notified_at",
    "history",
)
# kind and subject
Key = tuple[str, str]


def refresh_findings(
    situation: Situation | None = None, *, is_page: bool = False, kind: str = ""
) -> list[Finding]:
    """Find and store what needs attention. Return the unresolved findings, without their history.

    situation: if it is known already. is_page: a page waits, so the reports of a large tenant are left to the periodic task.
    kind: only what finds this kind of findings.
    Runs about 20 queries if nothing changed, and reads a report once, and again after a change if it is short.
    """
    situation = situation or Situation.now()
    unresolved = _unresolved_findings()
    by_key = {(row.kind, row.subject): row for row in unresolved}
    reads_reports = not (is_page and situation.is_large)
    situation = replace(
        situation,
        reads_reports=reads_reports,
        stored={row.kind: row.run_id for row in unresolved if row.run_id},
        changes=changes_since_each(situation.reports.values()) if reads_reports else {},
    )
    is_changed = False
    for kinds, find in SOURCES.items():
        found = find(situation) if kind in ("", *kinds) else None
        if found is not None:
            is_changed |= store_findings(kinds, found, by_key)
    return _unresolved_findings() if is_changed else unresolved


def _unresolved_findings() -> list[Finding]:
    return list(Finding.objects.filter(resolved_at=None).defer("history"))


def store_findings(
    kinds: tuple[str, ...], found: Iterable[Found], unresolved: Mapping[Key, Finding] | None = None
) -> bool:
    """Make the unresolved findings of these kinds those that were found. Return whether something was written.

    unresolved: those that are stored, if they were read already; then no query runs if nothing differs.
    """
    rows = {(row.kind, row.subject): row for row in found}
    if unresolved is None:
        unresolved = _stored_findings(kinds, rows)
    if not _differences(rows, {key: row for key, row in unresolved.items() if row.kind in kinds}):
        return False
    with transaction.atomic():
        # read again under a lock, because an account may decide about a finding meanwhile
        stored = _stored_findings(kinds, rows, is_locked=True)
        changed = _differences(rows, stored)
        if not changed:
            return True
        rules = active_rules()
        new = [_update(stored.get(key) or _new_finding(key), rows.get(key), rules) for key in changed]
        Finding.objects.bulk_create([row for row in new if row.pk is None], ignore_conflicts=True)
        Finding.objects.bulk_update([row for row in new if row.pk is not None], _WRITTEN)
    return True


def _stored_findings(
    kinds: tuple[str, ...], found: dict[Key, Found], *, is_locked: bool = False
) -> dict[Key, Finding]:
    """Return the unresolved findings of these kinds, and the resolved ones that were found again."""
    subjects = {subject for _, subject in found}
    rows = Finding.objects.filter(kind__in=kinds).filter(Q(resolved_at=None) | Q(subject__in=subjects))
    # in one order, so that two refreshes do not wait for each other
    rows = rows.select_for_update().order_by("pk") if is_locked else rows
    return {(row.kind, row.subject): row for row in rows}


def _differences(found: dict[Key, Found], stored: dict[Key, Finding]) -> list[Key]:
    """Return the keys of the findings to write: new, changed, and no longer found."""
    gone = [key for key, row in stored.items() if row.resolved_at is None and key not in found]
    return [key for key, row in found.items() if not _is_stored(row, stored.get(key))] + gone


def _is_stored(found: Found, row: Finding | None) -> bool:
    run = found.run and found.run.pk
    return (
        row is not None
        and row.resolved_at is None
        and (row.figure, row.note, row.run_id) == (found.figure, found.note, run)
    )


def _new_finding(key: Key) -> Finding:
    kind, subject = key
    return Finding(
        kind=kind,
        subject=subject,
        severity=KINDS[kind].severity,
        # the time is set when it opens
        resolved_at=timezone.now(),
        since=timezone.now(),
    )


def _update(row: Finding, found: Found | None, rules: list[AcceptanceRule]) -> Finding:
    """Bring a finding up to date without saving it, and return it. found: None if it was not found."""
    now = timezone.now()
    if found is None:
        row.resolved_at = now
        row.record("resolved")
        return row
    before, was_resolved = row.figure, row.resolved_at is not None
    row.figure, row.note, row.run = found.figure, found.note, found.run
    if was_resolved:
        row.since, row.resolved_at, row.is_announced, row.notified_at = now, None, False, None
        row.record("opened", text=finding_text(row))
    elif row.figure != before:
        row.record("changed", text=finding_text(row))
    has_grown = row.rule_id is None and row.figure > row.accepted_figure
    if row.state == FindingState.ACCEPTED and has_grown:
        row.end_acceptance()
        row.is_announced, row.notified_at = False, None
        row.record("reopened", text="more than what was accepted")
    if row.state == FindingState.OPEN and (rule := rule_for(row, rules)):
        row.accept(rule.until, reason=rule.reason, by=rule.made_by, rule=rule)
        row.record("accepted", by=rule.made_by, text=f"by {rule}")
    return row


def sweep_findings() -> None:
    """Refresh the findings, announce new errors, and delete what was resolved long ago."""
    refresh_findings()
    since = timezone.now() - CHECK_EVERY
    if is_large_tenant() and not Job.objects.filter(type=GUARDRAIL_JOB, requested_at__gt=since).exists():
        request_guardrail_check()
    announce_errors()
    Finding.objects.filter(resolved_at__lt=timezone.now() - RESOLVED_KEPT).delete()


def announce_errors() -> int:
    """Append a journal line for each open error that has none, for webhooks. Return their number.

    Raise JournalReadOnly.
    """
    rows = in_state(Finding.objects.filter(severity=Severity.ERROR, is_announced=False), FindingState.OPEN)
    if not rows.exists():
        return 0
    with administrator_transaction(AUTHOR) as head:
        new = list(rows.select_for_update().order_by("pk")[:MAX_ANNOUNCED])
        append_to_journal(
            head, [JournalEntry(OPEN_ACTION, detail=finding_sentence(row)) for row in new], author=AUTHOR
        )
        Finding.objects.filter(pk__in=[row.pk for row in new]).update(is_announced=True)
    return len(new)


def finding_sentence(row: Finding) -> str:
    """Return the finding with its number and subject, for journal lines."""
    place = f" ({row.subject})" if row.subject else ""
    return f"{row}: {finding_text(row)}{place}"


def request_guardrail_check() -> None:
    """Request the check of the guardrails of a large tenant, if none waits or runs."""
    with transaction.atomic():
        # requests at the same time wait for each other at the first row
        if Guardrail.objects.select_for_update().order_by("pk").first() is None:
            return
        if not Job.objects.filter(type=GUARDRAIL_JOB, state__in=UNFINISHED_STATES).exists():
            request_job(Job(type=GUARDRAIL_JOB, is_scheduled=True))


def check_guardrails(context: JobContext) -> JobResult:
    """Find the violations of all guardrails."""
    found = list(violations_by_guardrail())
    context.check()
    store_findings(GUARDRAIL_KINDS, found)
    return JobResult({"violations": sum(row.figure for row in found)})
