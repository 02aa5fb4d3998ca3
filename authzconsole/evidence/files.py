"""The files of a bundle: the same rows as CSV, as JSON and as a page for readers."""

import csv
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from heapq import merge
from itertools import islice
from operator import attrgetter
from pathlib import Path
from shutil import copyfileobj
from tempfile import SpooledTemporaryFile
from typing import Any, TextIO

from django.conf import settings
from django.template.loader import render_to_string

from analytics.results.export import without_formula
from authzconsole.models import Evidence
from entities.address import parse_address
from entities.frozen import frozen
from grants.bulk_rows import chunks
from grants.evidence import (
    AccessPeriods,
    AccessRow,
    BoundaryLine,
    ExistencePeriod,
    HeldPeriod,
    active_generations,
    periods_in,
)
from grants.journal import ACTIONS, DECISION_ACTIONS
from grants.journal_queries import journal_lines
from grants.models import JournalHead, JournalLine, Role
from grants.models.history import UserPeriod
from grants.policies.catalogue import generation_by_name
from grants.policies.levels import LEVELS, Level, operations_by_level
from grants.validity import format_time

CSV_NAME, JSON_NAME, PAGE_NAME, CHANGES_NAME = "access.csv", "access.json", "report.html", "changes.csv"
# the lines of the changes with their hashes; accounts with access or a console role
PROOF_NAME, ACCOUNTS_NAME = "journal.jsonl", "accounts.csv"
ACCOUNT_COLUMNS = (
    "user",
    "name",
    "from_revision",
    "from_time",
    "to_revision",
    "active",
    "principal",
    "service_account",
    "console_role",
    "began_before_period",
)
# changes of a user that end all access; the summary of the page marks them
ACCOUNT_ENDS = ("user-deactivate", "user-remove")
# the page refers to it
STYLE = Path(__file__).parent / "report.css"
VERIFIER = Path(__file__).parent / "verify.py"
CSV_COLUMNS = (
    "user",
    "operation",
    "entity",
    "from_revision",
    "from_time",
    "to_revision",
    "to_time",
    "through",
    "granted_on",
    "privilege",
    "granted_at",
    "granted_by",
    "grant_reason",
    "revoked_at",
    "revoked_by",
    "member_since",
    "member_added_by",
    "member_until",
    "member_removed_by",
    "valid_from",
    "valid_until",
    "member_valid_from",
    "member_valid_until",
    "began_before_period",
    "ended_action",
    "ended_principal",
    "ended_by",
)
CHANGE_COLUMNS = (
    "revision",
    "at",
    "actor",
    "action",
    "principal",
    "privilege",
    "entity",
    "detail",
    "reason",
)
# columns of a path that have the same names in JSON as columns of a row
PATH_COLUMNS = {"through": "principal", "granted_on": "entity"}
# a page with more users is slow in a browser; the other files have all of them
MAX_USERS_ON_PAGE = MAX_CHANGES_ON_PAGE = 2_000
LINES_PER_READ, LINES_PER_PROOF = 2_000, 500
# the sections of more users are kept in a temporary file until the summary is written
MAX_SECTIONS_IN_MEMORY = 1_000_000
# lines at the ends of rows are read together, and kept up to a limit
LINES_AT_ONCE, MAX_LINES = 1_000, 50_000


