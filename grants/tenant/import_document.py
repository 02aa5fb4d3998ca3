"""Import a tenant document, all or nothing.

INVARIANT: one transaction under the journal's lock reads the stored rows, and writes the changes and their
journal lines. A second import of the same document changes nothing and adds no journal line.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, starmap

from django.db import transaction

from entities.address import parse_grantable
from entities.models import Entity
from entities.vocabulary import quantity
from grants.authority.transactions import administrator_transaction, check_capability
from grants.bulk_rows import chunks, database_now, database_time, refresh_statistics, update_rows
from grants.changes import StoredRow, insert_grant_rows
from grants.derived import derive_from_grants
from grants.guardrails.check import make_within_guardrails
from grants.guardrails.exceptions import open_violations
from grants.journal import Author, JournalEntry
from grants.journal_details import period_detail
from grants.models import PRINCIPAL_TYPES, GroupGrant, Guardrail, User, UserGrant, permission_ids
from grants.policies.principals import principal_text
from grants.roles.capabilities import Capability
from grants.tenant.entities import write_entities
from grants.tenant.guardrails import write_guardrails
from grants.tenant.lines import GrantLine
from grants.tenant.principals import (
    disabled_administrators,
    invisible_names,
    unknown_principals,
    write_groups,
    write_members,
    write_role_groups,
    write_users,
)
from grants.tenant.reading import Document, read_document
from grants.tenant.report import Counted, ImportReport, ImportRun
from grants.validity import VALIDITY_COLUMNS, Validity, format_time

# With this many changes, outdated planner statistics would slow down other connections.
MIN_CHANGES_TO_ANALYZE = 5_000


def import_tenant(*, stream, author: Author, dry_run: bool = False) -> ImportReport:
    """Import the document in a binary stream, completely or not at all. Return a report of the changes.

    dry_run: only report the changes that the import would make.
    Raise BadTenantDocument if a line is bad, NotAdministrator if the author is not an administrator,
    GuardrailHolds if a guardrail that exists already refuses the changes. Violations of the guardrails that the
    document writes are warnings, so that every exported document can be imported.
    """
    document = read_document(stream)
    with administrator_transaction(author) as head:
        document.faults.raise_if_any(
            chain(unknown_principals(document), invisible_names(document), disabled_administrators(document))
        )
        if document.guardrails:
            check_capability(author, Capability.MANAGE_SETTINGS)
        report = ImportReport(lines=document.lines, dry_run=dry_run)
        run = ImportRun(document, report, head, author)
        _, added = make_within_guardrails(
            head,
            author,
            None,
            lambda: _write(run),
            new=report.written_guardrails,
            is_recorded=not dry_run,
        )
        report.warnings += [*added.sentences, *_violated_already(report)]
        report.changes = +report.changes
        report.revision = head.revision
        if dry_run:
            transaction.set_rollback(True)
        elif report.changes.total() > MIN_CHANGES_TO_ANALYZE:
            refresh_statistics(Entity, User, User.groups.through, UserGrant, GroupGrant)
    return report


@contextmanager
def rehearsed_import(stream) -> Iterator[Document]:
    """Import a document while the context is open, and roll it back. Yield the document.

    Guardrails are written, but do not refuse anything. Raise BadTenantDocument if a line is bad.
    """
    document, author = read_document(stream), Author("check_guardrails")
    with administrator_transaction(author) as head:
        document.faults.raise_if_any(chain(unknown_principals(document), invisible_names(document)))
        _write(ImportRun(document, ImportReport(lines=document.lines, dry_run=True), head, author))
        yield document
        transaction.set_rollback(True)


def _violated_already(report: ImportReport) -> Iterator[str]:
    """Yield a warning for each guardrail of the document that is violated already."""
    for guardrail in Guardrail.objects.filter(name__among=sorted(report.written_guardrails)):
        if count := sum(1 for _ in open_violations(guardrail)):
            yield f"guardrail {guardrail} is violated already: {quantity(count, 'violation', 'violations')}"


def _write(run: ImportRun) -> None:
    entities = write_entities(run)
    principals = {"user": write_users(run), "group": write_groups(run)}
    write_members(run, principals["user"], principals["group"])
    write_role_groups(run)
    for chunk in chunks(run.document.grants.items()):
        for kind in PRINCIPAL_TYPES:
            _write_grants(run, kind, chunk, principals[kind], entities)
    write_guardrails(run)


def _write_grants(
    run: ImportRun,
    kind: str,
    chunk: list[tuple[str, list[GrantLine]]],
    principals: dict[str, int],
    entities: dict[str, int],
) -> None:
    holder = PRINCIPAL_TYPES[kind]
    report, user_id = run.report, run.author.user_id
    stored = holder.grants.filter(content_object_id__in=[entities[address] for address, _ in chunk])
    columns = (holder.id_column, "content_object_id", "permission_id", "pk", "reason", *VALIDITY_COLUMNS)
    existing = {
        (principal, entity, permission): StoredRow(pk, Validity(*period), reason)
        for principal, entity, permission, pk, reason, *period in stored.values_list(*columns)
    }
    listed = _listed_rows(kind, chunk, principals, entities, report)
    added = {row: grant for row, grant in listed.items() if row not in existing}
    changed = {
        row: grant
        for row, grant in listed.items()
        if row in existing and existing[row].validity != grant[0].validity
    }
    at = database_now()
    insert_grant_rows(
        holder,
        [
            (*row, user_id, at, *line.attributes, *map(database_time, line.validity))
            for row, (line, _) in added.items()
        ],
    )
    update_rows(
        holder.grant_model,
        (*VALIDITY_COLUMNS, "granted_by_id", "granted_at", "reason"),
        [
            (
                *map(database_time, line.validity),
                user_id,
                at,
                line.attributes.reason or existing[row].reason,
                existing[row].pk,
            )
            for row, (line, _) in changed.items()
        ],
    )
    if patterns := {
        row[1] for row, (line, _) in (added | changed).items() if parse_grantable(line.address).is_pattern
    }:
        rows = holder.grants.filter(content_object_id__in=patterns)
        keys = {(pk, *key) for pk, *key in rows.values_list("pk", *columns[:3])}
        derive_from_grants(holder, [pk for pk, *key in keys if tuple(key) in added | changed])
    run.record(
        [
            *starmap(_grant_change, added.values()),
            *(_grant_change(line, privilege, existing[row]) for row, (line, privilege) in changed.items()),
        ]
    )
    for _, privilege in added.values():
        report.changes[Counted.GRANTS_ADDED, str(privilege)] += 1
    for row, (line, privilege) in changed.items():
        report.changes[
            Counted.GRANTS_CHANGED if line.validity.is_limited else Counted.GRANT_PERIODS_REMOVED,
            str(privilege),
        ] += 1
        if not line.validity.is_limited:
            report.warn_of_removed_period(
                line.line,
                f"{privilege} on `{line.address}` of `{':'.join(line.principal)}`",
                existing[row].validity,
            )
    report.unchanged["grants"] += len(listed) - len(added) - len(changed)


def _listed_rows(
    kind: str, chunk: list, principals: dict[str, int], entities: dict[str, int], report: ImportReport
) -> dict[tuple, tuple]:
    """Return (line, privilege) by row key (principal, entity, permission) for the lines of a chunk.

    If two lines list the same row, the line with the smaller attributes and the earlier period is used, so
    the order of the lines does not matter.
    """
    permissions, listed = permission_ids(), {}
    for address, lines in chunk:
        for line in lines:
            principal_type, name = line.principal
            for privilege in dict.fromkeys(line.privileges) if principal_type == kind else ():
                row = principals[name], entities[address], permissions[privilege]
                first, _ = listed.setdefault(row, (line, privilege))
                if first is line:
                    continue
                report.warnings.append(
                    f"line {line.line} grants {privilege} on `{address}` to "
                    f"`{principal_text(principal_type, name)}` again, as line {first.line} does"
                )
                if _rank(line) < _rank(first):
                    listed[row] = line, privilege
    return listed


def _rank(line: GrantLine) -> tuple:
    # text, because None cannot be compared; no limit is first
    return line.attributes, *map(format_time, line.validity)


def _grant_change(line: GrantLine, privilege: str, before: StoredRow | None = None) -> JournalEntry:
    return JournalEntry(
        "grant",
        principal=principal_text(*line.principal),
        entity=line.address,
        privilege=str(privilege),
        reason=line.attributes.reason or (before.reason if before else ""),
        detail=period_detail(line.validity, line.attributes.detail, before=before and before.validity),
    )
