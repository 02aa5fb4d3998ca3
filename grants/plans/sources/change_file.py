"""Create plans from a file of changes: CSV with a header, or JSON Lines, in UTF-8, one change per line.

The first character determines the format. All bad lines are counted, and the first hundred are reported in
full. A repeated change counts once. Granting and revoking the same privilege, and granting it for two
periods, is a fault.
"""

import csv
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter

from entities.address import parse_grantable
from entities.vocabulary import Privilege, clip
from grants.change_set import Grant, Key, Revoke
from grants.errors import GrantError, PlanError
from grants.models import GRANT_VERBS, PlanVerb
from grants.plans.create import MAX_PLAN_ITEMS, PlanDraft, PlanOrigin, plan_source
from grants.policies.principals import principal_text
from grants.principal_names import principals_by_name
from grants.tenant import UNREADABLE, Fault, Faults, MemberReader, parse_line_json
from grants.validity import VALIDITY_COLUMNS

MAX_FILE_BYTES = 8 * 1024 * 1024
COLUMNS = ("verb", "principal", "entity", "privilege")
# for grants; a missing or empty value is no limit
OPTIONAL_COLUMNS = VALIDITY_COLUMNS
SAMPLES = {
    "csv": "verb,principal,entity,privilege\n"
    "grant,user:sofia.lindqvist,dataset:sales.orders,READ\n"
    "grant,user:sofia.lindqvist,dataset:sales.orders,WRITE\n"
    "revoke,group:contractors,namespace:sales,ADMIN\n",
    "jsonl": '{"verb":"grant","principal":"user:sofia.lindqvist","entity":"dataset:sales.orders","privilege":"READ"}\n'
    '{"verb":"grant","principal":"user:sofia.lindqvist","entity":"dataset:sales.orders","privilege":"WRITE"}\n'
    '{"verb":"revoke","principal":"group:contractors","entity":"namespace:sales","privilege":"ADMIN"}\n',
}
_BOM = b"\xef\xbb\xbf"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_NOT_UTF_8 = "it is not UTF-8: save the file as UTF-8 (in Excel: `CSV UTF-8`)"
_MAX_SHOWN_REPEATS = 10

ReportFault = Callable[[str, str], None]


class BadChangeFile(GrantError):
    """The file has bad lines, so no plan was created. faults: the faults of the first hundred bad lines."""

    def __init__(self, faults: list[Fault], bad_lines: int):
        self.faults, self.bad_lines = faults, bad_lines
        super().__init__(
            f"{bad_lines:,} bad {'line' if bad_lines == 1 else 'lines'}, so no plan was created; the first is "
            f"{faults[0]}"
        )


@dataclass(slots=True)
class ChangeFile:
    """The content of a file.

    changes: the line number by change. by_key: the same changes. repeated: the numbers of the lines that
    repeat an earlier line.
    """

    changes: dict[Grant | Revoke, int] = field(default_factory=dict)
    by_key: dict[Key, Grant | Revoke] = field(default_factory=dict)
    repeated: list[int] = field(default_factory=list)

    @property
    def note(self) -> str:
        """Return a sentence about the repeated lines; empty if there are none."""
        if not self.repeated:
            return ""
        total, lines = (
            len(self.repeated),
            ", ".join(f"{line:,}" for line in self.repeated[:_MAX_SHOWN_REPEATS]),
        )
        more = f" and {total - _MAX_SHOWN_REPEATS:,} more" if total > _MAX_SHOWN_REPEATS else ""
        if total == 1:
            return f"1 line repeats an earlier line of the file and is skipped: line {lines}."
        return f"{total:,} lines repeat earlier lines of the file and are skipped: lines {lines}{more}."


