"""Import the guardrails of a tenant document, and the exceptions from them."""

from entities.address import parse_address
from entities.selectors import entities_at
from grants.guardrails.storage import (
    exception_end_entry,
    exception_entry,
    fill_exception,
    guardrail_entry,
    rule_faults,
    store_rule,
    stored_rules,
)
from grants.models import Guardrail, GuardrailException
from grants.policies.times import format_time
from grants.principal_names import principals_by_name
from grants.tenant.lines import ExceptionEntry, GuardrailLine
from grants.tenant.report import Counted, ImportRun


def write_guardrails(run: ImportRun) -> None:
    """Write the guardrails that the document changes, after everything that they can name.

    Raise BadTenantDocument for those that name what does not exist, or contradict another one.
    """
    lines, report = run.document.guardrails, run.report
    if not lines:
        return
    stored = stored_rules()
    changed = {name: line.rule for name, line in lines.items() if stored.get(name) != line.rule}
    faults = rule_faults(changed, stored)
    for name, error in faults.items():
        run.document.faults.add(lines[name].line, error.field, error.reason)
    run.document.faults.raise_if_any(())
    principals = principals_by_name({rule.principal for rule in changed.values() if rule.principal})
    for name, rule in changed.items():
        store_rule(name, rule, author=run.author.name, principals=principals)
        report.changes[
            Counted.GUARDRAILS_CHANGED if name in stored else Counted.GUARDRAILS_ADDED, rule.form
        ] += 1
    report.written_guardrails.update(changed)
    report.unchanged["guardrails"] += len(lines) - len(changed)
    run.record([guardrail_entry(name, rule) for name, rule in changed.items()])
    for line in lines.values():
        if line.exceptions is not None:
            _write_exceptions(run, line, line.exceptions)


def _write_exceptions(run: ImportRun, line: GuardrailLine, entries: tuple[ExceptionEntry, ...]) -> None:
    """Replace the exceptions from one guardrail."""
    guardrail = Guardrail.objects.get(name=line.name)
    rows = guardrail.exceptions.select_related("guardrail", "user", "group")
    stored = {(row.principal, row.place): row for row in rows}
    principals = principals_by_name({entry.principal for entry in entries if entry.principal})
    places = {entry.within: parse_address(entry.within) for entry in entries if entry.within}
    registered = entities_at(places.values())
    for position, entry in enumerate(entries, start=1):
        if entry.principal and entry.principal not in principals:
            run.document.faults.add(
                line.line, "exceptions", f"entry {position}: {entry.principal} does not exist"
            )
        elif entry.within and places[entry.within] not in registered:
            run.document.faults.add(
                line.line, "exceptions", f"entry {position}: {entry.within} is not registered"
            )
    run.document.faults.raise_if_any(())
    lines = []
    for entry in entries:
        row = stored.pop((entry.principal, entry.within), None)
        before = row and (row.owner, format_time(row.valid_until), row.reason)
        if before == (entry.owner, format_time(entry.valid_until), entry.reason):
            continue
        change = Counted.EXCEPTIONS_CHANGED if row else Counted.EXCEPTIONS_ADDED
        row = row or GuardrailException(guardrail=guardrail)
        fill_exception(
            row,
            principal=principals.get(entry.principal),
            place=entry.within,
            owner=entry.owner,
            reason=entry.reason,
            valid_until=entry.valid_until,
            author=run.author.name,
        )
        row.save()
        run.report.changes[change, ""] += 1
        lines.append(exception_entry(row, reason=entry.reason))
    for row in stored.values():
        lines.append(exception_end_entry(row))
        row.delete()
        run.report.changes[Counted.EXCEPTIONS_REMOVED, ""] += 1
    run.record(lines)
