"""Read the members of recipes."""

from collections.abc import Sequence

from entities.address import Address, parse_address
from grants.validity import Validity


def read_address(value: Address | str | None) -> Address | None:
    """Return the address that a caller or a recipe names; None for an empty text."""
    return parse_address(value) if value and isinstance(value, str) else value or None


def read_period(value: Validity | Sequence[str]) -> Validity:
    """Return the period that a caller or a recipe names; without limits for an empty one."""
    return value if isinstance(value, Validity) else Validity.parse(*value)
