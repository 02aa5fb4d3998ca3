"""Who may write: administrators of the console, and its commands.

INVARIANT: every write of grants, principals, states and settings happens inside `administrator_transaction`, so that it is one
transaction, in the journal's order, by somebody who may.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction

from grants.errors import GrantError, NotAdministrator
from grants.journal import Author, lock_journal
from grants.models import JournalHead, Role, User
from grants.principal_names import MAX_REASON_CHARACTERS, storage_fault


@contextmanager
def administrator_transaction(author: Author) -> Iterator[JournalHead]:
    """One transaction under the journal's lock. Raises NotAdministrator; a command (no `user_id`) may write."""
    if fault := storage_fault(author.reason, MAX_REASON_CHARACTERS):
        raise GrantError(f"the reason cannot be kept: {fault}")
    with transaction.atomic():
        head = lock_journal()
        check_administrator(author)
        yield head


def check_administrator(author: Author) -> None:
    """Raises NotAdministrator; a command (no `user_id`) may write."""
    if author.user_id is not None and not _administers(author.user_id):
        raise NotAdministrator(f"`{author.name}` is not an active administrator of this console: only administrators "
                               f"change what others may do; ask one of them")


def _administers(user_id: int) -> bool:
    return User.objects.filter(pk=user_id, role=Role.ADMINISTRATOR, is_active=True).exists()
