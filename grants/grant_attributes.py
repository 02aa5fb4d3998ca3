"""Define the columns of a grant that its author sets."""

from typing import NamedTuple


class GrantAttributes(NamedTuple):
    """The columns of a grant that its author sets, besides the principal, the address and the privilege.

    Grant rows, tenant documents, snapshots and journal lines take the columns from here; tests/grants/test_grant_columns.py
    names what a new one still needs. INVARIANT: no statement updates these columns, and the journal line of a grant has their
    values, so that the hash of the journal identifies them (grants.evaluation.count_cache).
    """

    reason: str = ""

    @property
    def detail(self) -> str:
        """The text for the journal line. The reason has a column of its own there."""
        return "; ".join(f"{name} {value}" for name, value in self._asdict().items() if value and name != "reason")
