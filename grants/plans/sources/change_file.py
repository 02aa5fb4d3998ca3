"""Reads a file of changes: CSV with a header, or JSON Lines, UTF-8, one change a line, told apart by their first character.

Every bad line is found, and the first hundred are reported in full. A change that stands there twice counts once; to grant
and to revoke the same thing is a fault.
"""

import csv
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter

from entities.address import parse_address
from entities.vocabulary import Privilege, clip
from grants.changes.outcomes import ChangeItem
from grants.errors import GrantError, PlanError
from grants.models import PlanVerb
from grants.principal_rows import principals_by_name
from grants.tenant.faults import Fault, Faults
from grants.tenant.lines import Members
from grants.tenant.reading import UNREADABLE, parse_line_json

MAX_FILE_BYTES = 8 * 1024 * 1024
COLUMNS = ("verb", "principal", "entity", "privilege")
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
_NOT_UTF_8 = "it is not UTF-8: save the file as UTF-8 (of Excel: `CSV UTF-8`)"
_TWICE_SHOWN = 10

FaultOf = Callable[[str, str], None]


class BadChangeFile(GrantError):
    """A file with bad lines, of which no plan was made. faults: of the first hundred bad lines, in full."""

    def __init__(self, faults: list[Fault], bad_lines: int):
        self.faults, self.bad_lines = faults, bad_lines
        super().__init__(f"{bad_lines:,} bad {'line' if bad_lines == 1 else 'lines'}, so that nothing was made; the first is "
                         f"{faults[0]}")


@dataclass(slots=True)
class ChangeFile:
    """What a file says. changes: each once, with its verb and its line. twice: lines that say what an earlier one says."""

    changes: dict[ChangeItem, tuple[str, int]] = field(default_factory=dict)
    twice: list[int] = field(default_factory=list)

    @property
    def note(self) -> str:
        """What became of lines that stand there twice; empty where there are none."""
        if not self.twice:
            return ""
        total, shown = len(self.twice), ", ".join(f"{line:,}" for line in self.twice[:_TWICE_SHOWN])
        more = f" and {total - _TWICE_SHOWN:,} more" if total > _TWICE_SHOWN else ""
        one = total == 1
        return (f"{total:,} {'line repeats' if one else 'lines repeat'} what an earlier line of the file says, and "
                f"{'counts' if one else 'count'} once: {'line' if one else 'lines'} {shown}{more}.")


def read_change_file(raw: bytes) -> ChangeFile:
    """Raises BadChangeFile with everything that is wrong with its lines, PlanError where it is too long or says nothing.

    Two statements for every `bulk.ROWS_PER_STATEMENT` principals. Memory grows with the file, which has at most MAX_FILE_BYTES.
    """
    if len(raw) > MAX_FILE_BYTES:
        raise PlanError(file_too_large_message(len(raw)))
    text = _text_of(raw.removeprefix(_BOM))
    if not text.strip():
        raise PlanError(f"the file is empty: it must hold changes, as CSV with the header {','.join(COLUMNS)}, or as JSON Lines")
    if text.lstrip()[0] == "[":
        raise PlanError("the file is one list of JSON: write one object a line, without the list around them")
    found, faults = ChangeFile(), Faults()
    for number, body, fault in (_json_lines if text.lstrip()[0] == "{" else _csv_rows)(text, faults):
        _add(found, number, body, fault)
    unknown = _unknown(found)
    _refuse(faults, unknown)
    if not found.changes:
        raise PlanError("the file has a header and no changes: write one change a line below it")
    return found


def file_too_large_message(bytes_given: int) -> str:
    return (f"the file has {bytes_given / 1024 / 1024:,.1f} MB, and {MAX_FILE_BYTES // 1024 // 1024} MB are allowed: split it, "
            f"and make a plan of each part")


def _refuse(faults: Faults, unknown: list[Fault]) -> None:
    if bad_lines := len(faults.bad | {fault.line for fault in unknown}):
        merged = Faults()
        for fault in sorted([*faults.kept, *unknown], key=attrgetter("line")):
            merged.add(*fault)
        raise BadChangeFile(merged.kept, bad_lines)


def _text_of(raw: bytes) -> str:
    """Raises PlanError, BadChangeFile with every line that cannot be read."""
    if raw.startswith(_UTF_16):
        raise PlanError("the file is UTF-16: save it as UTF-8 (of Excel: `CSV UTF-8`)")
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


def _json_lines(text: str, faults: Faults) -> Iterator[tuple[int, dict, FaultOf]]:
    # not splitlines: a string of JSON may hold other characters that end a line for Unicode
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        fault = partial(faults.add, number)
        body = parse_line_json(line.encode(), fault)
        if isinstance(body, dict):
            yield number, body, fault
        elif body is not UNREADABLE:
            fault("", "it must be a JSON object")


def _csv_rows(text: str, faults: Faults) -> Iterator[tuple[int, dict, FaultOf]]:
    rows = _csv_lines(text, faults)
    start, header = next(rows, (1, []))
    columns = [name.strip().lower() for name in header]
    if wrong := _header_fault(columns):
        faults.add(start, "", wrong)
        return
    for number, row in rows:
        fault = partial(faults.add, number)
        if len(row) != len(columns):
            fault("", f"it has {len(row):,} {'value' if len(row) == 1 else 'values'} where the header has {len(columns)}: a "
                      f"value that holds a comma stands in double quotes")
        else:
            # only of a principal may a space be a part
            yield number, {name: value if name == "principal" else value.strip()
                           for name, value in zip(columns, row, strict=True)}, fault


def _csv_lines(text: str, faults: Faults) -> Iterator[tuple[int, list[str]]]:
    """Each row that is not blank, with the number of its first line."""
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
    written = f"the first line must be the header {','.join(COLUMNS)}, in any order"
    if len(columns) == 1 and any(mark in columns[0] for mark in ";\t"):
        return f"{written}, its columns separated by commas and not by semicolons or tabs"
    if lacking := [name for name in COLUMNS if name not in columns]:
        return f"{written}; it lacks {', '.join(f'`{name}`' for name in lacking)}"
    if further := [name for name in columns if name not in COLUMNS]:
        return f"{written}; `{clip(further[0])}` is none of these columns"
    return f"{written}; a column stands there twice" if len(columns) > len(COLUMNS) else ""


def _add(found: ChangeFile, number: int, body: dict, fault: FaultOf) -> None:
    members = Members(body, fault)
    members.only(*COLUMNS)
    verb, principal = members.choice("verb", tuple(PlanVerb.values)), members.principal("principal")
    address, privilege = members.address("entity"), members.choice("privilege", tuple(map(str, Privilege)))
    if None in (verb, principal, address, privilege):
        return
    item = ChangeItem(":".join(principal), parse_address(address), Privilege[privilege])
    before, line = found.changes.setdefault(item, (verb, number))
    if before != verb:
        fault("verb", f"it says {verb}, and line {line:,} says {before}, of the same principal, entity and privilege: keep one "
                      f"of the two")
    elif line != number:
        found.twice.append(number)


def _unknown(found: ChangeFile) -> list[Fault]:
    """A fault for each first line that names somebody whom the console does not know."""
    known = principals_by_name({item.principal for item in found.changes}).keys()
    return [Fault(line, "principal", f"{clip(item.principal)} is not known here: add it first, or correct the name")
            for item, (_, line) in found.changes.items() if item.principal not in known]
