"""Imports a tenant document, all or nothing.

INVARIANT: reading what is there, writing what changes and its journal lines are one transaction under the journal's lock;
a document that is imported again changes nothing and adds no line.
"""

from collections.abc import Callable
from itertools import chain, starmap

from django.db import transaction

from entities.models import Entity
from grants.bulk_rows import chunks, database_now, refresh_statistics
from grants.changes.authority import administrator_transaction
from grants.changes.rows import insert_grant_rows
from grants.journal import Author, Change, append_to_journal
from grants.models import GRANT_TABLES, GroupGrant, User, UserGrant, permission_ids
from grants.tenant.entities import write_entities
from grants.tenant.lines import GrantLine
from grants.tenant.principals import lost_administrators, unknown_principals, write_groups, write_members, write_users
from grants.tenant.reading import Document, read_document
from grants.tenant.report import GRANTS_ADDED, ImportReport

# from here on other connections would notice that the planner knows the tables as they were
MANY_CHANGES = 5_000


def import_tenant(*, stream, author: Author, dry_run: bool = False) -> ImportReport:
    """Import the document that the binary `stream` holds; with `dry_run` report what that would change.

    Raises BadTenantDocument, with nothing written, where any line is bad; NotAdministrator.
    """
    document = read_document(stream)
    with administrator_transaction(author) as head:
        document.faults.refuse_with(chain(unknown_principals(document), lost_administrators(document)))
        report = ImportReport(lines=document.lines, dry_run=dry_run)

        def record(changes: list[Change]) -> None:
            if changes and not dry_run:
                append_to_journal(head, changes, author=author)

        _write(document, report, record, author)
        report.changes = +report.changes
        report.revision = head.revision
        if dry_run:
            transaction.set_rollback(True)
        elif report.changes.total() > MANY_CHANGES:
            refresh_statistics(Entity, User, User.groups.through, UserGrant, GroupGrant)
    return report


def _write(document: Document, report: ImportReport, record: Callable, author: Author) -> None:
    entities = write_entities(document, report, record)
    principals = {
        "user": write_users(document, report, record),
        "group": write_groups(document, report, record),
    }
    write_members(document, principals["user"], principals["group"], report, record)
    for chunk in chunks(document.grants.items()):
        for kind in GRANT_TABLES:
            _write_grants(kind, chunk, principals[kind], entities, report, record, author)


def _write_grants(kind: str, chunk: list[tuple[str, list[GrantLine]]], principals: dict[str, int],
                  entities: dict[str, int], report: ImportReport, record: Callable, author: Author) -> None:
    model, principal_column = GRANT_TABLES[kind]
    stored = model.objects.filter(content_object_id__in=[entities[address] for address, _ in chunk])
    held = set(stored.values_list(principal_column, "content_object_id", "permission_id"))
    wanted = _wanted(kind, chunk, principals, entities, report)
    added = {row: grant for row, grant in wanted.items() if row not in held}
    at = database_now()
    insert_grant_rows(kind, [(*row, author.user_id, at, *line.attributes) for row, (line, _) in added.items()])
    record(list(starmap(_change, added.values())))
    for _, privilege in added.values():
        report.changes[GRANTS_ADDED, str(privilege)] += 1
    report.unchanged["grants"] += len(wanted) - len(added)


def _wanted(kind: str, chunk: list, principals: dict[str, int], entities: dict[str, int],
            report: ImportReport) -> dict[tuple, tuple]:
    """The rows (principal, entity, permission) of a chunk's lines.

    Of two lines for the same row the one with the lesser attributes counts, so that the order of the lines does not.
    """
    permissions, wanted = permission_ids(), {}
    for address, lines in chunk:
        for line in lines:
            of, name = line.principal
            for privilege in dict.fromkeys(line.privileges) if of == kind else ():
                row = principals[name], entities[address], permissions[privilege]
                first, _ = wanted.setdefault(row, (line, privilege))
                if first is line:
                    continue
                report.warnings.append(f"line {line.line} grants {privilege} on `{address}` to `{of}:{name}` again, as line "
                                       f"{first.line} does")
                if line.attributes < first.attributes:
                    wanted[row] = line, privilege
    return wanted


def _change(line: GrantLine, privilege: str) -> Change:
    return Change("grant", principal=":".join(line.principal), entity=line.address, privilege=str(privilege),
                  reason=line.attributes.reason, detail=line.attributes.detail)
