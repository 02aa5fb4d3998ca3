"""One scale of colours for how much of something there is, from none to the most of what is drawn."""

from math import ceil, sqrt

STEPS = 5


def step_of(amount: int, most: int) -> int:
    """From 0, which is none, to STEPS, by the root: one large amount leaves the others their differences."""
    return ceil(STEPS * sqrt(amount / most)) if amount else 0
