"""What a change did, in a form that a page, a command and an API can all show."""

from dataclasses import dataclass
from typing import NamedTuple

from entities.address import Address
from entities.vocabulary import Privilege


class Item(NamedTuple):
    """One privilege of one principal (`user:NAME` or `group:NAME`) on one address."""

    principal: str
    address: Address
    privilege: Privilege

    def __str__(self) -> str:
        return f"{self.privilege} on {self.address} for {self.principal}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """revision: the newest revision of the journal, whether or not anything changed."""

    changed: bool
    sentence: str
    revision: int


@dataclass(frozen=True, slots=True)
class ChangeOutcome:
    """What a set of grants and revocations did.

    unchanged: a sentence for each item that was so already. planned: addresses that had to be registered for a grant.
    principals: accounts of the console that became principals by being granted something.
    """

    revision: int
    granted: tuple[Item, ...] = ()
    revoked: tuple[Item, ...] = ()
    unchanged: tuple[str, ...] = ()
    planned: tuple[Address, ...] = ()
    principals: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        return bool(self.granted or self.revoked)

    @property
    def sentence(self) -> str:
        if not self.changed:
            return "nothing changed"
        parts = [f"granted {len(self.granted):,}" if self.granted else "",
                 f"revoked {len(self.revoked):,}" if self.revoked else "",
                 f"{len(self.unchanged):,} unchanged" if self.unchanged else ""]
        return ", ".join(filter(None, parts))