def write_files(
    folder: Path,
    evidence: Evidence,
    periods: Iterable[AccessPeriods],
    users_checked: int,
    progress: Callable[[int], None],
) -> tuple[dict[str, Path], dict[str, int]]:
    """Write all files of the bundle: the access in one pass, entity by entity, and user by user; then the changes.

    Return the files by their names in the bundle, and the figures: the numbers of users, rows, lines of access.csv, changes and
    checked users; with contents, also of entities with rows and of checked entities.

    periods: of each entity. progress: called with the number of users that are done, or, with
    contents, the number of entities.
    """
    paths = {
        name: folder / name
        for name in (CSV_NAME, JSON_NAME, PAGE_NAME, CHANGES_NAME, PROOF_NAME, ACCOUNTS_NAME)
    }
    boundaries = RowBoundaries(evidence.from_revision, evidence.to_revision + 1)
    users: set[str] = set()
    entity_count = entities_checked = row_count = 0
    with ExitStack() as stack:
        files = {
            name: stack.enter_context(path.open("w", encoding="utf-8", newline=""))
            for name, path in paths.items()
        }
        generations = list(
            active_generations(
                (evidence.from_revision, evidence.to_revision + 1), settings.DEFAULT_GENERATION
            )
        )
        table, page = CsvOutput(files[CSV_NAME]), PageOutput(files[PAGE_NAME], evidence, generations)
        outputs = [table, JsonOutput(files[JSON_NAME], evidence), page]
        for of_entity in periods:
            rows_before = row_count
            if evidence.contents:
                # also for entities without users, because it is the heartbeat of the task
                progress(entities_checked)
            for done, rows in enumerate(of_entity.rows_by_user(), 1):
                if not evidence.contents:
                    progress(done)
                if rows:
                    users.add(rows[0].user)
                    row_count += len(rows)
                    described = describe_rows(rows, of_entity, boundaries)
                    for output in outputs:
                        output.write_user(described)
            entities_checked += 1
            entity_count += row_count > rows_before
        figures = {
            "users": len(users),
            "rows": row_count,
            "lines": table.line_count,
            "changes": _write_changes(
                files[CHANGES_NAME], files[PROOF_NAME], evidence, boundaries.principal_lines, page.changes
            ),
            "users_checked": users_checked,
            "accounts": _write_accounts(files[ACCOUNTS_NAME], boundaries, users),
        }
        if evidence.contents:
            figures |= {"entities": entity_count, "entities_checked": entities_checked}
        for output in outputs:
            output.finish(figures)
    return paths | {STYLE.name: STYLE, VERIFIER.name: VERIFIER}, figures


def changes_in_period(evidence: Evidence) -> Iterator[JournalLine]:
    """Yield the journal lines about the entity, and about its contents if the evidence is about them, oldest first. Runs one
    query.

    A line at the first revision of the period is before it: it made the state with which the period begins.
    """
    address = parse_address(evidence.entity)
    lines = journal_lines(contents_of=address) if evidence.contents else journal_lines(entity=str(address))
    if evidence.kind:
        lines = lines.filter(entity__startswith=f"{evidence.kind}:")
    lines = lines.filter(place__gt=evidence.from_revision, place__lte=evidence.to_revision)
    return lines.order_by("place").iterator(chunk_size=LINES_PER_READ)


def _lines_at(revisions: Iterable[int]) -> Iterator[JournalLine]:
    """Yield the journal lines with these revisions, oldest first. Runs one query for ROWS_PER_STATEMENT revisions."""
    for batch in chunks(sorted(revisions)):
        yield from JournalLine.objects.filter(revision__in=batch).order_by("revision")


def _write_changes(
    file: TextIO, proof: TextIO, evidence: Evidence, principal_lines: Iterable[int], first: list[JournalLine]
) -> int:
    """Write the changes as CSV, and append the first ones to the list. Return their number.

    proof: receives for each line what is hashed, the hash of the line before, and its own. Runs one query for
    LINES_PER_PROOF lines.

    principal_lines: revisions of the lines about users and groups with which access began or ended.
    """
    writer, count = csv.writer(file), 0
    writer.writerow(CHANGE_COLUMNS)
    lines = merge(changes_in_period(evidence), _lines_at(principal_lines), key=attrgetter("revision"))
    while batch := list(islice(lines, LINES_PER_PROOF)):
        previous = JournalLine.objects.filter(revision__in=[line.revision - 1 for line in batch])
        hashes = dict(previous.values_list("revision", "hash"))
        for line in batch:
            count += 1
            if count <= MAX_CHANGES_ON_PAGE:
                first.append(line)
            values = [getattr(line, name) for name in CHANGE_COLUMNS]
            values[CHANGE_COLUMNS.index("at")] = format_time(line.at)
            writer.writerow(map(_csv_cell, values))
            members = {"values": line.hashed_values, "hash": line.hash}
            members["previous_hash"] = hashes.get(line.revision - 1, JournalHead().hash)
            proof.write(json.dumps(members, ensure_ascii=False) + "\n")
    return count


