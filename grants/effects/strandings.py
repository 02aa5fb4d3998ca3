"""Count the entities that changes leave with fewer than two active administrators, as plans do."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.contrib.auth.models import Group
from django.db.models import Max, Min, OuterRef, Subquery

from entities.address import Address
from entities.vocabulary import MIN_ADMINISTRATORS, Privilege
from grants.effects.evaluate import AdminLoss
from grants.models import GroupGrant, UserGrant, permission_ids
from grants.querysets import effective_memberships
from grants.validity import in_force


class Stranded(NamedTuple):
    """A live entity with fewer than two active administrators afterwards. admin_count: 0 or 1."""

    address: Address
    admin_count: int


class Strandings(NamedTuple):
    """The entities that changes strand; those without an administrator come first, then by kind and key."""

    without_admin_count: int = 0
    one_admin_count: int = 0
    entities: Sequence[Stranded] = ()


@dataclass(frozen=True, slots=True)
class StrandingCandidates:
    """The entities that changes can strand. affected: primary keys of the users that the changes affect."""

    losses: Sequence[AdminLoss] = ()
    affected: Sequence[int] = ()

    def strandings(self) -> Strandings:
        """Return the stranded entities before the changes are made.

        Runs three queries, or none without candidates.
        """
        if not self.losses:
            return Strandings()
        others = self._other_admins()
        counted = (
            Stranded(loss.address, loss.remaining + len(others.get(loss.pk, ()))) for loss in self.losses
        )
        rows = sorted(
            (row for row in counted if row.admin_count < MIN_ADMINISTRATORS),
            key=lambda row: (row.admin_count, row.address.kind, row.address.key),
        )
        without = sum(not row.admin_count for row in rows)
        return Strandings(without, len(rows) - without, rows)

    def _other_admins(self) -> dict[int, set[int]]:
        """Return the administrators that are not affected, by entity: all of them, or at least two."""
        admins: dict[int, set[int]] = {}
        grants = {
            "content_object__pk__among": [loss.pk for loss in self.losses],
            **in_force(),
            "permission_id": permission_ids()[Privilege.ADMIN],
        }
        affected = list(self.affected)
        direct = UserGrant.objects.filter(**grants).effective().exclude(user__pk__among=affected).order_by()
        for pk, *users in direct.values_list("content_object_id").annotate(Min("user_id"), Max("user_id")):
            admins.setdefault(pk, set()).update(users)
        of_groups = list(
            GroupGrant.objects.filter(**grants).order_by().values_list("content_object_id", "group_id")
        )
        members = effective_memberships().filter(group=OuterRef("pk")).exclude(user__pk__among=affected)
        members = members.order_by().values("user_id")
        groups = (
            Group.objects.filter(pk__among=list({group for _, group in of_groups}))
            .order_by()
            .annotate(first_member=Subquery(members[:1]))
        )
        groups = groups.annotate(second_member=Subquery(members.exclude(user=OuterRef("first_member"))[:1]))
        two = {
            pk: {user for user in users if user is not None}
            for pk, *users in groups.values_list("pk", "first_member", "second_member")
        }
        for pk, group in of_groups:
            admins.setdefault(pk, set()).update(two[group])
        return admins
