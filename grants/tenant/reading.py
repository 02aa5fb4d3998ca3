"""Read a tenant document: JSON Lines in UTF-8, one object per line, in any order.

A line of any length is read in bounded memory. Valid lines are kept until the import, because lines may refer
to later lines.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from grants.errors import GrantError
from grants.strict_json import MalformedJson, json_from_bytes
from grants.tenant.lines import EntityLine, GrantLine, GroupLine, GuardrailLine, Line, UserLine, parse_line

# All members of a group are on one line: 400,000 names of 20 characters fit.
MAX_LINE_BYTES = 8 * 1024 * 1024
UNREADABLE = object()
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# all bad lines are counted, the faults of these many are kept
MAX_LINES_SHOWN = 100


class Fault(NamedTuple):
    """A fault in a line. field: the invalid member; empty if the whole line is invalid."""

    line: int
    field: str
    reason: str

    def __str__(self) -> str:
        return (
            f"line {self.line}: `{self.field}`: {self.reason}"
            if self.field
            else f"line {self.line}: {self.reason}"
        )


class BadTenantDocument(GrantError):
    """The document has bad lines. Nothing was written."""

    def __init__(self, faults: list[Fault], bad_lines: int):
        self.faults = faults
        self.bad_lines = bad_lines
        super().__init__("\n".join([*map(str, faults), *self._rest_line(), self._total_line()]))

    def _rest_line(self) -> list[str]:
        rest = self.bad_lines - len({fault.line for fault in self.faults})
        return [f"and {rest:,} more bad {'line' if rest == 1 else 'lines'}"] if rest else []

    def _total_line(self) -> str:
        return f"{self.bad_lines:,} bad {'line' if self.bad_lines == 1 else 'lines'}; nothing was written"


class Faults:
    """Collect faults, which are added in the order of their lines, in bounded memory."""

    def __init__(self) -> None:
        self.kept: list[Fault] = []
        self._lines: set[int] = set()

    @property
    def bad_lines(self) -> int:
        return len(self._lines)

    @property
    def bad_line_numbers(self) -> frozenset[int]:
        return frozenset(self._lines)

    def add(self, line: int, field: str, reason: str) -> None:
        self._lines.add(line)
        if self.bad_lines <= MAX_LINES_SHOWN:
            self.kept.append(Fault(line, field, reason))

    def raise_if_any(self, others: Iterable[Fault]) -> None:
        """Raise BadTenantDocument if there is a fault here or in `others`."""
        other_faults = Faults()
        for fault in sorted(others):
            other_faults.add(*fault)
        bad_lines = len(self._lines | other_faults._lines)
        if bad_lines:
            kept = sorted([*self.kept, *other_faults.kept])
            first_lines = set(sorted({fault.line for fault in kept})[:MAX_LINES_SHOWN])
            raise BadTenantDocument([fault for fault in kept if fault.line in first_lines], bad_lines)


@dataclass(slots=True)
class Document:
    """The valid lines of a document, by type and identity, and the faults of the other lines.

    grants: by address, in the order of the document. lines: number of lines that are not blank.
    """

    entities: dict[str, EntityLine] = field(default_factory=dict)
    users: dict[str, UserLine] = field(default_factory=dict)
    groups: dict[str, GroupLine] = field(default_factory=dict)
    grants: dict[str, list[GrantLine]] = field(default_factory=dict)
    guardrails: dict[str, GuardrailLine] = field(default_factory=dict)
    faults: Faults = field(default_factory=Faults)
    lines: int = 0

    def add(self, line: Line, report_fault) -> None:
        match line:
            case GrantLine():
                self.grants.setdefault(line.address, []).append(line)
            case EntityLine():
                _add_once(self.entities, line.address, line, "id", report_fault)
            case UserLine():
                _add_once(self.users, line.name, line, "name", report_fault)
            case GroupLine():
                _add_once(self.groups, line.name, line, "name", report_fault)
            case GuardrailLine():
                _add_once(self.guardrails, line.name, line, "name", report_fault)


def _add_once(lines_by_name: dict, name: str, line: Line, field_name: str, report_fault) -> None:
    first = lines_by_name.setdefault(name, line)
    if first is not line:
        report_fault(field_name, f"it is listed twice: first on line {first.line}")


def read_document(stream) -> Document:
    """Read and check every line of a binary stream. Collect the faults of invalid lines in the document."""
    document = Document()
    for number, raw in _numbered_lines(stream):
        if raw is not None and not raw.strip():
            continue
        document.lines += 1
        report_fault = partial(document.faults.add, number)
        body = parse_line_json(raw, report_fault)
        line = None if body is UNREADABLE else parse_line(number, body, report_fault)
        if line is not None:
            document.add(line, report_fault)
    return document


def _numbered_lines(stream) -> Iterator[tuple[int, bytes | None]]:
    """Yield (number, bytes) of every line. The bytes are None if the line is too long."""
    number = 0
    while raw := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        if number == 1:
            raw = raw.removeprefix(_BYTE_ORDER_MARK)
        if len(raw) > MAX_LINE_BYTES and not raw.endswith(b"\n"):
            _skip_rest_of_line(stream)
            raw = None
        yield number, raw


def _skip_rest_of_line(stream) -> None:
    while (rest := stream.readline(MAX_LINE_BYTES)) and not rest.endswith(b"\n"):
        pass


def parse_line_json(raw: bytes | None, report_fault) -> object:
    """Return the parsed JSON of a line.

    If it is not acceptable JSON, report the fault and return UNREADABLE.
    """
    if raw is None:
        report_fault("", f"it is longer than {MAX_LINE_BYTES // 1024 // 1024} MB")
        return UNREADABLE
    try:
        return json_from_bytes(raw, text_name="it", is_single_line=True)
    except MalformedJson as error:
        report_fault("", str(error))
        return UNREADABLE
