"""Count what changes do besides permissions: leftover grants, and sessions and tokens that end.

A leftover grant is a grant on a deleted address.
"""

from collections.abc import Iterable
from typing import NamedTuple

from entities.models import Entity, State
from entities.selectors import entities_at
from grants.change_set import Change, Deactivate, Delete, Grant, Recreate, Register, RemovePrincipal, Revoke
from grants.lifecycle.forecast import grants_on, lifecycle_forecast
from grants.models import GRANT_TABLES, NAME_COLUMNS, User, privilege_of
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
    changes = list(changes)
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
                model, _ = GRANT_TABLES[principal_type]
                removed += model.objects.filter(
                    **{NAME_COLUMNS[principal_type]: name, "content_object__state": State.DELETED}
                ).count()
                leaving |= {name} if principal_type == "user" else set()
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
    for principal_type, (model, _) in GRANT_TABLES.items():
        rows = model.objects.filter(content_object__in=[row.pk for row in deleted.values()]).order_by()
        names = {
            change.principal.partition(":")[2]
            for change in changes
            if change.principal.startswith(f"{principal_type}:")
        }
        columns = (NAME_COLUMNS[principal_type], "content_object_id", "permission_id")
        for name, pk, permission in rows.filter(
            **{f"{NAME_COLUMNS[principal_type]}__among": list(names)}
        ).values_list(*columns):
            stored.add((f"{principal_type}:{name}", pk, privilege_of(permission)))
    counts = {True: 0, False: 0}
    for change in {change for change in changes if change.address in deleted}:
        is_stored = (change.principal, deleted[change.address].pk, change.privilege) in stored
        is_grant = isinstance(change, Grant)
        if is_stored is not is_grant:
            counts[is_grant] += 1
    return counts[True], counts[False]