def read_change_file(raw: bytes) -> ChangeFile:
    """Parse a file. Raise BadChangeFile if lines are bad, PlanError if the file is too large or contains no
    changes.

    Runs two queries for every `bulk_rows.ROWS_PER_STATEMENT` principals. Memory grows with the file, which
    has at most MAX_FILE_BYTES.
    """
    if len(raw) > MAX_FILE_BYTES:
        raise PlanError(file_too_large_message(len(raw)))
    text = _decode(raw.removeprefix(_BOM))
    if not text.strip():
        raise PlanError(
            f"the file is empty: it must contain changes, as CSV with the header {','.join(COLUMNS)}, "
            "or as JSON Lines"
        )
    first_character = text.lstrip()[0]
    if first_character == "[":
        raise PlanError("the file is a JSON list: write one JSON object per line, without a list around them")
    file, faults = ChangeFile(), Faults()
    lines = _json_lines(text, faults) if first_character == "{" else _csv_rows(text, faults)
    for number, body, report_fault in lines:
        _add_change(file, number, body, report_fault)
    _raise_faults(faults, _unknown_principals(file))
    if not file.changes:
        raise PlanError("the file has a header but no changes: write one change per line below it")
    return file


def file_too_large_message(size_bytes: int) -> str:
    return (
        f"the file has {size_bytes / 1024 / 1024:,.1f} MB, and {MAX_FILE_BYTES // 1024 // 1024} MB are allowed: split it, "
        f"and create a plan from each part"
    )


def _raise_faults(faults: Faults, unknown: list[Fault]) -> None:
    """Raise BadChangeFile with all faults in the order of their lines, if there are any."""
    if bad_lines := len(faults.bad_line_numbers | {fault.line for fault in unknown}):
        merged = Faults()
        for fault in sorted([*faults.kept, *unknown], key=attrgetter("line")):
            merged.add(*fault)
        raise BadChangeFile(merged.kept, bad_lines)


def _decode(raw: bytes) -> str:
    """Decode the file. Raise PlanError if it is UTF-16, BadChangeFile if lines are not UTF-8."""
    if raw.startswith(_UTF_16):
        raise PlanError("the file is UTF-16: save it as UTF-8 (in Excel: `CSV UTF-8`)")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        faults = Faults()
        for number, line in enumerate(raw.split(b"\n"), start=1):
            if not _is_utf_8(line):
                faults.add(number, "", _NOT_UTF_8)
        raise BadChangeFile(faults.kept, faults.bad_lines) from None


def _is_utf_8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _json_lines(text: str, faults: Faults) -> Iterator[tuple[int, dict, ReportFault]]:
    # not splitlines, because a JSON string may contain other characters that Unicode defines as line breaks
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        fault = partial(faults.add, number)
        body = parse_line_json(line.encode(), fault)
        if isinstance(body, dict):
            yield number, body, fault
        elif body is not UNREADABLE:
            fault("", "it must be a JSON object")


def _csv_rows(text: str, faults: Faults) -> Iterator[tuple[int, dict, ReportFault]]:
    rows = _csv_lines(text, faults)
    start, header = next(rows, (1, []))
    columns = [name.strip().lower() for name in header]
    if header_fault := _header_fault(columns):
        faults.add(start, "", header_fault)
        return
    for number, row in rows:
        fault = partial(faults.add, number)
        if len(row) != len(columns):
            fault(
                "",
                f"it has {len(row):,} {'value' if len(row) == 1 else 'values'}, but the header has {len(columns)}: put "
                f"values with a comma into double quotes",
            )
        else:
            # only the name of a principal may start or end with a space
            yield (
                number,
                {
                    name: value if name == "principal" else value.strip()
                    for name, value in zip(columns, row, strict=True)
                },
                fault,
            )


