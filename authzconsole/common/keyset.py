"""The keyset condition: it selects the rows after a known row, so that a page can start there.

In contrast to OFFSET, its cost does not depend on the position of the page.
"""

from collections.abc import Sequence

from django.db.models import Q


def rows_after(order: Sequence[str], values: Sequence) -> Q:
    """Return the condition for rows that come after `values` in this order.

    order: columns that together are unique; a leading `-` means descending. values: one for each column.
    """
    after, equal = Q(), {}
    for column, value in zip(order, values, strict=True):
        name = column.lstrip("-")
        after |= Q(**equal, **{f"{name}__{_comparison(column)}": value})
        equal[name] = value
    first = order[0]
    # redundant, but lets the database start from an index
    return Q(**{f"{first.lstrip('-')}__{_comparison(first)}e": values[0]}) & after


def reversed_order(order: Sequence[str]) -> tuple[str, ...]:
    return tuple(column[1:] if column.startswith("-") else f"-{column}" for column in order)


def _comparison(column: str) -> str:
    return "lt" if column.startswith("-") else "gt"
