"""Two users side by side: entities on which one holds something, itself or through a group, that the other does not.

Groups that both are in give both the same, and are left out before anything is looked up.
"""

from dataclasses import dataclass

from django.contrib.auth.models import Group
from django.db.models import Exists, OuterRef, Q, QuerySet

from entities.models import Entity
from entities.selectors import sorted_by_address
from grants.models import GroupGrant, User, UserGrant

MOST_APART = 2_000


@dataclass(frozen=True, slots=True)
class ToldApart:
    """entities: by address. are_more: grants beyond MOST_APART tell them apart, and the entities of those are not among them."""

    entities: QuerySet[Entity]
    are_more: bool


def groups_compared(one: User, other: User) -> tuple[list[Group], list[Group], list[Group]]:
    """The groups of both, of the first only, of the second only; by name. Two queries."""
    first, second = ({group.pk: group for group in user.groups.order_by("name")} for user in (one, other))
    return ([group for pk, group in first.items() if pk in second], [group for pk, group in first.items() if pk not in second],
            [group for pk, group in second.items() if pk not in first])


def entities_told_apart(one: User, other: User, *, only_one: list[Group], only_other: list[Group],
                        both: list[Group]) -> ToldApart:
    """The entities on which they do not hold the same privileges. The groups are those of `groups_compared`. One query.

    Of very many differences MOST_APART are taken: who holds nearly everything is not told apart row by row.
    """
    apart = [
        *_not_held(one, only_one, other, [*only_other, *both]),
        *_not_held(other, only_other, one, [*only_one, *both]),
    ]
    # looked up once: to count them, to show a page of them and to see whether there are more
    ids = list(apart[0].union(*apart[1:], all=True)[: MOST_APART + 1])
    return ToldApart(sorted_by_address(Entity.objects.filter(pk__among=set(ids[:MOST_APART]))), len(ids) > MOST_APART)


def _not_held(user: User, groups: list[Group], other: User, others_groups: list[Group]) -> list[QuerySet]:
    """The keys of entities with a grant to the user, or to one of the groups, whose privilege the other lacks there."""
    same = {"content_object_id": OuterRef("content_object_id"), "permission_id": OuterRef("permission_id")}
    lacks = ~Q(Exists(UserGrant.objects.filter(user=other, **same)))
    if others_groups:
        lacks &= ~Q(Exists(GroupGrant.objects.filter(group__in=[group.pk for group in others_groups], **same)))
    own = UserGrant.objects.filter(lacks, user=user)
    through = GroupGrant.objects.filter(lacks, group__in=[group.pk for group in groups])
    return [rows.order_by().values_list("content_object_id", flat=True) for rows in (own, through)]
