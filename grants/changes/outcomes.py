"""Describe the result of a change for pages, commands and APIs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from entities.address import Address
from entities.vocabulary import Privilege
from grants.validity import Validity

MAX_NAMED_ADDRESSES = 5


GrantKey = tuple[str, Address, Privilege]


class ChangeItem(NamedTuple):
    """One privilege of one principal (`user:NAME` or `group:NAME`) on one address, and the period of a grant."""

    principal: str
    address: Address
    privilege: Privilege
    validity: Validity = Validity()

    @property
    def key(self) -> GrantKey:
        """The identity of the grant, without its period."""
        return self.principal, self.address, self.privilege

    def __str__(self) -> str:
        return f"{self.privilege} on {self.address} for {self.principal}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one change. revision: the newest revision of the journal, whether or not anything
    changed.
    """

    has_changed: bool
    sentence: str
    revision: int


@dataclass(frozen=True, slots=True)
class ChangeOutcome:
    """The result of one change set.

    changed: existing grants that got another period; items have the new one. periods_before: the periods of
    the changed and the revoked grants before. unchanged: a sentence for each item that had no effect.
    planned: addresses that were registered for a grant.
    principals: accounts of the console that became principals because they received a grant.
    notices: for each grant that has no effect yet, the reason: the state of its address or principal.
    """

    revision: int
    granted: tuple[ChangeItem, ...] = ()
    revoked: tuple[ChangeItem, ...] = ()
    changed: tuple[ChangeItem, ...] = ()
    periods_before: Mapping[GrantKey, Validity] = field(default_factory=dict)
    unchanged: tuple[str, ...] = ()
    planned: tuple[Address, ...] = ()
    principals: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()

    @property
    def has_changed(self) -> bool:
        return bool(self.granted or self.revoked or self.changed)

    @property
    def sentence(self) -> str:
        return self._sentence(
            "nothing changed",
            "granted",
            "changed the period of",
            "revoked",
            "unchanged",
            ("is only planned", "are only planned"),
        )

    @property
    def forecast_sentence(self) -> str:
        """The sentence of a dry run."""
        planned = "would be registered as planned"
        return self._sentence(
            "nothing would change",
            "would grant",
            "would change the period of",
            "would revoke",
            "would stay as it is",
            (planned, planned),
        )

    def _sentence(
        self,
        nothing: str,
        granted: str,
        changed: str,
        revoked: str,
        unchanged: str,
        planned_words: tuple[str, str],
    ) -> str:
        if not self.has_changed:
            return nothing
        counts = [
            f"{granted} {len(self.granted):,}" if self.granted else "",
            f"{changed} {len(self.changed):,}" if self.changed else "",
            f"{revoked} {len(self.revoked):,}" if self.revoked else "",
            f"{len(self.unchanged):,} {unchanged}" if self.unchanged else "",
        ]
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
