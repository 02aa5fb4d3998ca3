"""Select the users and groups that SCIM can see, and store their external ids."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models import Q, QuerySet
from scim2_models import NotFoundException

from authzconsole.models import ProvisionedGroup, ProvisionedUser
from authzconsole.scim.filters import ColumnMap, filter_condition, id_from_text, sort_order
from authzconsole.scim.responses import Query
from grants.authority.transactions import administrator_transaction
from grants.journal import Author, JournalEntry, append_to_journal, lock_journal
from grants.models import User

MAX_EXTERNAL_ID_CHARACTERS = ProvisionedUser._meta.get_field("external_id").max_length


@contextmanager
def write_transaction() -> Iterator[None]:
    """Open a transaction and lock the journal, so that a request applies completely or not at all.

    All other changes wait, so read and validate the request first.
    """
    with transaction.atomic():
        lock_journal()
        yield


def visible_condition(path: str = "") -> Q:
    """Return the condition that SCIM can see a user. path: the query path to the user.

    Service accounts are hidden. A user that was removed over SCIM is hidden until the user is activated
    again.
    """
    return Q(**{f"{path}is_service": False}) & (
        Q(**{f"{path}is_active": True}) | Q(**{f"{path}provisioned__removed_at__isnull": True})
    )


def visible_users() -> QuerySet[User]:
    return User.objects.filter(visible_condition()).select_related("provisioned")


def visible_groups() -> QuerySet[Group]:
    return Group.objects.select_related("provisioned")


def matching_page(rows: QuerySet, model: type, query: Query, columns: ColumnMap) -> tuple[list, int]:
    """Return the rows of the requested page, and how many rows match the filter. Runs two queries, or one for
    a page of 0 rows.

    model: the SCIM model of the resource. Raise InvalidFilterException or InvalidPathException.
    """
    if query.filter:
        rows = rows.filter(filter_condition(model, query.filter, columns))
    order = (
        [sort_order(model, query.sort_by, columns, is_descending=query.is_descending)]
        if query.sort_by
        else []
    )
    total = rows.count()
    rows = rows.order_by(*order, "pk")
    return list(rows[query.start - 1 : query.start - 1 + query.count]) if query.count else [], total


def row_or_404(rows: QuerySet, text: str):
    """Return the row with this id. Raise NotFoundException if there is none."""
    number = id_from_text(text)
    row = rows.filter(pk=number).first() if number is not None else None
    if row is None:
        raise NotFoundException(detail="this resource does not exist")
    return row


def external_id_of(row: User | Group) -> str:
    provisioned = getattr(row, "provisioned", None)
    return provisioned.external_id if provisioned else ""


def store_external_id(author: Author, row: User | Group, external_id: str, *, is_new: bool = False) -> None:
    """Store the id of a user or group in the identity provider.

    This writes a journal line unless the row is new.
    """
    if external_id == external_id_of(row):
        return
    with administrator_transaction(author, allows_provisioner=True) as head:
        if isinstance(row, Group):
            ProvisionedGroup.objects.update_or_create(group=row, defaults={"external_id": external_id})
            action, principal = "group-change", f"group:{row.name}"
        else:
            ProvisionedUser.objects.update_or_create(user=row, defaults={"external_id": external_id})
            action, principal = "user-change", str(row)
        if not is_new:
            change = JournalEntry(action, principal=principal, detail=f"external id: {external_id}")
            append_to_journal(head, [change], author=author)
