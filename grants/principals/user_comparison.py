"""Compare two users: find the entities on which they hold different privileges, directly or through groups.

Only grants and memberships in force are compared. Groups of both users give both the same privileges, so the
queries leave these groups out.
"""

from django.contrib.auth.models import Group
from django.db.models import Exists, OuterRef, Q, QuerySet

from entities.frozen import frozen
from entities.models import Entity
from entities.selectors import sorted_by_address
from grants.models import GROUP, USER, User, grants_by_type
from grants.querysets import groups_of, union_all
from grants.validity import in_force

MAX_DIFFERENCES = 2_000


@frozen
class DifferingEntities:
    """The entities on which two users hold different privileges, by address.

    is_truncated: there are more than MAX_DIFFERENCES differing grants, and the others are left out.
    """

    entities: QuerySet[Entity]
    is_truncated: bool


@frozen
class ComparedGroups:
    """The groups of two users, by name. common: the groups of both."""

    common: list[Group]
    only_first: list[Group]
    only_second: list[Group]


def compare_groups(first: User, second: User) -> ComparedGroups:
    """Return the common and the different groups of two users. Runs two queries."""
    of_first, of_second = ({group.pk: group for group in groups_of(user)} for user in (first, second))
    return ComparedGroups(
        common=[group for pk, group in of_first.items() if pk in of_second],
        only_first=[group for pk, group in of_first.items() if pk not in of_second],
        only_second=[group for pk, group in of_second.items() if pk not in of_first],
    )


def differing_entities(first: User, second: User, groups: ComparedGroups) -> DifferingEntities:
    """Return the entities on which the users hold different privileges. Runs one query.

    groups: the result of `compare_groups`. Stops after MAX_DIFFERENCES grants, because a user may hold nearly
    everything.
    """
    differences = [
        *_entity_ids_granted_only_to(
            first, groups.only_first, other=second, other_groups=[*groups.only_second, *groups.common]
        ),
        *_entity_ids_granted_only_to(
            second, groups.only_second, other=first, other_groups=[*groups.only_first, *groups.common]
        ),
    ]
    # Query once; the list serves the count, the page of entities and the check for more.
    ids = list(union_all(differences)[: MAX_DIFFERENCES + 1])
    entities = sorted_by_address(Entity.objects.filter(pk__among=set(ids[:MAX_DIFFERENCES])))
    return DifferingEntities(entities, len(ids) > MAX_DIFFERENCES)


def _entity_ids_granted_only_to(
    user: User, groups: list[Group], *, other: User, other_groups: list[Group]
) -> list[QuerySet]:
    """Return the ids of entities with a grant to `user` or `groups` that neither `other` nor `other_groups`
    have.
    """
    same_grant = {
        "content_object_id": OuterRef("content_object_id"),
        "permission_id": OuterRef("permission_id"),
        **in_force(),
    }
    other_lacks = Q()
    for _, grants in grants_by_type(_holders(other, other_groups)):
        other_lacks &= ~Q(Exists(grants.filter(**same_grant)))
    return [
        grants.filter(other_lacks, **in_force()).order_by().values_list("content_object_id", flat=True)
        for _, grants in grants_by_type(_holders(user, groups))
    ]


def _holders(user: User, groups: list[Group]) -> list[tuple[str, int]]:
    return [(USER.name, user.pk), *((GROUP.name, group.pk) for group in groups)]
