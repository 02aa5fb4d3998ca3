"""List the holders of grants on an entity.

The list is a sequence of principals with up to four grants each. Slicing gives a page: the same few statements for any size of
page, and one more to count.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from django.contrib.auth.models import Group
from django.db import connection
from django.db.models import Count, F, IntegerField, Max, QuerySet, Value
from django.db.models.functions import Collate

from entities.models import Entity
from entities.vocabulary import Privilege
from grants.bulk_rows import chunks
from grants.models import GRANT_TABLES, GroupGrant, User, UserGrant

Grants = dict[Privilege, UserGrant | GroupGrant]


@dataclass(frozen=True, slots=True)
class Holder:
    """A principal with grants on an entity. members: number of users in a group; is_active: always true for a group."""

    principal: User | Group
    kind: str
    name: str
    is_active: bool
    members: int | None
    grants: Grants = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


def holders_of(entity: Entity, *, find: str = "", is_latest_first: bool = False) -> "Holders":
    """Return the principals that hold a privilege on exactly this entity: users first, then groups, by name.

    find: limit them to names that contain this text. is_latest_first: sort by the time of the latest grant, latest first.
    """
    return Holders(entity, find, is_latest_first)


class Holders(Sequence):
    """The `Holder`s of one entity; a slice is a list. Can be passed to a Paginator."""

    def __init__(self, entity: Entity, find: str = "", is_latest_first: bool = False):
        self.entity, self._find = entity, find
        self._order = ("-latest", "place", "name") if is_latest_first else ("place", "name")

    def __len__(self) -> int:
        return self._principals().count()

    def __getitem__(self, place: slice | int) -> list[Holder] | Holder:
        if isinstance(place, slice):
            return self._page(list(self._principals()[place]))
        return self._page([self._principals()[place]])[0]

    def __iter__(self):
        return iter(self[:])

    def _principals(self) -> QuerySet:
        """Return (position of the type, name, primary key, time of the latest grant) of each holder."""
        users = self._of_type(UserGrant, 0, "user__username", "user_id")
        return users.union(self._of_type(GroupGrant, 1, "group__name", "group_id")).order_by(*self._order)

    def _of_type(self, model: type[UserGrant | GroupGrant], place: int, name: str, principal: str) -> QuerySet:
        grants = model.objects.filter(content_object=self.entity)
        if self._find:
            grants = grants.filter(**{f"{name}__icontains": self._find})
        return _distinct(grants, place, name, principal).annotate(latest=Max("granted_at"))

    def _page(self, rows: list[dict]) -> list[Holder]:
        users = User.objects.in_bulk([row["principal"] for row in rows if row["place"] == 0])
        groups = Group.objects.annotate(members=Count("user")).in_bulk([row["principal"] for row in rows if row["place"] == 1])
        page = {("user", pk): Holder(user, "user", user.username, user.is_active, None) for pk, user in users.items()}
        page |= {("group", pk): Holder(group, "group", group.name, True, group.members) for pk, group in groups.items()}
        for kind, (model, column) in GRANT_TABLES.items():
            for chunk in chunks(pk for of, pk in page if of == kind):
                for grant in _with_facts(model).filter(content_object=self.entity, **{f"{column}__in": chunk}):
                    page[kind, getattr(grant, column)].grants[grant.privilege] = grant
        return [page["group" if row["place"] else "user", row["principal"]] for row in rows]


def _distinct(grants: QuerySet, place: int, name: str, principal: str) -> QuerySet:
    return grants.order_by().values(place=Value(place, IntegerField()), name=Collate(F(name), _byte_order()),
                                    principal=F(principal))


def _byte_order() -> str:
    """Return the collation that sorts by bytes, as addresses are sorted; its name depends on the database."""
    return "C" if connection.vendor == "postgresql" else "BINARY"


def _with_facts(model: type[UserGrant | GroupGrant]) -> QuerySet:
    """Return grants with the users who made them, in the order of the privileges."""
    return model.objects.select_related("granted_by").order_by("permission_id")
