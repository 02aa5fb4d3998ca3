"""What would be lost if somebody left: live entities that fewer than two active users would administer then.

Leaving takes away what the user holds itself and every membership.
"""

from dataclasses import dataclass

from django.contrib.auth.models import Group
from django.db.models import Count, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from entities.models import Entity, State
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


def leaving_of(user: User) -> Leaving:
    """What the user's leaving would strand. Four queries."""
    administered = _administered(user)
    stranded = _stranded(user, administered[:MOST_LOOKED_AT])
    counts = stranded.aggregate(none=Count("pk", filter=Q(heir=None)), one=Count("pk", filter=Q(heir__isnull=False)))
    heirs = User.objects.filter(pk=OuterRef("heir")).values("username")
    rows = stranded.annotate(heir_name=Subquery(heirs)).order_by(F("heir").asc(nulls_first=True), "kind", "key")
    return Leaving(counts["none"], counts["one"], [
        LeftBehind(row, 0 if row.heir is None else 1, row.heir_name or "") for row in rows[:MOST_STRANDED]
    ], administered[: MOST_LOOKED_AT + 1].count() > MOST_LOOKED_AT)


def _administered(user: User) -> QuerySet:
    """The keys of live entities that the user administers, other than through groups that keep two active members; once for
    each grant."""
    live = {"permission_id": permission_ids()[Privilege.ADMIN], "content_object__state": State.LIVE}
    own = UserGrant.objects.filter(user=user, **live).order_by().values_list("content_object_id", flat=True)
    through = GroupGrant.objects.filter(group__in=_small_groups(user), **live).order_by()
    return own.union(through.values_list("content_object_id", flat=True), all=True)


def _small_groups(user: User) -> list[int]:
    """The user's groups in which fewer than two active users remain."""
    others = _active_memberships().filter(group=OuterRef("pk")).exclude(user=user.pk)
    mine = Group.objects.filter(pk__in=user.groups.order_by().values("pk")).annotate(others=counted_to(others, 1))
    return list(mine.filter(others__lt=2).order_by().values_list("pk", flat=True))


def _active_memberships() -> QuerySet:
    return User.groups.through.objects.filter(user__is_active=True, user__is_principal=True)


def _stranded(user: User, administered: QuerySet) -> QuerySet[Entity]:
    """With `heir`, the key of the one who would be left; null where there is none."""
    rows = Entity.objects.filter(pk__in=administered).annotate(heir=_other_admin(user))
    return rows.annotate(second=_other_admin(user, but="heir")).filter(second=None)


def _other_admin(user: User, *, but: str = "") -> Coalesce:
    """The key of an active user who administers the entity and is not this one, nor the one that `but` names."""
    admin = permission_ids()[Privilege.ADMIN]
    own = UserGrant.objects.filter(content_object_id=OuterRef("pk"), permission_id=admin, user__is_active=True,
                                   user__is_principal=True)
    members = _active_memberships().filter(group__grants__content_object_id=OuterRef("pk"), group__grants__permission_id=admin)
    found = [rows.exclude(user=user.pk).order_by() for rows in (own, members)]
    if but:
        found = [rows.exclude(user=OuterRef(but)) for rows in found]
    return Coalesce(*(Subquery(rows.values("user_id")[:1]) for rows in found))
