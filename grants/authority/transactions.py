"""Check that an author may write: an account with the capability for the change, or a management command.

A provisioning service may also add users and groups, and change memberships.

INVARIANT: grants, principals, states and settings are written only inside `administrator_transaction`. Every
write is therefore a single transaction, in the order of the journal, by an author who may write.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.db import transaction

from entities.text import storage_fault
from grants.authority.stewards import stewarded_namespaces
from grants.errors import GrantError, NotAdministrator, PrincipalError
from grants.journal import Author, lock_journal
from grants.models import JournalHead, Role, User
from grants.principal_names import MAX_REASON_CHARACTERS
from grants.roles.capabilities import Capability, capabilities_of, role_includes, role_names, roles_with


@contextmanager
def administrator_transaction(
    author: Author, *, allows_provisioner: bool = False, capability: Capability = Capability.CHANGE_GRANTS
) -> Iterator[JournalHead]:
    """Open a transaction, lock the journal, check the author, and yield the locked head of the journal.

    capability: what the account of the author must be able to do.
    allows_provisioner: also accept an author with `is_provisioner` and an active service account.
    Raise NotAdministrator, or GrantError if the reason cannot be stored.
    """
    with _locked_journal(author) as head:
        if not (allows_provisioner and author.is_provisioner and _is_active_service(author.user_id)):
            check_capability(author, capability)
        yield head


@contextmanager
def grant_transaction(author: Author) -> Iterator[tuple[JournalHead, User | None]]:
    """Open a transaction for grants and revocations, like `administrator_transaction`. Yield the head, and the
    account of a delegate.

    The account is None if the author may change all grants. Otherwise the caller must call
    `check_delegated_changes`.
    """
    with _locked_journal(author) as head:
        account = None
        if settings.DELEGATION and author.user_id is not None:
            account = User.objects.filter(pk=author.user_id, is_active=True).first()
        if account is None:
            check_administrator(author)
        yield head, None if account is None or account.can_administer else account


@contextmanager
def own_access_transaction(author: Author) -> Iterator[tuple[JournalHead, User]]:
    """Open a transaction in which an account gives back its own access. Yield the head, and the account.

    The caller checks that the access is that of the account. Raise NotAdministrator if it is not active.
    """
    with _locked_journal(author) as head:
        account = User.objects.filter(pk=author.user_id, is_active=True).first()
        if account is None:
            raise NotAdministrator(
                f"`{author.name}` is not an active account, so it has no access to give back"
            )
        yield head, account


@contextmanager
def _locked_journal(author: Author) -> Iterator[JournalHead]:
    if fault := storage_fault(author.reason, MAX_REASON_CHARACTERS):
        raise GrantError(f"the reason cannot be stored: {fault}")
    with transaction.atomic():
        yield lock_journal()


def check_administrator(author: Author) -> None:
    """Raise NotAdministrator unless the author may change grants, or is a command (an author without
    `user_id`).
    """
    check_capability(author, Capability.CHANGE_GRANTS)


def check_capability(author: Author, capability: Capability) -> None:
    """Raise NotAdministrator unless the author is an active account with the capability, or a command.

    Runs one query.
    """
    roles = roles_with(capability)
    if (
        author.user_id is not None
        and not User.objects.filter(pk=author.user_id, role__in=roles, is_active=True).exists()
    ):
        if capability == Capability.CHANGE_GRANTS:
            raise NotAdministrator(
                f"`{author.name}` is not an active administrator of this console: only administrators "
                f"can change permissions; ask one of them"
            )
        raise NotAdministrator(
            f"`{author.name}` cannot do this in this console: only {role_names(capability)} can"
        )


def check_can_manage(author: Author, *roles: str) -> None:
    """Raise NotAdministrator unless the author's role has every capability of these roles.

    roles: the current and the new role of an account that the author changes. With more capabilities than its
    own, the author could use this account to do more than its own role allows. Commands and provisioning
    services pass. Runs one query if a role has capabilities.
    """
    if author.user_id is None or author.is_provisioner or not any(map(capabilities_of, roles)):
        return
    own_role = (
        User.objects.filter(pk=author.user_id, is_active=True).values_list("role", flat=True).first() or ""
    )
    for role in roles:
        if not role_includes(own_role, role):
            raise NotAdministrator(
                f"`{author.name}` cannot manage accounts with the role {role}, or give this role: it can do "
                f"more than the role {own_role}; ask an administrator"
            )


def check_can_manage_account(author: Author, user: User) -> None:
    """Raise NotAdministrator if the author's role does not include the role of an account, or if the account
    is a data steward.

    Only accounts that can assign data stewards manage their accounts. Raise PrincipalError if the author is a
    provisioning service and the account has a console role: who changes its name or its email could sign in as
    this account. Runs at most three queries.
    """
    if author.is_provisioner and user.role != Role.ORDINARY:
        raise PrincipalError(
            f"{user} has the console role {user.role}: only an administrator can change the account"
        )
    check_can_manage(author, user.role)
    if author.user_id not in (None, user.pk) and not author.is_provisioner and stewarded_namespaces(user):
        check_capability(author, Capability.MANAGE_SETTINGS)


def _is_active_service(user_id: int | None) -> bool:
    return User.objects.filter(pk=user_id, is_service=True, is_active=True).exists()
