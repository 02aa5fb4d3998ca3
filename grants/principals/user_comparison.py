"""Compare two users: find entities on which one holds a privilege, directly or through a group, that the other does not.

Groups of both users give both the same privileges, so they are excluded before the query.
"""

from dataclasses import dataclass

from django.contrib.auth.models import Group
from django.db.models import Exists, OuterRef, Q, QuerySet

from entities.models import Entity
from entities.selectors import sorted_by_address
from grants.models import GroupGrant, User, UserGrant

MAX_DIFFERENCES = 2_000


@dataclass(frozen=True, slots=True)
class DifferingEntities:
    """entities: by address. are_more: grants beyond MAX_DIFFERENCES tell them apart; their entities are left out."""

    entities: QuerySet[Entity]
    are_more: bool


def compare_groups(one: User, other: User) -> tuple[list[Group], list[Group], list[Group]]:
    """Return the groups of both users, of the first only and of the second only, by name. Two queries."""
    first, second = ({group.pk: group for group in user.groups.order_by("name")} for user in (one, other))
    return ([group for pk, group in first.items() if pk in second], [group for pk, group in first.items() if pk not in second],
            [group for pk, group in second.items() if pk not in first])


def differing_entities(one: User, other: User, *, only_one: list[Group], only_other: list[Group],
                        both: list[Group]) -> DifferingEntities:
    """The entities on which they do not hold the same privileges. The groups are those of `compare_groups`. One query.

    Of very many differences MAX_DIFFERENCES are taken: who holds nearly everything is not told apart row by row.
    """
    apart = [
        *_not_held(one, only_one, other, [*only_other, *both]),
        *_not_held(other, only_other, one, [*only_one, *both]),
    ]
    # looked up once: to count them, to show a page of them and to see whether there are more
    ids = list(apart[0].union(*apart[1:], all=True)[: MAX_DIFFERENCES + 1])
    first = sorted_by_address(Entity.objects.filter(pk__among=set(ids[:MAX_DIFFERENCES])))
    return DifferingEntities(first, len(ids) > MAX_DIFFERENCES)


def _not_held(user: User, groups: list[Group], other: User, others_groups: list[Group]) -> list[QuerySet]:
    """The keys of entities with a grant to the user, or to one of the groups, whose privilege the other lacks there."""
    same = {"content_object_id": OuterRef("content_object_id"), "permission_id": OuterRef("permission_id")}
    lacks = ~Q(Exists(UserGrant.objects.filter(user=other, **same)))
    if others_groups:
        lacks &= ~Q(Exists(GroupGrant.objects.filter(group__in=[group.pk for group in others_groups], **same)))
    own = UserGrant.objects.filter(lacks, user=user)
    through = GroupGrant.objects.filter(lacks, group__in=[group.pk for group in groups])
    return [rows.order_by().values_list("content_object_id", flat=True) for rows in (own, through)]