def _csv_lines(text: str, faults: Faults) -> Iterator[tuple[int, list[str]]]:
    """Yield (number of the first line, values) of each row that is not blank."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    while True:
        start = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            faults.add(start, "", f"it is not CSV: {error}")
            continue
        if any(value.strip() for value in row):
            yield start, row


def _header_fault(columns: list[str]) -> str:
    """Return the fault of the header; empty if it is correct."""
    expected = (
        f"the first line must be the header {','.join(COLUMNS)}, in any order; {' and '.join(OPTIONAL_COLUMNS)} can be "
        f"added"
    )
    if len(columns) == 1 and any(mark in columns[0] for mark in ";\t"):
        return f"{expected}, its columns separated by commas and not by semicolons or tabs"
    if missing := [name for name in COLUMNS if name not in columns]:
        return f"{expected}; it lacks {', '.join(f'`{name}`' for name in missing)}"
    if other := [name for name in columns if name not in (*COLUMNS, *OPTIONAL_COLUMNS)]:
        return f"{expected}; `{clip(other[0])}` is none of these columns"
    return f"{expected}; a column is repeated" if len(columns) > len(set(columns)) else ""


def _add_change(file: ChangeFile, number: int, body: dict, report_fault: ReportFault) -> None:
    """Add the change of one line to the file, or report its faults."""
    members = MemberReader(body, report_fault)
    members.allow_only(*COLUMNS, *OPTIONAL_COLUMNS)
    verb, principal = (
        members.choice("verb", tuple(verb.value for verb in GRANT_VERBS)),
        members.principal("principal"),
    )
    address, privilege = (
        members.address("entity", parse_grantable),
        members.choice("privilege", tuple(map(str, Privilege))),
    )
    validity = members.validity(has_to_last=verb == PlanVerb.GRANT)
    if None in (verb, principal, address, privilege, validity):
        return
    if validity.is_limited and verb != PlanVerb.GRANT:
        report_fault(
            next(name for name, time in validity._asdict().items() if time), "only a grant has a period"
        )
        return
    key = principal_text(*principal), parse_grantable(address), Privilege[privilege]
    change = Grant(*key, validity) if verb == PlanVerb.GRANT else Revoke(*key)
    earlier = file.by_key.setdefault(key, change)
    earlier_line = file.changes.setdefault(earlier, number)
    if earlier.verb != verb:
        report_fault(
            "verb",
            f"it says {verb}, and line {earlier_line:,} says {earlier.verb}, of the same principal, entity and "
            f"privilege: keep one of the two",
        )
    elif earlier != change:
        report_fault(
            "valid_until", f"line {earlier_line:,} grants the same for another period: keep one of the two"
        )
    elif earlier_line != number:
        file.repeated.append(number)


def _unknown_principals(file: ChangeFile) -> list[Fault]:
    """Return a fault for each change of a principal that does not exist."""
    known = principals_by_name({change.principal for change in file.changes}).keys()
    return [
        Fault(
            line, "principal", f"{clip(change.principal)} does not exist: add it first, or correct the name"
        )
        for change, line in file.changes.items()
        if change.principal not in known
    ]


@plan_source(PlanOrigin.FILE)
def file_plan(*, raw: bytes, name: str = "", title: str = "") -> PlanDraft:
    """Return a plan of the changes in a file.

    raw: the content, in the format of `change_file`. name: the file name, if there is one. Raise
    BadChangeFile if lines are bad, PlanError if the file is too large or contains no changes.
    """
    file = read_change_file(raw)
    if len(file.changes) > MAX_PLAN_ITEMS:
        raise PlanError(
            f"the file contains {len(file.changes):,} changes, and {MAX_PLAN_ITEMS:,} are allowed in a plan: "
            f"split it, and create a plan from each part"
        )
    return PlanDraft(
        title=title or _title(file, name), recipe={"file": name, "note": file.note}, changes=file.changes
    )


def _title(file: ChangeFile, name: str) -> str:
    """Return a title such as `Grant 2 and revoke 1 from changes.csv`."""
    verbs = [change.verb for change in file.changes]
    counts = [f"{verb} {verbs.count(verb):,}" for verb in GRANT_VERBS if verb in verbs]
    return f"{' and '.join(counts).capitalize()} from {name or 'pasted text'}"
