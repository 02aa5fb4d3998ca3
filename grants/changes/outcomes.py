"""What a change did, in a form that a page, a command and an API can all show."""

from dataclasses import dataclass
from typing import NamedTuple

from entities.address import Address
from entities.vocabulary import Privilege

NAMES_IN_A_SENTENCE = 5


class ChangeItem(NamedTuple):
    """One privilege of one principal (`user:NAME` or `group:NAME`) on one address."""

    principal: str
    address: Address
    privilege: Privilege

    def __str__(self) -> str:
        return f"{self.privilege} on {self.address} for {self.principal}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """revision: the newest revision of the journal, whether or not anything changed."""

    has_changed: bool
    sentence: str
    revision: int


@dataclass(frozen=True, slots=True)
class ChangeOutcome:
    """What a set of grants and revocations did.

    unchanged: a sentence for each item that was so already. planned: addresses that had to be registered for a grant.
    principals: accounts of the console that became principals by being granted something. notices: why what is granted on an
    address, or to a principal, counts for nothing now.
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
    def foretold(self) -> str:
        """The sentence where nothing was written."""
        planned = "would be registered as planned"
        return self._sentence("nothing would change", "would grant", "would revoke", "would stay as it is", (planned, planned))

    def _sentence(self, nothing: str, granted: str, revoked: str, unchanged: str, planned: tuple[str, str]) -> str:
        if not self.has_changed:
            return nothing
        parts = [f"{granted} {len(self.granted):,}" if self.granted else "",
                 f"{revoked} {len(self.revoked):,}" if self.revoked else "",
                 f"{len(self.unchanged):,} {unchanged}" if self.unchanged else ""]
        return "; ".join(filter(None, [", ".join(filter(None, parts)), self._planned(planned)]))

    def _planned(self, words: tuple[str, str]) -> str:
        if not self.planned:
            return ""
        count, others = len(self.planned), len(self.planned) - NAMES_IN_A_SENTENCE
        named = ", ".join(map(str, self.planned[:NAMES_IN_A_SENTENCE])) + (f" and {others:,} more" if others > 0 else "")
        return f"{count:,} {'address' if count == 1 else 'addresses'} {words[count > 1]}: {named}"
