"""List the holders of grants on an entity.

The list is a sequence of principals with up to four grants each, and a slice of it is a page. A page takes
the same few statements whatever its size, and counting takes one more.
"""

from collections.abc import Sequence
from dataclasses import field

from django.contrib.auth.models import Group
from django.db import connection
from django.db.models import Count, F, IntegerField, Max, QuerySet, Value
from django.db.models.functions import Collate

from entities.frozen import frozen
from entities.models import Entity
from entities.vocabulary import Privilege
from grants.bulk_rows import chunks
from grants.models import GROUP, PRINCIPAL_TYPES, GroupGrant, PrincipalType, User, UserGrant
from grants.policies.principals import principal_text

GrantsByPrivilege = dict[Privilege, UserGrant | GroupGrant]


@frozen
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
        return principal_text(self.kind, self.name)


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
        """Return (position of the type, name, primary key, time of the latest grant) of each holder."""
        first, *others = (self._principals_of_type(*row) for row in enumerate(PRINCIPAL_TYPES.values()))
        return first.union(*others).order_by(*self._order)

    def _principals_of_type(self, type_order: int, principal_type: PrincipalType) -> QuerySet:
        grants, name = principal_type.grants.filter(content_object=self.entity), principal_type.name_path
        if self._find:
            grants = grants.filter(**{f"{name}__icontains": self._find})
        by_principal = grants.order_by().values(
            type_order=Value(type_order, IntegerField()),
            name=Collate(F(name), byte_order()),
            principal=F(principal_type.id_column),
        )
        return by_principal.annotate(latest=Max("granted_at"))

    def _page(self, rows: list[dict]) -> list[Holder]:
        page = {}
        for type_order, principal_type in enumerate(PRINCIPAL_TYPES.values()):
            pks = [row["principal"] for row in rows if row["type_order"] == type_order]
            principals = principal_type.principals
            if principal_type is GROUP:
                principals = principals.annotate(members=Count("belongings__user", distinct=True))
            for pk, principal in principals.in_bulk(pks).items():
                page[type_order, pk] = Holder(
                    principal,
                    principal_type.name,
                    getattr(principal, principal_type.name_column),
                    getattr(principal, "is_active", True),
                    getattr(principal, "members", None),
                )
            of_entity = principal_type.grants.select_related("granted_by").order_by("permission_id")
            for chunk in chunks(pks):
                for grant in of_entity.filter(
                    content_object=self.entity, **{f"{principal_type.id_column}__in": chunk}
                ):
                    page[type_order, getattr(grant, principal_type.id_column)].grants[grant.privilege] = grant
        return [page[row["type_order"], row["principal"]] for row in rows]


def byte_order() -> str:
    """Return the name of the database collation that compares byte by byte.

    Addresses are sorted in this order.
    """
    return "C" if connection.vendor == "postgresql" else "BINARY"
