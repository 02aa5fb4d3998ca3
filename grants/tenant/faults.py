"""Collect the faults of a document: all bad lines are counted, the faults of the first hundred are kept."""

from collections.abc import Iterable
from typing import NamedTuple

from grants.errors import GrantError

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

    def __init__(self):
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
