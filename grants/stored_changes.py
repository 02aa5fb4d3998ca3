"""Read stored grants and memberships as the changes that would make them."""

from collections.abc import Iterator

from django.db.models import QuerySet

from grants.change_set import Grant, Include, Join, Revoke
from grants.models import GrantQuerySet
from grants.validity import VALIDITY_COLUMNS, Validity

ROWS_PER_READ = 2_000
ENTITY_COLUMNS = ("content_object__kind", "content_object__key")


def stored_grants(rows: GrantQuerySet) -> Iterator[Grant]:
    """Yield grants of one type of principal in the order of `rows`; by default, by principal and address. Runs
    one query.
    """
    columns = (rows.principal_type.name_path, *ENTITY_COLUMNS, "permission_id")
    ordered = rows if rows.ordered else rows.order_by(*columns)
    for principal, address, privilege, *period in ordered.grant_keys(*VALIDITY_COLUMNS):
        yield Grant(principal, address, privilege, Validity(*period))


def revocations_of(rows: GrantQuerySet) -> Iterator[Revoke]:
    """Yield the revocations of grants of one type of principal, by address and principal. Runs one query."""
    order = (*ENTITY_COLUMNS, rows.principal_type.name_path, "permission_id")
    return (Revoke(*key) for key in rows.order_by(*order).grant_keys())


def stored_memberships(rows: QuerySet) -> Iterator[Join]:
    """Yield memberships by user and group. Runs one query."""
    columns = ("user__username", "group__name")
    values = rows.order_by(*columns).values_list(*columns, *VALIDITY_COLUMNS)
    for user, group, *period in values.iterator(chunk_size=ROWS_PER_READ):
        yield Join(user, group, Validity(*period))


def stored_role_groups(rows: QuerySet) -> Iterator[Include]:
    """Yield memberships of groups in roles by group and role. Runs one query."""
    columns = ("group__name", "role__name")
    for group, role, *period in rows.order_by(*columns).values_list(*columns, *VALIDITY_COLUMNS):
        yield Include(group, role, Validity(*period))
