"""Find the live entities that would be stranded if a user left, a group were removed, or one grant or
membership ended.

A user who leaves or is deactivated loses all direct grants and all memberships. A removed group loses all its
grants. Administrators are those of the time of the question: grants and memberships that are not in force
make no administrator.
"""

from collections.abc import Callable, Iterable
from typing import Any

from django.contrib.auth.models import Group
from django.db.models import OuterRef, QuerySet

from entities.models import Entity, State
from entities.selectors import sorted_by_address
from entities.vocabulary import MIN_ADMINISTRATORS, Privilege
from grants.administrators import AdminSource, Stranded, Strandings, admin_sources, too_few_administrators
from grants.models import GroupGrant, RoleMembership, User, UserGrant, permission_ids, type_of
from grants.principals.principal_lists import capped_count_subquery
from grants.querysets import effective_memberships, memberships, memberships_in_force
from grants.validity import in_force

MAX_ADMIN_GRANTS_READ = 2_000
MAX_STRANDED_ROWS = 50


def loss_if_removed(principal: User | Group) -> Strandings:
    """Return the loss if the user left, or the group were removed. Runs at most 13 queries."""
    entity_ids = list(_admin_entity_ids(principal)[: MAX_ADMIN_GRANTS_READ + 1])
    remaining = too_few_administrators(set(entity_ids[:MAX_ADMIN_GRANTS_READ]), _sources_of(principal))
    return _strandings(remaining, len(entity_ids) > MAX_ADMIN_GRANTS_READ)


def stranded_if_removed(principal: User | Group, max_grants: int) -> dict[int, int]:
    """Return the live entities that would be stranded if the user left, or the group were removed.

    The keys are primary keys of entities, the values the number of remaining administrators: 0 or 1.
    max_grants: how many grants of ADMIN are read. Runs at most 11 queries.
    """
    entity_ids = set(_admin_entity_ids(principal)[:max_grants])
    remaining = too_few_administrators(entity_ids, _sources_of(principal))
    return {pk: len(admins) for pk, admins in remaining.items()}


def loss_if_revoked(holder: User | Group, entity: Entity) -> Strandings:
    """Return the loss if this direct grant of ADMIN were revoked: the entity or nothing.

    Runs at most ten queries.
    """
    grants = (
        type_of(holder)
        .grants_to(holder)
        .filter(**in_force(), permission_id=permission_ids()[Privilege.ADMIN], content_object=entity)
    )
    if not entity.is_live or not grants.exists():
        return _strandings({})
    revoked = _sources_of(holder) if isinstance(holder, Group) else AdminSource(holder.pk).__eq__
    return _strandings(too_few_administrators([entity.pk], revoked, if_one_leaves=True))


def loss_if_member_removed(user: User, group: Group) -> Strandings:
    """Return the loss if the user were removed from the group. Runs at most ten queries."""
    ended = _ends_in_roles(group, user=user)
    if not RoleMembership.objects.filter(user=user, role=group, **in_force()).exists():
        ended.add((user.pk, group.pk))
    if {pk for _, pk in ended}.isdisjoint(_decisive_groups(user)):
        return _strandings({})
    return _loss_of_members(ended)


def loss_if_group_excluded(group: Group, role: Group) -> Strandings:
    """Return the loss if the group were removed from the role. Runs at most ten queries."""
    return _loss_of_members({(user, pk) for user, pk in _ends_in_roles(group) if pk == role.pk})


def _loss_of_members(ended: set[tuple[int, int]]) -> Strandings:
    """Return the loss if these users did not belong to these groups and roles any more."""
    groups = {pk for _, pk in ended}
    entity_ids = list(
        GroupGrant.held.filter(group__in=groups, **_live_admin())
        .order_by()
        .values_list("content_object_id", flat=True)[: MAX_ADMIN_GRANTS_READ + 1]
    )
    remaining = too_few_administrators(
        set(entity_ids[:MAX_ADMIN_GRANTS_READ]),
        lambda source: (source.user, source.group) in ended,
        if_one_leaves=True,
    )
    return _strandings(remaining, len(entity_ids) > MAX_ADMIN_GRANTS_READ)