def _write_accounts(file: TextIO, boundaries: "RowBoundaries", users: Collection[str]) -> int:
    """Write the status and the console role of accounts in the period: of these users, and of accounts with a console role. Return
    the number of accounts.

    A row begins where one of these changed. Runs two queries, and those of `RowBoundaries`.
    """
    start, end = boundaries.start, boundaries.end
    periods = UserPeriod.objects.filter(periods_in((start, end))).order_by("from_revision")
    names: dict[int, str] = {}
    with_role: set[int] = set()
    for user, name, role in periods.values_list("user", "name", "role").iterator(chunk_size=LINES_PER_READ):
        names[user] = name
        if role != Role.ORDINARY:
            with_role.add(user)
    listed = {user for user, name in names.items() if user in with_role or f"user:{name}" in users}
    writer = csv.writer(file)
    writer.writerow(ACCOUNT_COLUMNS)
    for period in periods.order_by("user", "from_revision").iterator(chunk_size=LINES_PER_READ):
        if period.user in listed:
            until, began_before = period.until_revision, period.from_revision <= start
            values = (
                f"user:{names[period.user]}",
                period.name,
                max(period.from_revision, start),
                boundaries[start].time if began_before else format_time(period.since),
                until if until is not None and until < end else None,
                period.is_active,
                period.is_principal,
                period.is_service,
                period.role,
                began_before,
            )
            writer.writerow(map(_csv_cell, values))
    return len(listed)


@frozen
class BoundaryOfRow:
    """What the files say of the journal line with which access began or ended. time: empty before the first line."""

    time: str = ""
    action: str = ""
    principal: str = ""
    actor: str = ""
    entity: str = ""


class RowBoundaries:
    """The journal lines with which access began or ended, by revision.

    start: the first revision of the period; a range that starts there began before. end: the revision after the period; a
    range that ends there had not ended. principal_lines: the revisions of those lines that are about a user or a group and
    no entity, in the rows that were described.
    """

    def __init__(self, start: int, end: int):
        self.start, self.end, self._lines = start, end, dict[int, BoundaryOfRow]()
        self.principal_lines: set[int] = set()

    def __getitem__(self, revision: int) -> BoundaryOfRow:
        """Return the line of a revision. Runs a query for LINES_AT_ONCE revisions."""
        if revision not in self._lines:
            if len(self._lines) > MAX_LINES:
                self._lines.clear()
            first = revision - revision % LINES_AT_ONCE
            lines = JournalLine.objects.filter(revision__gte=first, revision__lt=first + LINES_AT_ONCE)
            for number, at, *values in lines.values_list(
                "revision", "at", "action", "principal", "actor", "entity"
            ):
                self._lines[number] = BoundaryOfRow(format_time(at), *values)
            self._lines.setdefault(revision, BoundaryOfRow())
        return self._lines[revision]

    def cause(self, row: AccessRow, revision: int) -> BoundaryOfRow | None:
        """Return the line with which the row began or ended; None if that was a limit of a validity period.

        After such a limit, any line can be the first one; it is the cause only if it is about the user or a holder of the
        grants.
        """
        line = self[revision]
        has_limits = any(
            any(period.validity) for held in row.paths for period in (held.grant, held.membership) if period
        )
        holders = {row.user, *(held.principal for held in row.paths)}
        return line if not has_limits or line.principal in holders else None

    def note(self, row: AccessRow) -> None:
        """Keep the lines about principals with which this row began or ended. Access without a grant has none, because every
        user has it.
        """
        for revision in row.range if row.paths else ():
            if self.start < revision < self.end and revision not in self.principal_lines:
                line = self.cause(row, revision)
                if line and line.principal and not line.entity and line.action in DECISION_ACTIONS:
                    self.principal_lines.add(revision)


