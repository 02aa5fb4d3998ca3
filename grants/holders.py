"""List the holders of grants on an entity.

The list is a sequence of principals with up to four grants each, and a slice of it is a page. A page takes
the same few statements whatever its size, and counting takes one more.
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

GrantsByPrivilege = dict[Privilege, UserGrant | GroupGrant]


@dataclass(frozen=True, slots=True)
class Holder:
    """A principal with grants on an entity.

    kind: `user` or `group`. is_active: always true for a group. members: number of users in a group; None for
    a user.
    """

    principal: User | Group
    kind: str
    name: str
    is_active: bool
    members: int | None
    grants: GrantsByPrivilege = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


def holders_of(entity: Entity, *, find: str = "", is_latest_first: bool = False) -> "Holders":
    """Return the principals that hold a privilege on exactly this entity: users first, then groups, by name.

    find: return only principals with this text in their name. is_latest_first: sort by the latest grant,
    latest first.
    """
    return Holders(entity, find, is_latest_first)


class Holders(Sequence):
    """The `Holder` of each principal with a grant on one entity.

    A slice is a list, so a Paginator can use this sequence.
    """

    def __init__(self, entity: Entity, find: str = "", is_latest_first: bool = False):
        self.entity, self._find = entity, find
        self._order = ("-latest", "type_order", "name") if is_latest_first else ("type_order", "name")

    def __len__(self) -> int:
        return self._principals().count()

    def __getitem__(self, index: slice | int) -> list[Holder] | Holder:
        if isinstance(index, slice):
            return self._page(list(self._principals()[index]))
        return self._page([self._principals()[index]])[0]

    def __iter__(self):
        return iter(self[:])

    def _principals(self) -> QuerySet:
        """Return (0 for a user or 1 for a group, name, primary key, time of the latest grant) of each holder."""
        users = self._principals_of_type(UserGrant, 0, "user__username", "user_id")
        groups = self._principals_of_type(GroupGrant, 1, "group__name", "group_id")
        return users.union(groups).order_by(*self._order)

    def _principals_of_type(
        self, model: type[UserGrant | GroupGrant], type_order: int, name: str, principal: str
    ) -> QuerySet:
        grants = model.objects.filter(content_object=self.entity)
        if self._find:
            grants = grants.filter(**{f"{name}__icontains": self._find})
        return _group_by_principal(grants, type_order, name, principal).annotate(latest=Max("granted_at"))

    def _page(self, rows: list[dict]) -> list[Holder]:
        user_ids = [row["principal"] for row in rows if row["type_order"] == 0]
        group_ids = [row["principal"] for row in rows if row["type_order"] == 1]
        users, groups = (
            User.objects.in_bulk(user_ids),
            Group.objects.annotate(members=Count("user")).in_bulk(group_ids),
        )
        page = {
            ("user", pk): Holder(user, "user", user.username, user.is_active, None)
            for pk, user in users.items()
        }
        page |= {
            ("group", pk): Holder(group, "group", group.name, True, group.members)
            for pk, group in groups.items()
        }
        for kind, (model, column) in GRANT_TABLES.items():
            for chunk in chunks(pk for principal_kind, pk in page if principal_kind == kind):
                for grant in _grants_with_authors(model).filter(
                    content_object=self.entity, **{f"{column}__in": chunk}
                ):
                    page[kind, getattr(grant, column)].grants[grant.privilege] = grant
        return [page["group" if row["type_order"] else "user", row["principal"]] for row in rows]


def _group_by_principal(grants: QuerySet, type_order: int, name: str, principal: str) -> QuerySet:
    return grants.order_by().values(
        type_order=Value(type_order, IntegerField()),
        name=Collate(F(name), byte_order()),
        principal=F(principal),
    )


def byte_order() -> str:
    """Return the name of the database collation that compares byte by byte.

    Addresses are sorted in this order.
    """
    return "C" if connection.vendor == "postgresql" else "BINARY"


def _grants_with_authors(model: type[UserGrant | GroupGrant]) -> QuerySet:
    """Return all grants with the users who made them, in the order of the privileges."""
    return model.objects.select_related("granted_by").order_by("permission_id")
