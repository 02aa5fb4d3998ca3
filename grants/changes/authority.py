"""Check that an author may write: an administrator of the console, or a management command.

A provisioning service may also add users and groups, and change memberships.

INVARIANT: grants, principals, states and settings are written only inside `administrator_transaction`. Every write is therefore a
single transaction, in the order of the journal, by an author who may write.
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
def administrator_transaction(author: Author, *, allows_provisioner: bool = False) -> Iterator[JournalHead]:
    """Open a transaction, lock the journal, check the author, and yield the locked head of the journal.

    allows_provisioner: also accept an author with `is_provisioner` and an active service account.
    Raise NotAdministrator, or GrantError if the reason cannot be stored.
    """
    if fault := storage_fault(author.reason, MAX_REASON_CHARACTERS):
        raise GrantError(f"the reason cannot be stored: {fault}")
    with transaction.atomic():
        head = lock_journal()
        if not (allows_provisioner and author.is_provisioner and _is_active_service(author.user_id)):
            check_administrator(author)
        yield head


def check_administrator(author: Author) -> None:
    """Raise NotAdministrator unless the author is an active administrator or a command (an author without `user_id`)."""
    if author.user_id is not None and not _is_active_administrator(author.user_id):
        raise NotAdministrator(f"`{author.name}` is not an active administrator of this console: only administrators "
                               f"can change permissions; ask one of them")


def _is_active_administrator(user_id: int) -> bool:
    return User.objects.filter(pk=user_id, role=Role.ADMINISTRATOR, is_active=True).exists()


def _is_active_service(user_id: int | None) -> bool:
    return User.objects.filter(pk=user_id, is_service=True, is_active=True).exists()
