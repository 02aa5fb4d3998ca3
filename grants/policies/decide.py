"""The verdict: does the requirement hold for this question, given these facts?

Denied by default: an unknown subject, kind or operation, a missing rule and an unmet requirement all end in no.
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
    """One grant that counts: who holds it (the subject, or a group that it is in), where and what."""

    principal: str
    entity: Address
    privilege: Privilege


@dataclass(frozen=True, slots=True)
class MissingEntities:
    """Live entities inside a container on which a privilege is not held.

    is_empty decides. The rest is there for an explanation only. total: how many live entities were looked at. addresses: which
    of them lack it, in the order of their addresses; `more` further ones are counted and not named.
    """

    is_empty: bool
    total: int = 0
    addresses: tuple[Address, ...] = ()
    unlisted_count: int = 0


class Facts(Protocol):
    """What the grants say about one question's subject."""

    subject_is_known: bool

    def privileges_on(self, place: Address) -> Mapping[Privilege, str]:
        """The privileges held on exactly `place`, each with a principal that holds it (empty where no reasons are asked)."""

    def has_grant_at_or_below(self, place: Address) -> bool:
        """Whether there is a grant on `place` or on an address inside it."""

    def grant_at_or_below(self, place: Address) -> HeldGrant | None:
        """One of these grants, for a reason; None where there is none."""

    def missing_entities(self, place: Address, privilege: Privilege, kind: str | None) -> MissingEntities:
        """The live entities inside `place` (of one kind, or of all) on which `privilege` is not held."""


def is_permitted(question: Question, facts: Facts) -> bool:
    """The verdict alone. `explain.decision` gives the same with its reasons."""
    policy = question.policy
    if policy is None or policy.requirement is None or not facts.subject_is_known:
        return False
    return is_met(policy.requirement, question, facts)


def is_met(expression: Expression, question: Question, facts: Facts) -> bool:
    """Whether `expression` is met."""
    match expression:
        case Has(privileges, scope):
            place = question.address_at(scope)
            return place is not None and not facts.privileges_on(place).keys().isdisjoint(privileges)
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
