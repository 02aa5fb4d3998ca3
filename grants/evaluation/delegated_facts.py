"""A base class for facts that find the entities without a privilege in their own way."""

from collections.abc import Mapping
from dataclasses import dataclass

from entities.address import Address
from entities.vocabulary import Privilege
from grants.policies.decide import Facts, HeldGrant


@dataclass(frozen=True, slots=True)
class DelegatedFacts:
    """The facts of one question (see `grants.policies.decide.Facts`).

    Subclasses add `entities_without_privilege`.
    """

    facts: Facts

    @property
    def is_subject_known(self) -> bool:
        return self.facts.is_subject_known

    def privileges_on(self, address: Address) -> Mapping[Privilege, str]:
        return self.facts.privileges_on(address)

    def has_grant_at_or_below(self, address: Address) -> bool:
        return self.facts.has_grant_at_or_below(address)

    def grant_at_or_below(self, address: Address) -> HeldGrant | None:
        return self.facts.grant_at_or_below(address)
