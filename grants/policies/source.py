"""Where a rule was read."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Source:
    """Where a row was read: the seed document, its table and row, and a note where the cell needed a decision."""

    seed: str
    table: str
    row: str
    note: str = ""

    def __str__(self) -> str:
        return f"{self.seed}, {self.table}, {self.row}"

    def as_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"seed": self.seed, "table": self.table, "row": self.row}
        return {**shown, "note": self.note} if self.note else shown