def _ends_in_roles(group: Group, **of_users: User) -> set[tuple[int, int]]:
    """Return the users in the group, each with the roles that it is in through this group only, by primary key. Runs at
    most three queries.
    """
    through = set(
        RoleMembership.objects.filter(via__group=group, **of_users).values_list("user_id", "role_id")
    )
    if not through:
        return through
    of_roles = {"role__role_groups__group": group, **of_users, **in_force()}
    others = RoleMembership.objects.filter(**of_roles).exclude(via__group=group)
    direct = memberships().filter(group__role_groups__group=group, **of_users, **in_force())
    return (
        through
        - set(others.values_list("user_id", "role_id"))
        - set(direct.values_list("user_id", "group_id"))
    )


def capped_admin_count(entity: Entity) -> int:
    """Return the number of active users with ADMIN on an entity of any state, at most MIN_ADMINISTRATORS.

    Runs three queries.
    """
    sources = admin_sources([entity.pk], MIN_ADMINISTRATORS)[entity.pk]
    return min(MIN_ADMINISTRATORS, len({source.user for source in sources}))


def _sources_of(principal: User | Group) -> Callable[[AdminSource], bool]:
    """Return whether a source of ADMIN ends with the principal: all those of a user, or all of a group."""
    if isinstance(principal, Group):
        ended = _ends_in_roles(principal)
        return lambda source: source.group == principal.pk or (source.user, source.group) in ended
    return lambda source: source.user == principal.pk


def _strandings(remaining: dict[int, set[int]], is_truncated: bool = False) -> Strandings:
    max_checked = MAX_ADMIN_GRANTS_READ if is_truncated else 0
    if not remaining:
        return Strandings(max_checked=max_checked)
    without_admin = [pk for pk, admins in remaining.items() if not admins]
    only_admin = {pk: next(iter(admins)) for pk, admins in remaining.items() if len(admins) == 1}
    first_without = _first_entities(without_admin, MAX_STRANDED_ROWS)
    first_with_one = _first_entities(only_admin, MAX_STRANDED_ROWS - len(first_without))
    user_ids = {only_admin[entity.pk] for entity in first_with_one}
    names = dict(User.objects.filter(pk__in=user_ids).values_list("pk", "username"))
    rows = [Stranded(entity.address, 0) for entity in first_without]
    rows += [Stranded(entity.address, 1, names[only_admin[entity.pk]]) for entity in first_with_one]
    return Strandings(len(without_admin), len(only_admin), rows, max_checked)


def _admin_entity_ids(principal: User | Group) -> QuerySet:
    """Return the primary keys of live entities that would lose an administrator, once for each grant."""
    through_groups = GroupGrant.held.filter(group__in=_decisive_groups(principal), **_live_admin()).order_by()
    through_groups = through_groups.values_list("content_object_id", flat=True)
    if isinstance(principal, Group):
        return through_groups
    direct = (
        UserGrant.held.filter(user=principal, **_live_admin())
        .order_by()
        .values_list("content_object_id", flat=True)
    )
    return direct.union(through_groups, all=True)


def _live_admin() -> dict[str, Any]:
    """Return the condition on grants of ADMIN on live entities that are in force."""
    admin = permission_ids()[Privilege.ADMIN]
    return {"permission_id": admin, "content_object__state": State.LIVE, **in_force()}


def _decisive_groups(principal: User | Group) -> list[int]:
    """Return the primary keys of the groups through which entities may become stranded.

    For a user: the groups of the user with fewer than two other active users. For a group: the group itself and its
    roles, unless it has no active users.
    """
    if isinstance(principal, Group):
        if not effective_memberships().filter(group=principal).exists():
            return []
        return [principal.pk, *{role for _, role in _ends_in_roles(principal)}]
    members = memberships_in_force().filter(group=OuterRef(OuterRef("pk"))).values("user")
    others = User.objects.active_principals().filter(pk__in=members).exclude(pk=principal.pk)
    groups = Group.objects.filter(pk__in=memberships_in_force().filter(user=principal).values("group_id"))
    groups = groups.annotate(others=capped_count_subquery(others, MIN_ADMINISTRATORS - 1))
    return list(groups.filter(others__lt=MIN_ADMINISTRATORS).order_by().values_list("pk", flat=True))


def _first_entities(entity_ids: Iterable[int], max_rows: int) -> list[Entity]:
    return list(sorted_by_address(Entity.objects.filter(pk__among=entity_ids))[:max_rows])
