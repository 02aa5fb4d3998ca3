"""Check who may write: administrators of the console, and its management commands.

INVARIANT: every write of grants, principals, states and settings happens inside `administrator_transaction`. It is then one
transaction, in the order of the journal, by an author with the right to write.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction

from entities.text import storage_fault
from grants.errors import GrantError, NotAdministrator
from grants.journal import Author, lock_journal
from grants.models import JournalHead, Role, User
from grants.principal_names import MAX_REASON_CHARACTERS


@contextmanager
def administrator_transaction(author: Author) -> Iterator[JournalHead]:
    """Open one transaction under the lock of the journal, and yield the locked head.

    Raise NotAdministrator. A command (an author without `user_id`) may write.
    """
    if fault := storage_fault(author.reason, MAX_REASON_CHARACTERS):
        raise GrantError(f"the reason cannot be stored: {fault}")
    with transaction.atomic():
        head = lock_journal()
        check_administrator(author)
        yield head


def check_administrator(author: Author) -> None:
    """Raise NotAdministrator unless the author is an active administrator or a command (without `user_id`)."""
    if author.user_id is not None and not _is_active_administrator(author.user_id):
        raise NotAdministrator(f"`{author.name}` is not an active administrator of this console: only administrators "
                               f"can change permissions; ask one of them")


def _is_active_administrator(user_id: int) -> bool:
    return User.objects.filter(pk=user_id, role=Role.ADMINISTRATOR, is_active=True).exists()
