"""Evaluate a requirement for many users at once.

A mask is an integer with one bit for each user. Questions about effects name no parameters, such as an owner
or an artifact.
"""

from collections.abc import Callable, Iterable

from grants.policies.grammar import Algebra, Expression, Parameter, fold


class UserMasks(Algebra[int]):
    """The masks of the users that meet a requirement with the privileges that they hold on and around one target.

    Subclasses add the leaves about grants. everyone: the mask of the known subjects.
    """

    __slots__ = ()

    everyone: int

    def always(self) -> int:
        return self.everyone

    def all_of(self, parts: Iterable[int]) -> int:
        mask = self.everyone
        for part in parts:
            mask &= part
        return mask

    def any_of(self, parts: Iterable[int]) -> int:
        mask = 0
        for part in parts:
            mask |= part
        return mask

    def given(self, parameter: Parameter, then: Callable[[], int]) -> int:
        # a question without parameters meets `Given`
        return self.everyone


def users_meeting(expression: Expression, masks: UserMasks) -> int:
    """Return the mask of the users that meet `expression` with their grants."""
    return fold(expression, masks)


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
    def counts(self) -> dict[int, int]:
        """How many of the masks have each bit, by its number, for the bits that any of them has."""
        counts = dict.fromkeys(bits_of(self.any), 0)
        for position, plane in enumerate(self._planes):
            for bit in bits_of(plane):
                counts[bit] += 1 << position
        return counts

    @property
    def total(self) -> int:
        """The number of counted bits in all masks."""
        return sum(plane.bit_count() << position for position, plane in enumerate(self._planes))

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
