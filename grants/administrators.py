"""The active administrators of entities, and the entities that are left with too few of them.

Every question about administrators in the database starts from `admin_sources`; for all entities of a tenant
at once, the analysis `stranded` answers it on Spark. Grants and memberships that are not in force at the time
of the question, and inactive users, make no administrator.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from django.contrib.auth.models import Group
from django.db.models import F, OuterRef, Subquery, Window
from django.db.models.functions import DenseRank

from entities.address import Address
from entities.vocabulary import MIN_ADMINISTRATORS, Privilege
from grants.models import GroupGrant, UserGrant, permission_ids
from grants.querysets import effective_memberships
from grants.validity import in_force


class AdminSource(NamedTuple):
    """Why a user is an administrator of an entity. group: the primary key of the group through which the user
    holds ADMIN; None for a direct grant.
    """

    user: int
    group: int | None = None


class Stranded(NamedTuple):
    """A live entity with fewer than two active ADMIN holders afterwards. admin_count: 0 or 1. remaining_admin: the name of the
    one holder; empty if it is not known.
    """

    address: Address
    admin_count: int
    remaining_admin: str = ""


class Strandings(NamedTuple):
    """The entities that changes strand.

    entities: all, or the first of them; those without an ADMIN holder come first, then by kind and key. max_checked: how many
    grants of ADMIN were read, if more would end; 0 if all were read.
    """

    without_admin_count: int = 0
    one_admin_count: int = 0
    entities: Sequence[Stranded] = ()
    max_checked: int = 0

    @property
    def total(self) -> int:
        return self.without_admin_count + self.one_admin_count


def admin_sources(
    entity_ids: Iterable[int], number: int, *, except_users: Collection[int] = ()
) -> dict[int, list[AdminSource]]:
    """Return the sources of ADMIN on each entity, of any state.

    Of the direct holders, and of the members of each group, the first `number` are read. So an entity with
    fewer than `number` administrators has all its sources here, and any other one has at least `number` users.
    except_users: primary keys of users that do not count. Runs three queries, or none without entities.
    """
    sources: dict[int, list[AdminSource]] = {pk: [] for pk in entity_ids}
    if not sources:
        return sources
    grants = {
        "content_object__pk__among": list(sources),
        "permission_id": permission_ids()[Privilege.ADMIN],
        **in_force(),
    }
    others = {"user__pk__among": list(except_users)}
    # a user has one place, also with several grants
    place = Window(DenseRank(), partition_by=F("content_object_id"), order_by=F("user_id").asc())
    direct = UserGrant.held.filter(**grants).effective().exclude(**others).annotate(place=place)
    for pk, user in direct.filter(place__lte=number).order_by().values_list("content_object_id", "user_id"):
        sources[pk].append(AdminSource(user))
    of_groups = list(GroupGrant.held.filter(**grants).order_by().values_list("content_object_id", "group_id"))
    members = _first_members({group for _, group in of_groups}, number, others)
    for pk, group in of_groups:
        sources[pk] += [AdminSource(user, group) for user in members[group]]
    return sources


def too_few_administrators(
    entity_ids: Iterable[int],
    ends: Callable[[AdminSource], bool] = lambda source: False,
    *,
    if_one_leaves: bool = False,
) -> dict[int, set[int]]:
    """Return the entities with fewer than MIN_ADMINISTRATORS administrators after some sources end: by primary
    key, the remaining administrators.

    ends: whether a source ends. All sources of one user end, or all of one group, or one source alone.
    if_one_leaves: leave out the entities of which every administrator remains. Runs the queries of
    `admin_sources`.
    """
    result = {}
    # one more, because the first of each group may be the one who leaves
    for pk, sources in admin_sources(entity_ids, MIN_ADMINISTRATORS + 1).items():
        remaining = {source.user for source in sources if not ends(source)}
        if len(remaining) < MIN_ADMINISTRATORS and not (
            if_one_leaves and all(row.user in remaining for row in sources)
        ):
            result[pk] = remaining
    return result


def _first_members(group_ids: Collection[int], number: int, others: dict) -> dict[int, list[int]]:
    """Return the primary keys of up to `number` active users of each group, in `number` lookups in an index."""
    members = effective_memberships().filter(group=OuterRef("pk")).exclude(**others)
    members = members.order_by().values("user_id")
    columns = [f"member_{position}" for position in range(number)]
    rows = Group.objects.filter(pk__among=list(group_ids)).order_by()
    for column in columns:
        rows = rows.annotate(**{column: Subquery(members[:1])})
        members = members.exclude(user=OuterRef(column))
    return {
        pk: [user for user in users if user is not None] for pk, *users in rows.values_list("pk", *columns)
    }
