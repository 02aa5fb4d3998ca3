"""Rights of accounts on single entities.

An `entity` is a registered entity, or an address that need not be registered.
"""

from collections.abc import Collection

from django.db.models import Q, QuerySet

from entities.address import Address
from entities.models import Entity
from entities.vocabulary import Privilege
from grants.authority.delegation import delegated_addresses, delegates_of, is_delegate, own_principals
from grants.authority.limits import DelegationLimits
from grants.authority.stewards import is_steward, sees_everything_in, stewards_of
from grants.change_set import Grant, Revoke
from grants.errors import NotAdministrator
from grants.models import User
from grants.roles.capabilities import Capability, roles_with


def can_change_some_grants(account: User, entity: Entity | Address) -> bool:
    """Return whether the account may change grants of some principal on the entity."""
    address = _address(entity)
    return account.can_administer or (
        DelegationLimits.for_account(account).allows(address, None) and is_delegate(account, address)
    )


def grantable_privileges(account: User) -> list[Privilege]:
    """Return the privileges that the account may grant and revoke where it may change grants.

    Runs at most one query for each object of an account.
    """
    if account.can_administer:
        return list(Privilege)
    return [
        privilege for privilege in Privilege if privilege in DelegationLimits.for_account(account).privileges
    ]


def can_see_holders(account: User, entity: Entity | Address) -> bool:
    """Return whether the account may see who holds which privileges on the entity."""
    return sees_everything_in(account, entity) or is_delegate(account, _address(entity))


def can_read_history(account: User, entity: Entity | Address) -> bool:
    """Return whether the account may see the journal lines about the entity."""
    return account.can_read_journal or is_steward(account, entity)


def approvers_of(
    entity: Entity | Address, privilege: Privilege | None = None, limits: DelegationLimits | None = None
) -> QuerySet[User]:
    """Return the active accounts that may approve a request for this privilege on the entity.

    privilege: None for any. limits: those of delegation, read from the database by default.
    """
    address = _address(entity)
    may_approve = Q(role__in=roles_with(Capability.APPROVE)) | Q(pk__in=stewards_of(address).values("pk"))
    if (limits or DelegationLimits.current()).allows(address, privilege):
        may_approve |= Q(pk__in=delegates_of(address).values("pk"))
    return User.objects.filter(may_approve, is_active=True, is_service=False)


def is_approver(account: User, entity: Entity | Address, privilege: Privilege | None = None) -> bool:
    """Return whether the account is one of `approvers_of` the entity."""
    return (
        approvers_of(entity, privilege, DelegationLimits.for_account(account)).filter(pk=account.pk).exists()
    )


def check_delegated_changes(account: User, changes: Collection[Grant | Revoke]) -> None:
    """Raise NotAdministrator unless the account may make all these changes by delegation.

    The error depends only on the changes and on the account, not on what exists. Runs three queries for few
    addresses.
    """
    limits = DelegationLimits.current()
    delegated = delegated_addresses(account, {change.address for change in changes})
    own = own_principals(account)
    for change in changes:
        if change.address not in delegated:
            raise NotAdministrator(
                f"`{account.username}` is not an active administrator of this console, and cannot change "
                f"grants on {change.address}: ask an administrator"
            )
        period = change.validity if isinstance(change, Grant) else None
        if fault := limits.fault(change.address, change.privilege, period):
            raise NotAdministrator(fault)
        if period is not None and change.principal in own:
            raise NotAdministrator(
                f"`{account.username}` cannot grant anything to itself or to its groups: ask an administrator"
            )


def _address(entity: Entity | Address) -> Address:
    return entity.address if isinstance(entity, Entity) else entity
