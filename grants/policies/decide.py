"""Decide a question: is its requirement met, given the facts?

Everything is denied by default: an unknown subject, kind or operation, a missing rule and an unmet requirement all lead to
a denial.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from entities.address import Address
from entities.vocabulary import Privilege
from grants.policies.grammar import (
    AllOf,
    Always,
    AnyOf,
    Expression,
    Given,
    Has,
    HasAtOrBelow,
    HasOnAllLive,
    UnknownExpression,
)
from grants.policies.question import Question


@dataclass(frozen=True, slots=True)
class HeldGrant:
    """A grant that counts for the subject.

    principal: the holder as it is written, either the subject itself or one of its groups.
    """

    principal: str
    entity: Address
    privilege: Privilege


@dataclass(frozen=True, slots=True)
class MissingEntities:
    """Live entities inside a container on which the subject does not hold a privilege.

    is_empty: all that a decision reads. The other members are filled for explanations only.
    total: number of live entities that were checked. addresses: those that lack the privilege, sorted by address.
    unlisted_count: number of further ones that are counted but not listed.
    """

    is_empty: bool
    total: int = 0
    addresses: tuple[Address, ...] = ()
    unlisted_count: int = 0


class Facts(Protocol):
    """What the grants say about the subject of one question."""

    subject_is_known: bool

    def privileges_on(self, address: Address) -> Mapping[Privilege, str]:
        """Return the privileges held on exactly `address`.

        Each maps to a principal that holds it, or to an empty string if no explanation is wanted.
        """

    def has_grant_at_or_below(self, address: Address) -> bool:
        """Return whether there is a grant on `address` or on an address inside it."""

    def grant_at_or_below(self, address: Address) -> HeldGrant | None:
        """Return one grant on `address` or inside it, to be named in an explanation; None if there is none."""

    def missing_entities(self, address: Address, privilege: Privilege, kind: str | None) -> MissingEntities:
        """Return the live entities inside `address`, of one kind or of all, on which `privilege` is not held."""


def is_permitted(question: Question, facts: Facts) -> bool:
    """Return the decision only. `explain.explain` returns the same decision with its reasons."""
    policy = question.policy
    if policy is None or policy.requirement is None or not facts.subject_is_known:
        return False
    return is_met(policy.requirement, question, facts)


def is_met(expression: Expression, question: Question, facts: Facts) -> bool:
    """Return whether `expression` is met."""
    match expression:
        case Has(privileges, scope):
            address = question.address_at(scope)
            return address is not None and not facts.privileges_on(address).keys().isdisjoint(privileges)
        case AllOf(parts):
            return all(is_met(part, question, facts) for part in parts)
        case AnyOf(parts):
            return any(is_met(part, question, facts) for part in parts)
        case HasAtOrBelow():
            return facts.has_grant_at_or_below(question.known_target)
        case HasOnAllLive(privilege, kind):
            return facts.missing_entities(question.known_target, privilege, kind).is_empty
        case Given(parameter, then):
            return not question.has_parameter(parameter) or is_met(then, question, facts)
        case Always():
            return True
        case _:
            raise UnknownExpression(expression)
