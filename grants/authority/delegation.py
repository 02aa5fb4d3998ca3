"""Delegation: an account that holds ADMIN on an entity changes grants on it and inside it, if DELEGATION is
on.

The source documents let only administrators of the authorization backend grant and revoke. Delegation is
therefore a choice of the deployment, and no rule of a generation decides about it. An account is a delegate
for an address if it holds ADMIN, in force now and directly or through a group, on the address or on a
container of it, and if the entity with the grant is live. Roles that must not change grants cannot be
delegates (`DELEGATE_ROLES`). What they change is limited (`grants.authority.limits`).

INVARIANT: a delegate gives nothing to itself, neither directly nor through a group in which it is or will be
a member.
"""

from collections.abc import Iterable

from django.conf import settings
from django.db.models import Q, QuerySet
from django.utils import timezone

from entities.address import Address
from entities.models import State
from entities.vocabulary import Privilege
from grants.bulk_rows import chunks
from grants.models import GRANT_SOURCES, USER, Belonging, User, permission_ids
from grants.policies.principals import group_text
from grants.roles.capabilities import DELEGATE_ROLES

# in the detail of the journal lines of a delegate
BY_DELEGATION = "by delegation"


def is_delegate(account: User, address: Address) -> bool:
    """Return whether the account is a delegate for the address, whatever its limits.

    Runs one query if delegation is on.
    """
    return address in delegated_addresses(account, [address])


def delegated_addresses(account: User, addresses: Iterable[Address]) -> set[Address]:
    """Return the addresses for which the account is a delegate.

    Runs one query for each ROWS_PER_STATEMENT addresses.
    """
    if not (settings.DELEGATION and account.is_active_principal and account.role in DELEGATE_ROLES):
        return set()
    scopes = {address: _scope(address) for address in addresses}
    held: set[Address] = set()
    for chunk in chunks({container for scope in scopes.values() for container in scope}):
        held.update(Address(kind, key) for kind, key in _administered_addresses(account, chunk))
    return {address for address, scope in scopes.items() if not held.isdisjoint(scope)}


def delegates_of(address: Address) -> QuerySet[User]:
    """Return the delegates for the address."""
    if not settings.DELEGATION:
        return User.objects.none()
    on_scope, now, is_holder = _on(_scope(address)), timezone.now(), Q()
    for source in GRANT_SOURCES[USER.name]:
        is_holder |= Q(pk__in=source.rows(now).filter(on_scope).values(source.subject))
    return User.objects.active_principals().filter(is_holder, role__in=DELEGATE_ROLES)


def own_principals(account: User) -> set[str]:
    """Return the written names of the account and of its groups, including memberships that begin later.

    Runs one query.
    """
    groups = Belonging.objects.filter(user=account).values_list("group__name", flat=True)
    return {f"user:{account.username}", *(group_text(name) for name in groups)}


def _administered_addresses(account: User, addresses: Iterable[Address]) -> QuerySet:
    """Return (kind, key) of each of the addresses on which the account holds ADMIN, as a union of two
    queries.
    """
    on_scope, now = _on(addresses), timezone.now()
    first, *others = (
        source.rows(now, **{source.subject: account})
        .filter(on_scope)
        .values_list("content_object__kind", "content_object__key")
        for source in GRANT_SOURCES[USER.name]
    )
    return first.union(*others)


def _on(addresses: Iterable[Address]) -> Q:
    """Return the condition that a grant is of ADMIN on a live entity at one of the addresses."""
    keys: dict[str, list[str]] = {}
    for address in addresses:
        keys.setdefault(address.kind, []).append(address.key)
    at_address = Q(pk__in=[])
    for kind, kind_keys in keys.items():
        at_address |= Q(content_object__kind=kind, content_object__key__in=kind_keys)
    return at_address & Q(permission_id=permission_ids()[Privilege.ADMIN], content_object__state=State.LIVE)


def _scope(address: Address) -> list[Address]:
    return [address, *address.ancestors]
