"""End the tokens and sessions of accounts.

Their tables belong to the layer above, which registers functions.
"""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from grants.journal import JournalEntry

# (primary keys of users, whether their tokens end too) -> the changes for the journal
AccessEnder = Callable[[Sequence[int], bool], list[JournalEntry]]


class AccessCounts(NamedTuple):
    """Numbers of sessions and tokens of accounts."""

    sessions: int = 0
    tokens: int = 0


# names of users -> the numbers of their sessions and tokens
AccessCounter = Callable[[Collection[str]], AccessCounts]
_enders: list[AccessEnder] = []
_counters: list[AccessCounter] = []


def register_access_ender(ender: AccessEnder, counter: AccessCounter) -> None:
    """Register the function that ends tokens and sessions, and the one that counts those that it would end."""
    if ender not in _enders:
        _enders.append(ender)
        _counters.append(counter)


def count_access(users: Collection[str]) -> AccessCounts:
    """Return how many sessions and tokens would end with these users.

    Runs two queries, or none without users.
    """
    counts = [counter(users) for counter in _counters] if users else []
    return AccessCounts(sum(row.sessions for row in counts), sum(row.tokens for row in counts))


def end_access(user_ids: Sequence[int], *, with_tokens: bool = True) -> list[JournalEntry]:
    """End the sessions of the users, and their tokens if requested.

    Return the changes. Call this in their transaction.
    """
    return [change for ender in _enders for change in ender(user_ids, with_tokens)] if user_ids else []
