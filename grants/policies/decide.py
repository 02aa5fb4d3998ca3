"""Decide a question: test its requirement against the facts.

The default is a denial: an unknown subject, kind or operation, a missing rule and an unmet requirement are
all denied.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Protocol

from entities.address import Address
from entities.frozen import frozen
from entities.vocabulary import Privilege
from grants.policies.grammar import Algebra, Expression, Parameter, Scope, fold
from grants.policies.question import Question


class HolderName(str):
    """The written form of a principal that holds a privilege.

    valid_until: the time at which the grant or the membership through which it counts ends; None if neither
    ends. pattern: the pattern on which the grant is; empty for a grant on the address.
    """

    __slots__ = ("pattern", "valid_until")
    valid_until: datetime | None
    pattern: str

    def __new__(cls, principal: str, valid_until: datetime | None = None, pattern: str = "") -> "HolderName":
        holder = super().__new__(cls, principal)
        holder.valid_until, holder.pattern = valid_until, pattern
        return holder


@frozen
class HeldGrant:
    """A grant that counts for the subject.

    principal: the holder as it is written, either the subject itself or one of its groups. valid_until, pattern: as in
    `HolderName`.
    """

    principal: str
    entity: Address
    privilege: Privilege
    valid_until: datetime | None = None
    pattern: str = ""

    @classmethod
    def of(cls, holder: str, entity: Address, privilege: Privilege) -> "HeldGrant":
        """Return the grant of a value of `Facts.privileges_on`."""
        if not isinstance(holder, HolderName):
            return cls(holder, entity, privilege)
        return cls(str(holder), entity, privilege, holder.valid_until, holder.pattern)


@frozen
class EntitiesWithoutPrivilege:
    """The live entities inside a container on which the subject does not hold a privilege.

    A decision reads only `is_empty`. The other members are set only for explanations:
    checked_count: number of live entities that were checked.
    addresses: the entities without the privilege, sorted by address.
    unlisted_count: number of further entities without the privilege, which are counted but not listed.
    """

    is_empty: bool
    checked_count: int = 0
    addresses: tuple[Address, ...] = ()
    unlisted_count: int = 0


class Facts(Protocol):
    """The facts about the subject of one question, derived from its grants."""

    is_subject_known: bool

    def privileges_on(self, address: Address) -> Mapping[Privilege, str]:
        """Return the privileges that the subject holds on exactly `address`.

        Each privilege maps to a principal that holds it, or to an empty string if the facts are not for an
        explanation. The principal can be a `HolderName`.
        """

    def has_grant_at_or_below(self, address: Address) -> bool:
        """Return whether there is a grant on `address` or on an address inside it."""

    def grant_at_or_below(self, address: Address) -> HeldGrant | None:
        """Return one grant on `address` or inside it, for an explanation; None if there is no such grant."""

    def entities_without_privilege(
        self, address: Address, privilege: Privilege, kind: str | None
    ) -> EntitiesWithoutPrivilege:
        """Return the live entities inside `address` on which the subject does not hold `privilege`.

        kind: check only entities of this kind; None for every kind.
        """


def is_permitted(question: Question, facts: Facts) -> bool:
    """Return whether `question` is permitted.

    `explain.explain` returns the same decision with its reasons.
    """
    policy = question.policy
    if policy is None or policy.requirement is None or not facts.is_subject_known:
        return False
    return is_met(policy.requirement, question, facts)


def is_met(expression: Expression, question: Question, facts: Facts) -> bool:
    """Return whether the facts meet `expression`."""
    return fold(expression, IsMet(question, facts))


class IsMet(Algebra[bool]):
    """Whether the facts meet an expression."""

    __slots__ = ("facts", "question")

    def __init__(self, question: Question, facts: Facts):
        self.question, self.facts = question, facts

    def has(self, privileges: tuple[Privilege, ...], scope: Scope) -> bool:
        address = self.question.address_at(scope)
        return address is not None and not self.facts.privileges_on(address).keys().isdisjoint(privileges)

    def has_at_or_below(self) -> bool:
        return self.facts.has_grant_at_or_below(self.question.known_target)

    def has_on_all_live(self, privilege: Privilege, kind: str | None) -> bool:
        return self.facts.entities_without_privilege(self.question.known_target, privilege, kind).is_empty

    def always(self) -> bool:
        return True

    def all_of(self, parts: Iterable[bool]) -> bool:
        return all(parts)

    def any_of(self, parts: Iterable[bool]) -> bool:
        return any(parts)

    def given(self, parameter: Parameter, then: Callable[[], bool]) -> bool:
        return not self.question.has_parameter(parameter) or then()
