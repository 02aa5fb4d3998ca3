"""The list of entities."""

from contextlib import AbstractContextManager, nullcontext

from django.db.models import QuerySet

from authzconsole.common import output
from authzconsole.common.fields import AddressText, Choice, KindText, QuerySerializer, Text, TimeOrRevision
from authzconsole.lists.base import List
from entities.models import Entity, State
from entities.selectors import entity_at, matching_entities, subtree_of
from grants.active_generation import active_generation
from grants.authority.stewards import stewarded_condition
from grants.evaluation.entity_filters import visibility_condition
from grants.journal_queries import custom_query_plan, entities_changed_since
from grants.models import User


class EntitySerializer(output.Output):
    address = output.Text()
    kind = output.Text()
    name = output.Text(
        source="address.name", example="orders", help_text="The last part of the address, without the parent."
    )
    parent = output.Text(  # type: ignore[assignment]
        source="address.parent",
        allow_null=True,
        example="namespace:sales",
        help_text="The address of the parent; null for the instance.",
    )
    state = output.Choice(State.values, example="live")
    description = output.Text(example="Every order, by day")
    created_at = output.Time()
    changed_at = output.Time()


class EntityFilters(QuerySerializer):
    q = Text(
        max_length=200,
        help_text="A part of the key, ignoring case, or a kind with the start of a key, such as `dataset:sales.or`.",
    )
    address = AddressText(help_text="Only this address.")
    parent = AddressText(  # type: ignore[assignment]
        help_text="Only the children of this entity."
    )
    within = AddressText(help_text="Only this entity and everything inside it.")
    kind = KindText(help_text="Only entities of this kind, such as `dataset`.")
    state = Choice(
        choices=State.values,
    )
    changed_since = TimeOrRevision(
        help_text="Only entities with a change of state or description at or after this time, such as "
        "`2026-02-01T08:00:00Z`, or after this revision of the journal, such as `812`.",
    )


class Entities(List):
    """The entities that the account sees, by kind and key."""

    name = "entities"
    output = EntitySerializer
    filter_fields = EntityFilters
    order = ("kind", "key")
    reads_past = True

    def query_plan(self) -> AbstractContextManager[None]:
        # the number of changed entities depends on the value
        return custom_query_plan() if "changed_since" in self.filters else nullcontext()

    def select(self) -> QuerySet[Entity]:
        rows, filters = visible_entities(self.account), self.filters
        if "q" in filters:
            rows = rows & matching_entities(filters["q"]).order_by()
        if "address" in filters:
            rows = rows.filter(kind=filters["address"].kind, key=filters["address"].key)
        if "parent" in filters:
            rows = rows.filter(parent=entity_at(filters["parent"]) or 0)
        if "within" in filters:
            container = entity_at(filters["within"])
            rows = (
                rows.none()
                if container is None
                else rows.filter(pk__in=subtree_of(container).order_by().values("pk"))
            )
        if "changed_since" in filters:
            rows = rows.filter(
                pk__in=entities_changed_since(filters["changed_since"]).order_by().values("pk")
            )
        return rows.filter(**self.equal(kind="kind", state="state"))


def visible_entities(account: User) -> QuerySet[Entity]:
    """Return all entities for administrators and auditors, otherwise those on which the account may `list` or
    `get`.

    A data steward also sees everything in its namespaces.
    """
    if account.can_see_all:
        return Entity.objects.all()
    is_visible = visibility_condition(account, active_generation())
    return Entity.objects.filter(is_visible | stewarded_condition(account))
