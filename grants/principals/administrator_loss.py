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
    """none, one: entities left without an administrator, and with a single one. rows: the first of them, none before one.

    is_cut: there are more than MAX_ADMIN_GRANTS_READ grants of ADMIN that leaving would take away; only so many were read.
    """

    none: int
    one: int
    rows: list[StrandedEntity]
    is_cut: bool


@dataclass(frozen=True, slots=True)
class _Gone:
    """What goes. own: the grants of this user. held: those of this group. member, of: that one's membership in this group; in
    every group without one."""

    own: User | None = None
    held: Group | None = None
    member: User | None = None
    of: Group | None = None


def loss_if_removed(gone: User | Group) -> AdministratorLoss:
    """Return the loss if the user left, or the group were removed. At most eight queries."""
    administered = list(_administered(gone)[: MAX_ADMIN_GRANTS_READ + 1])
    whole = _Gone(held=gone) if isinstance(gone, Group) else _Gone(own=gone, member=gone)
    return _left(_admins_remaining(whole, set(administered[:MAX_ADMIN_GRANTS_READ])), len(administered) > MAX_ADMIN_GRANTS_READ)


def loss_if_revoked(holder: User | Group, entity: Entity) -> AdministratorLoss:
    """Return the loss if this direct grant of ADMIN were revoked: the entity or nothing. At most ten queries."""
    is_group = isinstance(holder, Group)
    held = GroupGrant.objects.filter(group=holder) if is_group else UserGrant.objects.filter(user=holder)
    if not entity.is_live or not held.filter(permission_id=permission_ids()[Privilege.ADMIN], content_object=entity).exists():
        return _left({})
    gone = _Gone(held=holder) if is_group else _Gone(own=holder)
    losers = _two_members(_Gone(), {holder.pk})[holder.pk] if is_group else _if_counted(holder)
    return _left(_fewer(_admins_remaining(gone, {entity.pk}), losers))


def loss_if_member_removed(user: User, group: Group) -> AdministratorLoss:
    """Return the loss if the user were removed from the group. At most ten queries."""
    if group.pk not in _groups_gone(user):
        return _left({})
    live = {"permission_id": permission_ids()[Privilege.ADMIN], "content_object__state": State.LIVE}
    administered = list(GroupGrant.objects.filter(group=group, **live).order_by().values_list(
        "content_object_id", flat=True)[: MAX_ADMIN_GRANTS_READ + 1])
    remaining = _admins_remaining(_Gone(member=user, of=group), set(administered[:MAX_ADMIN_GRANTS_READ]))
    return _left(_fewer(remaining, _if_counted(user)), len(administered) > MAX_ADMIN_GRANTS_READ)


def capped_admin_count(entity: Entity) -> int:
    """Return the number of active users with ADMIN on an entity of any state, at most MIN_ADMINISTRATORS. Three queries."""
    return min(MIN_ADMINISTRATORS, len(_admins_remaining(_Gone(), {entity.pk})[entity.pk]))


def _if_counted(user: User) -> set[int]:
    return {user.pk} if user.is_active_principal else set()


def _fewer(remaining: dict[int, set[int]], losers: set[int]) -> dict[int, set[int]]:
    """Keep the entities that become stranded because one of `losers` is no longer their administrator."""
    return {pk: admins for pk, admins in remaining.items() if len(admins) < MIN_ADMINISTRATORS and losers - admins}


def _left(remaining: dict[int, set[int]], is_cut: bool = False) -> AdministratorLoss:
    if not remaining:
        return AdministratorLoss(0, 0, [], is_cut)
    none = [pk for pk, admins in remaining.items() if not admins]
    heirs = {pk: next(iter(admins)) for pk, admins in remaining.items() if len(admins) == 1}
    rows = _first(none, MAX_STRANDED_ROWS)
    alone = _first(heirs, MAX_STRANDED_ROWS - len(rows))
    names = dict(User.objects.filter(pk__in={heirs[row.pk] for row in alone}).values_list("pk", "username"))
    return AdministratorLoss(len(none), len(heirs), [StrandedEntity(row, 0) for row in rows] + [
        StrandedEntity(row, 1, names[heirs[row.pk]]) for row in alone], is_cut)


def _administered(gone: User | Group) -> QuerySet:
    """Return the keys of live entities that would lose an administrator, once per grant."""
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
        return [gone.pk] if effective_memberships().filter(group=gone).exists() else []
    others = effective_memberships().filter(group=OuterRef("pk")).exclude(user=gone.pk)
    mine = Group.objects.filter(pk__in=gone.groups.order_by().values("pk")).annotate(others=capped_count_subquery(others, 1))
    return list(mine.filter(others__lt=MIN_ADMINISTRATORS).order_by().values_list("pk", flat=True))


def _admins_remaining(gone: _Gone, ids: set[int]) -> dict[int, set[int]]:
    """Of each of these entities the keys of active users who would still administer it: all where they are fewer than two,
    and otherwise some. So of each holder two are enough, however many there are."""
    found: dict[int, set[int]] = {pk: set() for pk in ids}
    on_them = {"content_object__pk__among": ids, "permission_id": permission_ids()[Privilege.ADMIN]}
    own = UserGrant.objects.filter(**on_them).effective().order_by()
    through = GroupGrant.objects.filter(**on_them).order_by()
    if gone.held is not None:
        through = through.exclude(group=gone.held)
    if gone.own is not None:
        own = own.exclude(user=gone.own)
    for pk, *users in own.values_list("content_object_id").annotate(Min("user_id"), Max("user_id")):
        found[pk].update(users)
    pairs = list(through.values_list("content_object_id", "group_id"))
    members = _two_members(gone, {group for _, group in pairs})
    for pk, group in pairs:
        found[pk] |= members[group]
    return found


def _two_members(gone: _Gone, groups: set[int]) -> dict[int, set[int]]:
    """Of each group the keys of up to two active users in it, who stay."""
    members = effective_memberships().filter(group=OuterRef("pk")).order_by().values("user_id")
    if gone.member is not None:
        members = members.exclude(user=gone.member, **({"group": gone.of} if gone.of is not None else {}))
    rows = Group.objects.filter(pk__among=groups).order_by().annotate(first_member=Subquery(members[:1]))
    rows = rows.annotate(second_member=Subquery(members.exclude(user=OuterRef("first_member"))[:1]))
    return {pk: {user for user in users if user is not None}
            for pk, *users in rows.values_list("pk", "first_member", "second_member")}


def _first(ids: Iterable[int], most: int) -> list[Entity]:
    return list(sorted_by_address(Entity.objects.filter(pk__among=ids))[:most])
