"""Evaluate a requirement for many users at once.

A mask is an integer with one bit for each user. Questions about effects name no parameters, such as an owner
or an artifact.
"""

from typing import Protocol

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
    Scope,
    UnknownExpression,
)


class MaskSource(Protocol):
    """The users that hold privileges on and around one target. everyone: the mask of the known subjects."""

    everyone: int

    def holders(self, scope: Scope, privileges: tuple[Privilege, ...]) -> int:
        """Return the users that hold at least one of `privileges` on the address at `scope`; 0 if there is no
        such address.
        """

    def holders_at_or_below(self) -> int:
        """Return the users that hold any privilege on the target or inside it."""

    def holders_on_all_live(self, privilege: Privilege, kind: str | None) -> int:
        """Return the users that hold `privilege` on every live entity of `kind` inside the target."""


def users_meeting(expression: Expression, source: MaskSource) -> int:
    """Return the mask of the users that meet `expression` with their grants."""
    match expression:
        case Has(privileges, scope):
            return source.holders(scope, privileges)
        case AllOf(parts):
            mask = source.everyone
            for part in parts:
                mask &= users_meeting(part, source)
            return mask
        case AnyOf(parts):
            mask = 0
            for part in parts:
                mask |= users_meeting(part, source)
            return mask
        case HasAtOrBelow():
            return source.holders_at_or_below()
        case HasOnAllLive(privilege, kind):
            return source.holders_on_all_live(privilege, kind)
        case Given() | Always():
            # a question without parameters meets `Given`
            return source.everyone
        case _:
            raise UnknownExpression(expression)


class BitCounter:
    """Count, for each bit, how many of the added masks have it.

    The counts are stored as planes: bit i of plane n is binary digit n of the count of bit i. So adding a
    mask takes only a few operations on integers.
    """

    def __init__(self) -> None:
        self._planes: list[int] = []

    def add(self, mask: int) -> None:
        """Count the bits of a mask."""
        for position, plane in enumerate(self._planes):
            if not mask:
                return
            self._planes[position] = plane ^ mask
            mask &= plane
        if mask:
            self._planes.append(mask)

    def count(self, bit: int) -> int:
        """Return how many of the masks have the bit with this number."""
        return sum((plane >> bit & 1) << position for position, plane in enumerate(self._planes))

    @property
    def any(self) -> int:
        """The mask of all bits that were counted at least once."""
        mask = 0
        for plane in self._planes:
            mask |= plane
        return mask


def bits_of(mask: int) -> list[int]:
    """Return the numbers of the bits of a mask, in ascending order."""
    text = bin(mask)[:1:-1]
    bits, position = [], text.find("1")
    while position >= 0:
        bits.append(position)
        position = text.find("1", position + 1)
    return bits
