"""Let the layer above end the access of accounts, refuse new names and removals, and remove its data.

Sign-in, sessions, tokens, provisioning and the directory belong to the layer above, which registers
functions.
"""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from django.contrib.auth.models import Group

from grants.journal import JournalEntry
from grants.models import User

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


# (principal, its new name or empty if it would be removed, whether a provisioning service asks) -> why it must
# keep its name, or cannot be removed; empty if there is no reason
NameGuard = Callable[[User | Group, str, bool], str]
# deletes data about an account, or ends what it does for others, and returns the changes for the journal
AccountCleaner = Callable[[User], list[JournalEntry]]
_guards: list[NameGuard] = []
_cleaners: list[AccountCleaner] = []
_duty_enders: list[AccountCleaner] = []


def register_name_guard(guard: NameGuard) -> None:
    if guard not in _guards:
        _guards.append(guard)


def register_account_cleaner(cleaner: AccountCleaner) -> None:
    if cleaner not in _cleaners:
        _cleaners.append(cleaner)


def register_duty_ender(ender: AccountCleaner) -> None:
    if ender not in _duty_enders:
        _duty_enders.append(ender)


def end_duties(user: User) -> list[JournalEntry]:
    """End what a user who leaves does and waits for: stewardships, being a manager or having one, exceptions from
    guardrails, reviews, and pending requests. A later account of the same name would get them.

    Return the changes. Call this in the transaction of the removal.
    """
    return [change for ender in _duty_enders for change in ender(user)]


def name_guard_fault(principal: User | Group, new_name: str = "", *, is_provisioner: bool = False) -> str:
    """Return why the principal must keep its name, cannot get the new name, or cannot be removed; empty if
    there is no reason.

    new_name: empty for a removal. is_provisioner: whether a provisioning service asks, which may rename what it
    manages.
    """
    return next(filter(None, (guard(principal, new_name, is_provisioner) for guard in _guards)), "")


def remove_account_data(user: User) -> list[JournalEntry]:
    """Delete the data of the layer above about the account.

    Return the changes. Call this in the transaction of the removal.
    """
    return [change for cleaner in _cleaners for change in cleaner(user)]
