"""Read the members of recipes."""

from entities.address import Address, parse_address


def read_address(value: Address | str | None) -> Address | None:
    """Return the address that a caller or a recipe names; None for an empty text."""
    return parse_address(value) if value and isinstance(value, str) else value or None
