"""Count what changes do besides permissions: leftover grants, and sessions and tokens that end.

A leftover grant is a grant on a deleted address.
"""

from collections.abc import Iterable
from typing import NamedTuple

from entities.models import Entity, State
from entities.selectors import entities_at
from grants.change_set import Change, Deactivate, Delete, Grant, Recreate, Register, RemovePrincipal, Revoke
from grants.lifecycle import grants_on, lifecycle_forecast
from grants.models import PRINCIPAL_TYPES, USER, User, all_grants
from grants.plan_items import with_plan_changes
from grants.policies.principals import type_and_name
from grants.principal_names import parse_principal
from grants.principals.hooks import count_access


class Consequences(NamedTuple):
    """What changes do besides permissions.

    leftover_created, leftover_removed: leftover grants that exist only afterwards, or only before.
    sessions_ended, tokens_ended: of users who are deactivated or removed.
    """

    leftover_created: int = 0
    leftover_removed: int = 0
    sessions_ended: int = 0
    tokens_ended: int = 0


def consequences_of(changes: Iterable[Change]) -> Consequences:
    """Return the consequences of changes that are not made yet.

    All grants together run up to three queries. Each deletion runs up to seven, each removal two and each
    registration up to three. All users whose access ends run three together.
    """
    changes = list(with_plan_changes(changes))
    created, removed = _leftovers_by_grants(
        [change for change in changes if isinstance(change, Grant | Revoke)]
    )
    leaving: set[str] = set()
    for change in changes:
        match change:
            case Delete(address):
                created += lifecycle_forecast(address, "delete").grants_kept
            case Register(address) | Recreate(address):
                rows = Entity.objects.filter(kind=address.kind, key=address.key, state=State.DELETED)
                removed += sum(grants.count() for grants in grants_on(rows))
            case RemovePrincipal(principal):
                principal_type, name = parse_principal(principal)
                grants = PRINCIPAL_TYPES[principal_type].grants_to(name)
                removed += grants.filter(content_object__state=State.DELETED).count()
                leaving |= {name} if principal_type == USER.name else set()
            case Deactivate(user):
                leaving.add(user)
    active = (
        User.objects.filter(username__among=list(leaving), is_active=True) if leaving else User.objects.none()
    )
    return Consequences(created, removed, *count_access(list(active.values_list("username", flat=True))))


def _leftovers_by_grants(changes: list[Grant | Revoke]) -> tuple[int, int]:
    """Return how many leftover grants the grants and revocations create and remove."""
    deleted = (
        entities_at({change.address for change in changes}, Entity.objects.filter(state=State.DELETED))
        if changes
        else {}
    )
    if not deleted:
        return 0, 0
    stored = set()
    for grants in all_grants(content_object__in=[row.pk for row in deleted.values()]):
        names = {
            name
            for type_, name in (type_and_name(change.principal) for change in changes)
            if type_ == grants.model.principal_type
        }
        stored |= set(
            grants.filter(**{f"{grants.principal_type.name_path}__among": list(names)}).grant_keys()
        )
    counts = {True: 0, False: 0}
    for change in {change for change in changes if change.address in deleted}:
        is_stored = change.key in stored
        is_grant = isinstance(change, Grant)
        if is_stored is not is_grant:
            counts[is_grant] += 1
    return counts[True], counts[False]
