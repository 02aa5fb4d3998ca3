"""What is wrong with a document: every bad line counts, the first hundred are kept in full."""

from collections.abc import Iterable
from typing import NamedTuple

from grants.errors import GrantError

LINES_IN_FULL = 100


class Fault(NamedTuple):
    """field: the member at fault; empty where the whole line is."""

    line: int
    field: str
    reason: str

    def __str__(self) -> str:
        return f"line {self.line}: `{self.field}`: {self.reason}" if self.field else f"line {self.line}: {self.reason}"


class BadTenantDocument(GrantError):
    """A document with bad lines; nothing of it was written."""

    def __init__(self, faults: list[Fault], bad_lines: int):
        self.faults = faults
        self.bad_lines = bad_lines
        super().__init__("\n".join([*map(str, faults), *self._rest(), self._sum()]))

    def _rest(self) -> list[str]:
        rest = self.bad_lines - len({fault.line for fault in self.faults})
        return [f"and {rest:,} more bad {'line' if rest == 1 else 'lines'}"] if rest else []

    def _sum(self) -> str:
        return f"{self.bad_lines:,} bad {'line' if self.bad_lines == 1 else 'lines'}; nothing was written"


class Faults:
    """Gathers faults in the order of the lines, in bounded memory."""

    def __init__(self):
        self.kept: list[Fault] = []
        self._lines: set[int] = set()

    @property
    def bad_lines(self) -> int:
        return len(self._lines)

    @property
    def bad(self) -> frozenset[int]:
        """The numbers of the bad lines."""
        return frozenset(self._lines)

    def add(self, line: int, field: str, reason: str) -> None:
        self._lines.add(line)
        if self.bad_lines <= LINES_IN_FULL:
            self.kept.append(Fault(line, field, reason))

    def refuse_with(self, others: Iterable[Fault]) -> None:
        """Raise BadTenantDocument where there is a fault here or among `others`."""
        found = Faults()
        for fault in sorted(others):
            found.add(*fault)
        bad_lines = len(self._lines | found._lines)
        if bad_lines:
            kept = sorted([*self.kept, *found.kept])
            shown = set(sorted({fault.line for fault in kept})[:LINES_IN_FULL])
            raise BadTenantDocument([fault for fault in kept if fault.line in shown], bad_lines)
