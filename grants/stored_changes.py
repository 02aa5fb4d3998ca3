"""Read stored grants and memberships as the changes that would make them."""

from collections.abc import Iterator

from django.db.models import QuerySet

from entities.address import Address
from grants.change_set import Grant, Join
from grants.models import NAME_COLUMNS, UserGrant, privilege_of
from grants.validity import VALIDITY_COLUMNS, Validity

ROWS_PER_READ = 2_000
ENTITY_COLUMNS = ("content_object__kind", "content_object__key")


def stored_grants(rows: QuerySet) -> Iterator[Grant]:
    """Yield grants of users, or of groups, in the order of `rows`; by default, by principal and address. Runs
    one query.
    """
    principal_type = "user" if rows.model is UserGrant else "group"
    columns = (NAME_COLUMNS[principal_type], *ENTITY_COLUMNS, "permission_id")
    ordered = rows if rows.ordered else rows.order_by(*columns)
    values = ordered.values_list(*columns, *VALIDITY_COLUMNS).iterator(chunk_size=ROWS_PER_READ)
    for name, kind, key, permission, *period in values:
        address = Address(kind, key)
        yield Grant(f"{principal_type}:{name}", address, privilege_of(permission), Validity(*period))


def stored_memberships(rows: QuerySet) -> Iterator[Join]:
    """Yield memberships by user and group. Runs one query."""
    columns = ("user__username", "group__name")
    values = rows.order_by(*columns).values_list(*columns, *VALIDITY_COLUMNS)
    for user, group, *period in values.iterator(chunk_size=ROWS_PER_READ):
        yield Join(user, group, Validity(*period))
