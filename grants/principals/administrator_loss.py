"""Find the live entities that would be stranded if a user left, a group were removed, or one grant or membership ended.

A user who leaves or is deactivated loses all direct grants and all memberships. A removed group loses all its grants.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from django.contrib.auth.models import Group
from django.db.models import Max, Min, OuterRef, QuerySet, Subquery

from entities.models import Entity, State
from entities.selectors import sorted_by_address
from entities.vocabulary import MIN_ADMINISTRATORS, Privilege
from grants.models import GroupGrant, User, UserGrant, permission_ids
from grants.principals.principal_lists import capped_count_subquery
from grants.querysets import effective_memberships

MAX_ADMIN_GRANTS_READ = 2_000
MAX_STRANDED_ROWS = 50


@dataclass(frozen=True, slots=True)
class StrandedEntity:
    """admins: number of active users who would remain administrators: 0 or 1. heir: the name of that user."""

    entity: Entity
    admins: int
    heir: str = ""


@dataclass(frozen=True, slots=True)
class AdministratorLoss:
    """The entities that would be stranded.

    none, one: number of entities with no remaining administrator, and with a single one.
    rows: the first of them; those without an administrator come first.
    is_cut: more than MAX_ADMIN_GRANTS_READ grants of ADMIN would end; only that many were read.
    """

    none: int
    one: int
    rows: list[StrandedEntity]
    is_cut: bool


@dataclass(frozen=True, slots=True)
class _RemovedAccess:
    """The grants and memberships to ignore.

    user: ignore the direct grants of this user. group: ignore the grants of this group.
    member, member_of: ignore the membership of this user in this group, or all memberships of the user without a group.
    """

    user: User | None = None
    group: Group | None = None
    member: User | None = None
    member_of: Group | None = None


def loss_if_removed(removed: User | Group) -> AdministratorLoss:
    """Return the loss if the user left, or the group were removed. At most eight queries."""
    administered = list(_administered(removed)[: MAX_ADMIN_GRANTS_READ + 1])
    access = _RemovedAccess(group=removed) if isinstance(removed, Group) else _RemovedAccess(user=removed, member=removed)
    remaining = _remaining_admins(access, set(administered[:MAX_ADMIN_GRANTS_READ]))
    return _administrator_loss(remaining, len(administered) > MAX_ADMIN_GRANTS_READ)


def loss_if_revoked(holder: User | Group, entity: Entity) -> AdministratorLoss:
    """Return the loss if this direct grant of ADMIN were revoked: the entity or nothing. At most ten queries."""
    is_group = isinstance(holder, Group)
    grants = GroupGrant.objects.filter(group=holder) if is_group else UserGrant.objects.filter(user=holder)
    grants = grants.filter(permission_id=permission_ids()[Privilege.ADMIN], content_object=entity)
    if not entity.is_live or not grants.exists():
        return _administrator_loss({})
    removed = _RemovedAccess(group=holder) if is_group else _RemovedAccess(user=holder)
    losers = _two_members(_RemovedAccess(), {holder.pk})[holder.pk] if is_group else _active_key(holder)
    return _administrator_loss(_stranded_by(_remaining_admins(removed, {entity.pk}), losers))


def loss_if_member_removed(user: User, group: Group) -> AdministratorLoss:
    """Return the loss if the user were removed from the group. At most ten queries."""
    if group.pk not in _decisive_groups(user):
        return _administrator_loss({})
    live = {"permission_id": permission_ids()[Privilege.ADMIN], "content_object__state": State.LIVE}
    administered = list(GroupGrant.objects.filter(group=group, **live).order_by().values_list(
        "content_object_id", flat=True)[: MAX_ADMIN_GRANTS_READ + 1])
    remaining = _remaining_admins(_RemovedAccess(member=user, member_of=group), set(administered[:MAX_ADMIN_GRANTS_READ]))
    return _administrator_loss(_stranded_by(remaining, _active_key(user)), len(administered) > MAX_ADMIN_GRANTS_READ)


def capped_admin_count(entity: Entity) -> int:
    """Return the number of active users with ADMIN on an entity of any state, at most MIN_ADMINISTRATORS. Three queries."""
    return min(MIN_ADMINISTRATORS, len(_remaining_admins(_RemovedAccess(), {entity.pk})[entity.pk]))


def _active_key(user: User) -> set[int]:
    return {user.pk} if user.is_active_principal else set()


def _stranded_by(remaining: dict[int, set[int]], losers: set[int]) -> dict[int, set[int]]:
    """Keep the entities that become stranded because one of `losers` is no longer their administrator."""
    return {pk: admins for pk, admins in remaining.items() if len(admins) < MIN_ADMINISTRATORS and losers - admins}


def _administrator_loss(remaining: dict[int, set[int]], is_cut: bool = False) -> AdministratorLoss:
    if not remaining:
        return AdministratorLoss(0, 0, [], is_cut)
    none = [pk for pk, admins in remaining.items() if not admins]
    heirs = {pk: next(iter(admins)) for pk, admins in remaining.items() if len(admins) == 1}
    rows = _first(none, MAX_STRANDED_ROWS)
    alone = _first(heirs, MAX_STRANDED_ROWS - len(rows))
    names = dict(User.objects.filter(pk__in={heirs[row.pk] for row in alone}).values_list("pk", "username"))
    return AdministratorLoss(len(none), len(heirs), [StrandedEntity(row, 0) for row in rows] + [
        StrandedEntity(row, 1, names[heirs[row.pk]]) for row in alone], is_cut)


def _administered(removed: User | Group) -> QuerySet:
    """Return the keys of live entities that would lose an administrator, once per grant."""
    live = {"permission_id": permission_ids()[Privilege.ADMIN], "content_object__state": State.LIVE}
    through = GroupGrant.objects.filter(group__in=_decisive_groups(removed), **live).order_by()
    through = through.values_list("content_object_id", flat=True)
    if isinstance(removed, Group):
        return through
    own = UserGrant.objects.filter(user=removed, **live).order_by().values_list("content_object_id", flat=True)
    return own.union(through, all=True)


def _decisive_groups(removed: User | Group) -> list[int]:
    """Return the keys of the groups through which entities may become stranded.

    For a user: the groups of the user with fewer than two other active users. For a group: the group itself, unless it has
    no active users.
    """
    if isinstance(removed, Group):
        return [removed.pk] if effective_memberships().filter(group=removed).exists() else []
    others = effective_memberships().filter(group=OuterRef("pk")).exclude(user=removed.pk)
    mine = Group.objects.filter(pk__in=removed.groups.order_by().values("pk")).annotate(others=capped_count_subquery(others, 1))
    return list(mine.filter(others__lt=MIN_ADMINISTRATORS).order_by().values_list("pk", flat=True))


def _remaining_admins(removed: _RemovedAccess, ids: set[int]) -> dict[int, set[int]]:
    """Return, for each entity, the keys of active users who would still administer it: all of them if there are fewer than
    two, otherwise at least two. So two users of each holder are enough, however many it has.
    """
    admins: dict[int, set[int]] = {pk: set() for pk in ids}
    admin_grants = {"content_object__pk__among": ids, "permission_id": permission_ids()[Privilege.ADMIN]}
    own = UserGrant.objects.filter(**admin_grants).effective().order_by()
    through = GroupGrant.objects.filter(**admin_grants).order_by()
    if removed.group is not None:
        through = through.exclude(group=removed.group)
    if removed.user is not None:
        own = own.exclude(user=removed.user)
    for pk, *users in own.values_list("content_object_id").annotate(Min("user_id"), Max("user_id")):
        admins[pk].update(users)
    pairs = list(through.values_list("content_object_id", "group_id"))
    members = _two_members(removed, {group for _, group in pairs})
    for pk, group in pairs:
        admins[pk] |= members[group]
    return admins


def _two_members(removed: _RemovedAccess, groups: set[int]) -> dict[int, set[int]]:
    """Return the keys of up to two remaining active users of each group."""
    members = effective_memberships().filter(group=OuterRef("pk")).order_by().values("user_id")
    if removed.member is not None:
        members = members.exclude(user=removed.member, **({"group": removed.member_of} if removed.member_of is not None else {}))
    rows = Group.objects.filter(pk__among=groups).order_by().annotate(first_member=Subquery(members[:1]))
    rows = rows.annotate(second_member=Subquery(members.exclude(user=OuterRef("first_member"))[:1]))
    return {pk: {user for user in users if user is not None}
            for pk, *users in rows.values_list("pk", "first_member", "second_member")}


def _first(ids: Iterable[int], most: int) -> list[Entity]:
    return list(sorted_by_address(Entity.objects.filter(pk__among=ids))[:most])
