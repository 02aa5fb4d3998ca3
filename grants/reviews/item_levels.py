"""Summarize what the items of a review give, by access level, kind and namespace."""

from collections.abc import Mapping

from django.db.models import Count, Q, QuerySet

from entities.frozen import frozen
from entities.models import State
from entities.vocabulary import KINDS
from grants.evaluation.granted_levels import granted_level
from grants.models.reviews import MEMBERSHIPS, ReviewItem
from grants.policies.levels import Level, LevelCount

# the items that are counted while a page is shown
MAX_ITEMS = 10_000
# with more namespaces, entities are not counted by namespace
MAX_NAMESPACES = 50


@frozen
class ItemLevels:
    """What items give. levels: the live entities on which their grants are, by level, kind and namespace.

    memberships: the number of reviewed memberships, in this number of groups and roles. other: the number of grants that give
    nothing now, because their entity is not live, or they have ended or were revoked.
    """

    levels: list[LevelCount]
    memberships: int = 0
    groups: int = 0
    other: int = 0

    def as_json(self) -> dict:
        rows = [[count.level.value, count.kind, count.namespace, count.count] for count in self.levels]
        return {
            "levels": rows,
            "memberships": self.memberships,
            "groups": self.groups,
            "other": self.other,
        }


def parse_item_levels(data: Mapping) -> ItemLevels | None:
    """Return the summary of this result of `as_json`; None of an empty object."""
    if not data:
        return None
    levels = [LevelCount(Level(level), *values) for level, *values in data["levels"] if values[0] in KINDS]
    return ItemLevels(levels, data["memberships"], data["groups"], data["other"])


def item_levels(items: QuerySet[ReviewItem]) -> ItemLevels:
    """Return what these items give in the active generation. Runs at most four queries; reads each item."""
    is_membership = Q(source__in=MEMBERSHIPS)
    gives = ~is_membership & Q(entity_state=State.LIVE, is_ended=False, removed="")
    totals = items.aggregate(
        memberships=Count("pk", filter=is_membership),
        groups=Count("group_name", filter=is_membership, distinct=True),
        other=Count("pk", filter=~is_membership & ~gives),
        namespaces=Count("namespace", filter=gives, distinct=True),
    )
    columns = ["kind", "namespace"] if totals.pop("namespaces") <= MAX_NAMESPACES else ["kind"]
    rows = (
        items.filter(gives)
        .order_by()
        .annotate(item_level=granted_level("kind"))
        .values("item_level", *columns)
        .annotate(entities=Count("entity_id", distinct=True))
    )
    levels = [
        LevelCount(Level(row["item_level"]), row["kind"], row.get("namespace"), row["entities"])
        for row in rows
    ]
    return ItemLevels(levels, **totals)
