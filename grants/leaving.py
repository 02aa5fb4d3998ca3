"""What would be lost if somebody left, or a group were removed: live entities that fewer than two active users would
administer then.

Leaving takes away what the user holds itself and every membership; removing a group takes away what it holds.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from django.contrib.auth.models import Group
from django.db.models import Max, Min, OuterRef, QuerySet, Subquery

from entities.models import Entity, State
from entities.selectors import sorted_by_address
from entities.vocabulary import Privilege
from grants.models import GroupGrant, User, UserGrant, permission_ids
from grants.people import counted_to

MOST_LOOKED_AT = 2_000
MOST_STRANDED = 50


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """admins: how many active users would administer the entity: 0 or 1. heir: the name of that one."""

    entity: Entity
    admins: int
    heir: str = ""


@dataclass(frozen=True, slots=True)
class Leaving:
    """none, one: entities left without an administrator, and with a single one. rows: the first of them, none before one.

    is_cut: there are more than MOST_LOOKED_AT grants of ADMIN that leaving would take away, and only so many were looked at.
    """

    none: int
    one: int
    rows: list[LeftBehind]
    is_cut: bool


def leaving_of(gone: User | Group) -> Leaving:
    """What it would strand if the user left, or the group were removed. At most eight queries."""
    administered = list(_administered(gone)[: MOST_LOOKED_AT + 1])
    remaining = _admins_remaining(gone, set(administered[:MOST_LOOKED_AT]))
    none = [pk for pk, admins in remaining.items() if not admins]
    heirs = {pk: next(iter(admins)) for pk, admins in remaining.items() if len(admins) == 1}
    rows = _first(none, MOST_STRANDED)
    alone = _first(heirs, MOST_STRANDED - len(rows))
    names = dict(User.objects.filter(pk__in={heirs[row.pk] for row in alone}).values_list("pk", "username"))
    return Leaving(len(none), len(heirs), [LeftBehind(row, 0) for row in rows] + [
        LeftBehind(row, 1, names[heirs[row.pk]]) for row in alone], len(administered) > MOST_LOOKED_AT)


def _administered(gone: User | Group) -> QuerySet:
    """The keys of live entities of which an administrator would go; once for each grant."""
    live = {"permission_id": permission_ids()[Privilege.ADMIN], "content_object__state": State.LIVE}
    through = GroupGrant.objects.filter(group__in=_groups_gone(gone), **live).order_by()
    through = through.values_list("content_object_id", flat=True)
    if isinstance(gone, Group):
        return through
    own = UserGrant.objects.filter(user=gone, **live).order_by().values_list("content_object_id", flat=True)
    return own.union(through, all=True)


def _groups_gone(gone: User | Group) -> list[int]:
    """The groups through which fewer administer then: of a user, those in which fewer than two active users remain; the group
    itself, unless nobody active is in it."""
    if isinstance(gone, Group):
        return [gone.pk] if _active_memberships().filter(group=gone).exists() else []
    others = _active_memberships().filter(group=OuterRef("pk")).exclude(user=gone.pk)
    mine = Group.objects.filter(pk__in=gone.groups.order_by().values("pk")).annotate(others=counted_to(others, 1))
    return list(mine.filter(others__lt=2).order_by().values_list("pk", flat=True))


def _active_memberships() -> QuerySet:
    return User.groups.through.objects.filter(user__is_active=True, user__is_principal=True)


def _admins_remaining(gone: User | Group, ids: set[int]) -> dict[int, set[int]]:
    """Of each of these entities the keys of active users who would still administer it: all where they are fewer than two,
    and otherwise some. So of each holder two are enough, however many there are."""
    found: dict[int, set[int]] = {pk: set() for pk in ids}
    on_them = {"content_object__pk__among": ids, "permission_id": permission_ids()[Privilege.ADMIN]}
    own = UserGrant.objects.filter(user__is_active=True, user__is_principal=True, **on_them).order_by()
    through = GroupGrant.objects.filter(**on_them).order_by()
    if isinstance(gone, Group):
        through = through.exclude(group=gone)
    else:
        own = own.exclude(user=gone)
    for pk, *users in own.values_list("content_object_id").annotate(Min("user_id"), Max("user_id")):
        found[pk].update(users)
    pairs = list(through.values_list("content_object_id", "group_id"))
    members = _two_members(gone, {group for _, group in pairs})
    for pk, group in pairs:
        found[pk] |= members[group]
    return found


def _two_members(gone: User | Group, groups: set[int]) -> dict[int, set[int]]:
    """Of each group the keys of up to two active users in it, who stay."""
    members = _active_memberships().filter(group=OuterRef("pk")).order_by().values("user_id")
    if isinstance(gone, User):
        members = members.exclude(user=gone)
    rows = Group.objects.filter(pk__among=groups).order_by().annotate(first_member=Subquery(members[:1]))
    rows = rows.annotate(second_member=Subquery(members.exclude(user=OuterRef("first_member"))[:1]))
    return {pk: {user for user in users if user is not None}
            for pk, *users in rows.values_list("pk", "first_member", "second_member")}


def _first(ids: Iterable[int], most: int) -> list[Entity]:
    return list(sorted_by_address(Entity.objects.filter(pk__among=ids))[:most])
