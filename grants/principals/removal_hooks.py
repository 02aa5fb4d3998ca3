"""Let the layer above refuse new names and removals, and remove its data about an account.

Sign-in, tokens, provisioning and the directory belong to the layer above, which registers functions.
"""

from collections.abc import Callable

from django.contrib.auth.models import Group

from grants.journal import JournalEntry
from grants.models import User

# (principal, whether it would be removed, whether a provisioning service asks) -> why it must keep its name,
# or cannot be removed; empty if there is no reason
NameGuard = Callable[[User | Group, bool, bool], str]
# deletes the data of the layer above about an account, and returns the changes for the journal
AccountCleaner = Callable[[User], list[JournalEntry]]
_guards: list[NameGuard] = []
_cleaners: list[AccountCleaner] = []


def register_name_guard(guard: NameGuard) -> None:
    if guard not in _guards:
        _guards.append(guard)


def register_account_cleaner(cleaner: AccountCleaner) -> None:
    if cleaner not in _cleaners:
        _cleaners.append(cleaner)


def name_guard_fault(
    principal: User | Group, *, is_removal: bool = False, is_provisioner: bool = False
) -> str:
    """Return why the principal must keep its name, or cannot be removed; empty if there is no reason.

    is_provisioner: whether a provisioning service asks, which may rename what it manages.
    """
    return next(filter(None, (guard(principal, is_removal, is_provisioner) for guard in _guards)), "")


def remove_account_data(user: User) -> list[JournalEntry]:
    """Delete the data of the layer above about the account.

    Return the changes. Call this in the transaction of the removal.
    """
    return [change for cleaner in _cleaners for change in cleaner(user)]
