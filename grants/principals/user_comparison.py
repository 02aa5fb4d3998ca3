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
    """entities: ordered by address. are_more: there are more than MAX_DIFFERENCES differing grants; the rest is left out."""

    entities: QuerySet[Entity]
    are_more: bool


def compare_groups(one: User, other: User) -> tuple[list[Group], list[Group], list[Group]]:
    """Return the groups of both users, of the first only and of the second only, by name. Two queries."""
    first, second = ({group.pk: group for group in user.groups.order_by("name")} for user in (one, other))
    return ([group for pk, group in first.items() if pk in second], [group for pk, group in first.items() if pk not in second],
            [group for pk, group in second.items() if pk not in first])


def differing_entities(one: User, other: User, *, only_one: list[Group], only_other: list[Group],
                        both: list[Group]) -> DifferingEntities:
    """Return the entities on which the users hold different privileges. One query.

    The groups are those of `compare_groups`. Stops after MAX_DIFFERENCES grants, because a user may hold nearly everything.
    """
    differences = [
        *_keys_of_grants_lacked_by(other, [*only_other, *both], user=one, groups=only_one),
        *_keys_of_grants_lacked_by(one, [*only_one, *both], user=other, groups=only_other),
    ]
    # Query once; the list serves the count, the page of entities and the check for more.
    ids = list(differences[0].union(*differences[1:], all=True)[: MAX_DIFFERENCES + 1])
    first = sorted_by_address(Entity.objects.filter(pk__among=set(ids[:MAX_DIFFERENCES])))
    return DifferingEntities(first, len(ids) > MAX_DIFFERENCES)


def _keys_of_grants_lacked_by(other: User, others_groups: list[Group], *, user: User, groups: list[Group]) -> list[QuerySet]:
    """Return the entity keys of the grants to `user` or one of `groups` that the other user lacks, also through groups."""
    same = {"content_object_id": OuterRef("content_object_id"), "permission_id": OuterRef("permission_id")}
    lacks = ~Q(Exists(UserGrant.objects.filter(user=other, **same)))
    if others_groups:
        lacks &= ~Q(Exists(GroupGrant.objects.filter(group__in=[group.pk for group in others_groups], **same)))
    own = UserGrant.objects.filter(lacks, user=user)
    through = GroupGrant.objects.filter(lacks, group__in=[group.pk for group in groups])
    return [rows.order_by().values_list("content_object_id", flat=True) for rows in (own, through)]
