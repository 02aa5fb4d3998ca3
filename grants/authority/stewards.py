"""Data stewards: accounts that see everything in a namespace and approve requests for it, without changing
anything.

An account is a steward of a namespace itself, or through its current membership in a group. It must be
active.
"""

from django.db.models import Q, QuerySet

from entities.address import Address
from entities.models import Entity
from grants.models import Belonging, NamespaceSteward, User
from grants.validity import in_force_condition

_CACHE = "_stewarded_namespaces"


def stewarded_namespaces(account: User) -> frozenset[str]:
    """Return the keys of the namespaces that the account is a steward of.

    Runs one query for each object of an account.
    """
    if _CACHE not in account.__dict__:
        groups = Belonging.objects.filter(in_force_condition(), user=account).values("group")
        rows = NamespaceSteward.objects.filter(Q(user=account) | Q(group__in=groups)).values_list(
            "namespace", flat=True
        )
        account.__dict__[_CACHE] = frozenset(rows) if account.is_active else frozenset()
    return account.__dict__[_CACHE]


def is_steward(account: User, entity: Entity | Address) -> bool:
    """Return whether the account is a steward of the namespace of the entity. Runs at most one query."""
    address = entity.address if isinstance(entity, Entity) else entity
    namespace = address.namespace
    return namespace is not None and namespace.key in stewarded_namespaces(account)


def sees_everything_in(account: User, entity: Entity | Address) -> bool:
    """Return whether the account sees the entity and everything inside it, whatever it holds."""
    return account.can_see_all or is_steward(account, entity)


def only_namespace(account: User, address: Address) -> str:
    """Return the namespace of the address if the account sees the address only as its steward; empty if it
    sees everything.
    """
    namespace = address.namespace
    return "" if account.can_see_all or namespace is None else namespace.key


def stewarded_condition(account: User) -> Q:
    """Return the condition that an entity is in a namespace that the account is a steward of.

    Runs at most one query; none for accounts that see everything anyway, and the condition then selects
    nothing.
    """
    names = frozenset() if account.can_see_all else stewarded_namespaces(account)
    return Q(namespace__key__in=names) if names else Q(pk__in=[])


def stewards_of(address: Address) -> QuerySet[User]:
    """Return the active accounts that are stewards of the namespace of the address."""
    if (namespace := address.namespace) is None:
        return User.objects.none()
    rows = NamespaceSteward.objects.filter(namespace=namespace.key)
    members = Belonging.objects.filter(in_force_condition(), group__in=rows.values("group")).values("user")
    return User.objects.filter(Q(pk__in=rows.values("user")) | Q(pk__in=members), is_active=True)
