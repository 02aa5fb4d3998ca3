"""Describe the result of a change for pages, commands and APIs."""

from dataclasses import dataclass
from typing import NamedTuple

from entities.address import Address
from entities.vocabulary import Privilege

MAX_NAMED_ADDRESSES = 5


class ChangeItem(NamedTuple):
    """One privilege of one principal (`user:NAME` or `group:NAME`) on one address."""

    principal: str
    address: Address
    privilege: Privilege

    def __str__(self) -> str:
        return f"{self.privilege} on {self.address} for {self.principal}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one change. revision: the newest revision of the journal, whether or not anything changed."""

    has_changed: bool
    sentence: str
    revision: int


@dataclass(frozen=True, slots=True)
class ChangeOutcome:
    """The result of one change set.

    unchanged: a sentence for each item that had no effect. planned: addresses that were registered for a grant.
    principals: accounts of the console that became principals because they received a grant.
    notices: for each grant that has no effect yet, the reason: the state of its address or principal.
    """

    revision: int
    granted: tuple[ChangeItem, ...] = ()
    revoked: tuple[ChangeItem, ...] = ()
    unchanged: tuple[str, ...] = ()
    planned: tuple[Address, ...] = ()
    principals: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()

    @property
    def has_changed(self) -> bool:
        return bool(self.granted or self.revoked)

    @property
    def sentence(self) -> str:
        return self._sentence("nothing changed", "granted", "revoked", "unchanged", ("is only planned", "are only planned"))

    @property
    def forecast_sentence(self) -> str:
        """The sentence of a dry run."""
        planned = "would be registered as planned"
        return self._sentence("nothing would change", "would grant", "would revoke", "would stay as it is", (planned, planned))

    def _sentence(self, nothing: str, granted: str, revoked: str, unchanged: str, planned_words: tuple[str, str]) -> str:
        if not self.has_changed:
            return nothing
        counts = [f"{granted} {len(self.granted):,}" if self.granted else "",
                  f"{revoked} {len(self.revoked):,}" if self.revoked else "",
                  f"{len(self.unchanged):,} {unchanged}" if self.unchanged else ""]
        parts = [", ".join(filter(None, counts)), self._planned_addresses(*planned_words)]
        return "; ".join(filter(None, parts))

    def _planned_addresses(self, singular: str, plural: str) -> str:
        if not self.planned:
            return ""
        count = len(self.planned)
        names = ", ".join(map(str, self.planned[:MAX_NAMED_ADDRESSES]))
        if count > MAX_NAMED_ADDRESSES:
            names += f" and {count - MAX_NAMED_ADDRESSES:,} more"
        return f"1 address {singular}: {names}" if count == 1 else f"{count:,} addresses {plural}: {names}"