def describe_rows(
    rows: Sequence[AccessRow], periods: AccessPeriods, boundaries: RowBoundaries
) -> list[dict[str, Any]]:
    """Return the rows of one user for the files."""
    # operations with the same rules share the list of their paths
    paths: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        if id(row.paths) not in paths:
            paths[id(row.paths)] = [_describe_path(held) for held in sorted(row.paths, key=_path_order)]
    return [_describe_row(row, periods, boundaries, paths[id(row.paths)]) for row in rows]


def _describe_row(
    row: AccessRow, periods: AccessPeriods, boundaries: RowBoundaries, paths: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return a row for the files.

    `to_revision` and `to_time` are null if the access had not ended in the period. `from_revision` and `from_time` are of the
    line that made the state at the start of the period if `began_before_period`. `ended_action`, `ended_principal` and `ended_by` are of the line at
    `to_revision`, null if the access ended with a validity period.
    """
    start, end = row.range
    has_ended = end < boundaries.end
    ended = boundaries.cause(row, end) if has_ended else None
    boundaries.note(row)
    return {
        "user": row.user,
        "operation": row.operation,
        "entity": str(periods.entity),
        "from_revision": start,
        "from_time": boundaries[start].time,
        "to_revision": end if has_ended else None,
        "to_time": boundaries[end].time if has_ended else None,
        "began_before_period": start <= boundaries.start,
        "ended_action": ended.action if ended else None,
        "ended_principal": ended.principal if ended else None,
        "ended_by": ended.actor if ended else None,
        "paths": paths,
    }


def _path_order(held: HeldPeriod) -> tuple:
    return held.principal, str(held.entity), held.privilege.value, held.ranges


def _describe_path(held: HeldPeriod) -> dict[str, Any]:
    path = {
        "principal": held.principal,
        "entity": str(held.entity),
        "privilege": held.privilege.value,
        **_change_members("granted", held.grant.started),
        "grant_reason": held.grant.started.reason,
        **_change_members("revoked", held.grant.ended),
        **_validity_members("valid", held.grant),
    }
    if held.membership is not None:
        path |= {
            "member_since": held.membership.started.at,
            "member_added_by": held.membership.started.actor,
            "member_until": held.membership.ended.at if held.membership.ended else None,
            "member_removed_by": held.membership.ended.actor if held.membership.ended else None,
            **_validity_members("member_valid", held.membership),
        }
    return path


def _change_members(name: str, change: BoundaryLine | None) -> dict[str, str | None]:
    return {f"{name}_at": change.at if change else None, f"{name}_by": change.actor if change else None}


def _validity_members(name: str, period: ExistencePeriod) -> dict[str, str | None]:
    valid_from, valid_until = period.validity
    return {
        f"{name}_from": format_time(valid_from) or None,
        f"{name}_until": format_time(valid_until) or None,
    }


class CsvOutput:
    """One line for each row and path."""

    def __init__(self, file: TextIO):
        self._writer, self.line_count = csv.writer(file), 0
        self._writer.writerow(CSV_COLUMNS)

    def write_user(self, rows: Sequence[dict]) -> None:
        for row in rows:
            for path in row["paths"] or [{}]:
                values = (
                    row
                    | {name: path.get(member) for name, member in PATH_COLUMNS.items()}
                    | {name: value for name, value in path.items() if name not in PATH_COLUMNS.values()}
                )
                self._writer.writerow([_csv_cell(values.get(name)) for name in CSV_COLUMNS])
                self.line_count += 1

    def finish(self, figures: Mapping) -> None:
        """Do nothing: the file is complete."""


def _csv_cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return without_formula("" if value is None else str(value))


class JsonOutput:
    """One object with the request, the figures and all rows."""

    def __init__(self, file: TextIO, evidence: Evidence):
        self._file, self._is_first = file, True
        file.write(
            f'{{"entity": {json.dumps(evidence.entity)}, "contents": {json.dumps(evidence.contents)}, '
            f'"kind": {json.dumps(evidence.kind)}, "from_revision": {evidence.from_revision}, '
            f'"to_revision": {evidence.to_revision}, "rows": ['
        )

    def write_user(self, rows: Sequence[dict]) -> None:
        for row in rows:
            self._file.write(("\n" if self._is_first else ",\n") + json.dumps(row, ensure_ascii=False))
            self._is_first = False

    def finish(self, figures: Mapping) -> None:
        self._file.write(f'\n], "figures": {json.dumps(figures)}}}\n')


class PageOutput:
    """A page without scripts and without other files: a summary by user and access level, the changes, then the rows of each user.

    changes: the first MAX_CHANGES_ON_PAGE changes, which are known at the end.
    """

    def __init__(self, file: TextIO, evidence: Evidence, generations: list[str]):
        self._file, self._users, self._entity = file, 0, ""
        self._has_contents = evidence.contents
        self._generation = generation_by_name(generations[-1])
        self._context = {"evidence": evidence, "generations": generations, "levels": LEVELS}
        # the summary, which is known at the end, precedes the sections
        self._sections = SpooledTemporaryFile(MAX_SECTIONS_IN_MEMORY, "w+", encoding="utf-8")
        # by user: the entities of each level, and of these, those with only a part of its operations
        self._summary: dict[str, Counter[tuple[Level, bool]]] = {}
        # by user: the revision and the label of the last change of the account that ended access
        self._ended: dict[str, tuple[int, str]] = {}
        self.changes: list[JournalLine] = []

    def write_user(self, rows: Sequence[dict]) -> None:
        self._users += 1
        self._count_levels(rows)
        if self._users <= MAX_USERS_ON_PAGE:
            is_new = self._has_contents and rows[0]["entity"] != self._entity
            self._entity = rows[0]["entity"]
            self._sections.write(
                render_to_string(
                    "journal/evidence/report_user.html",
                    {
                        "user": rows[0]["user"],
                        "rows": rows,
                        "new_entity": self._entity if is_new else "",
                        "has_contents": self._has_contents,
                    },
                )
            )

    def _count_levels(self, rows: Sequence[dict]) -> None:
        user = rows[0]["user"]
        if user in self._summary or len(self._summary) < MAX_USERS_ON_PAGE:
            kind = parse_address(rows[0]["entity"]).kind
            permitted = {row["operation"] for row in rows}
            self._summary.setdefault(user, Counter()).update(
                (level, not permitted.issuperset(operations))
                for level, operations in operations_by_level(self._generation, kind).items()
                if not permitted.isdisjoint(operations)
            )
            ended = [
                (row["to_revision"], ACTIONS[row["ended_action"]])
                for row in rows
                if row["ended_action"] in ACCOUNT_ENDS and row["ended_principal"] == user
            ]
            if ended:
                self._ended[user] = max(ended)

    def finish(self, figures: Mapping) -> None:
        left_out = max(0, self._users - MAX_USERS_ON_PAGE)
        summary = [
            (
                user,
                [(counts[level, False] + counts[level, True], counts[level, True]) for level in LEVELS],
                self._ended.get(user),
            )
            for user, counts in sorted(self._summary.items())
        ]
        self._file.write(
            render_to_string(
                "journal/evidence/report_head.html",
                self._context
                | {
                    "summary": summary,
                    "figures": figures,
                    "changes": [
                        {"line": line, "action": ACTIONS.get(line.action, line.action)}
                        for line in self.changes
                    ],
                    "left_out": figures["changes"] - len(self.changes),
                    "changes_name": CHANGES_NAME,
                },
            )
        )
        self._sections.seek(0)
        copyfileobj(self._sections, self._file)
        self._sections.close()
        self._file.write(
            render_to_string(
                "journal/evidence/report_end.html",
                self._context | {"figures": figures, "left_out": left_out, "csv_name": CSV_NAME},
            )
        )
