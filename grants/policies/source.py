"""Define the source of a rule: the row of a document."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Source:
    """A row of a table in a seed document.

    seed: the number of the document. note: how the row was interpreted, if the document is not clear.
    """

    seed: str
    table: str
    row: str
    note: str = ""

    def __str__(self) -> str:
        return f"{self.seed}, {self.table}, {self.row}"

    def as_json(self) -> dict[str, Any]:
        members: dict[str, Any] = {"seed": self.seed, "table": self.table, "row": self.row}
        return {**members, "note": self.note} if self.note else members
