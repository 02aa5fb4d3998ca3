"""Select, list and read the users and groups that SCIM can see, and store their external ids."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from scim2_models import InvalidValueException, NotFoundException, Resource

from authzconsole.models import ProvisionedGroup, ProvisionedUser
from authzconsole.scim.filters import ColumnMap, filter_condition, id_from_text, sort_order
from authzconsole.scim.payloads import (
    Query,
    list_response,
    query_from_values,
    query_of,
    read_payload,
    scim_response,
)
from entities.frozen import frozen
from entities.text import storage_fault
from grants.authority.transactions import administrator_transaction
from grants.journal import Author, JournalEntry, append_to_journal, lock_journal
from grants.models import User
from grants.policies.principals import ROLE_PREFIX, group_text

SEARCH_SCHEMA = "urn:ietf:params:scim:api:messages:2.0:SearchRequest"
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
    return Group.objects.exclude(name__startswith=ROLE_PREFIX).select_related("provisioned")


@frozen
class ResourceRows:
    """The rows of a type of resource, and how they are listed and read.

    schema: its URN. model: its SCIM model. rows: returns those that SCIM can see. resources: returns the resources of
    rows, and runs one query for their members or groups.
    """

    schema: str
    model: type
    columns: ColumnMap
    rows: Callable[[], QuerySet]
    resources: Callable[[list, Query], Iterable[dict]]

    def list_rows(self, request: HttpRequest) -> HttpResponse:
        return self._page(query_of(request, self.schema))

    def search(self, request: HttpRequest) -> HttpResponse:
        return self._page(query_from_values(read_payload(request, SEARCH_SCHEMA), self.schema))

    def _page(self, query: Query) -> HttpResponse:
        """Return the requested page. Runs two queries besides that of `resources`, or one for a page of 0 rows.

        Raise InvalidFilterException or InvalidPathException.
        """
        rows, order = self.rows(), ["pk"]
        if query.filter:
            rows = rows.filter(filter_condition(self.model, query.filter, self.columns))
        if query.sort_by:
            first = sort_order(self.model, query.sort_by, self.columns, is_descending=query.is_descending)
            order.insert(0, first)
        total, start = rows.count(), query.start - 1
        page = [*rows.order_by(*order)[start : start + query.count]] if query.count else []
        return list_response(self.resources(page, query), total, query)

    def read(self, request: HttpRequest, pk: str) -> HttpResponse:
        return self.response(row_or_404(self.rows(), pk), request)

    def response(self, row: User | Group, request: HttpRequest, *, status: int = 200) -> HttpResponse:
        query = query_of(request, self.schema)
        (resource,) = self.resources([row], query)
        return scim_response(query.select(resource), status=status, Location=resource["meta"]["location"])


def row_or_404(rows: QuerySet, text: str):
    """Return the row with this id. Raise NotFoundException if there is none."""
    number = id_from_text(text)
    row = rows.filter(pk=number).first() if number is not None else None
    if row is None:
        raise NotFoundException(detail="this resource does not exist")
    return row


def checked_external_id(resource: Resource[Any]) -> str:
    external_id = resource.external_id or ""
    if fault := storage_fault(external_id, MAX_EXTERNAL_ID_CHARACTERS):
        raise InvalidValueException(detail=f"externalId: {fault}")
    return external_id


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
            action, principal = "group-change", group_text(row.name)
        else:
            ProvisionedUser.objects.update_or_create(user=row, defaults={"external_id": external_id})
            action, principal = "user-change", str(row)
        if not is_new:
            change = JournalEntry(action, principal=principal, detail=f"external id: {external_id}")
            append_to_journal(head, [change], author=author)
