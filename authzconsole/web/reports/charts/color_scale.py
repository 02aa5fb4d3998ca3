"""The colour scale of charts, from zero to the largest value."""

from math import ceil, sqrt

STEPS = 5


def color_step(amount: int, largest: int) -> int:
    """Return the step of an amount, from 0 (none) to STEPS.

    The scale is a square root, so that one large value does not make all others look the same.
    """
    return ceil(STEPS * sqrt(amount / largest)) if amount else 0
