"""Define the columns of a grant that its author sets."""

from typing import NamedTuple


class GrantAttributes(NamedTuple):
    """The columns of a grant that its author sets, in addition to the principal, the address and the
    privilege.

    Grant rows, tenant documents, snapshots and journal lines use this list. For a new column,
    tests/grants/test_grant_columns.py names the places that must be extended.
    INVARIANT: no statement updates these columns, and the journal line of a grant contains their values.
    Therefore the hash of the journal identifies them (grants.evaluation.count_cache).
    """

    reason: str = ""

    @property
    def detail(self) -> str:
        """The text for the journal line, without the reason, which has a separate column in the journal."""
        return "; ".join(
            f"{name} {value}" for name, value in self._asdict().items() if value and name != "reason"
        )
