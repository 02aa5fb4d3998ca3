"""Models of grants, the registry of the types of principals, and the active generation.

Grants are django-guardian's direct-foreign-key models on `entities.Entity`, one row for each principal,
privilege and entity. A new type of principal is an entry in PRINCIPAL_TYPES with its model and its table of
grants. A new way to get grants, such as a membership, is an entry in GRANT_SOURCES. To read the grants of all
types, iterate over PRINCIPAL_TYPES. To read the effective grants of a subject, read all of its sources.

A grant on a pattern is a grant on the row of the pattern. From it follow derived grants, one on each address that it
matches, so that evaluators compare no patterns (grants.derived). `objects` has the grants as they were made,
`held` also has the derived ones.
"""

from collections.abc import Collection, Iterator
from datetime import datetime
from functools import cache
from typing import ClassVar

from django.contrib.auth.models import Group, Permission
from django.db import models
from django.db.models import Model, Q, QuerySet
from guardian.managers import GroupObjectPermissionManager, UserObjectPermissionManager
from guardian.models import GroupObjectPermissionBase, UserObjectPermissionBase

from entities.address import Address
from entities.fields import optional_text
from entities.frozen import frozen
from entities.models import Entity
from entities.text import storage_fault
from entities.vocabulary import Privilege
from grants.bulk_rows import stream_rows
from grants.models.principals import User
from grants.models.validity_columns import ValidityColumns, validity_constraint, validity_indexes
from grants.policies.principals import principal_text
from grants.querysets import ACTIVE_PRINCIPAL
from grants.validity import VALIDITY_COLUMNS, in_force


class GrantQuerySet(models.QuerySet):
    """Grants to principals of one type."""

    @property
    def principal_type(self):
        """The type of the holders; see `PRINCIPAL_TYPES`."""
        return PRINCIPAL_TYPES[self.model.principal_type]

    def effective(self):
        """Return the grants that count in decisions: they are in force, and their holders are active."""
        return self.filter(self.principal_type.is_effective)

    def grant_keys(self, *columns: str) -> Iterator[tuple]:
        """Yield (principal, address, privilege, *columns) of each grant. They are read in chunks."""
        key = (self.principal_type.name_path, "content_object__kind", "content_object__key", "permission_id")
        for name, kind, address_key, permission, *values in stream_rows(self, *key, *columns):
            principal = principal_text(self.model.principal_type, name)
            yield principal, Address(kind, address_key), privilege_of(permission), *values


class GrantManager:
    """Makes a manager leave out the derived grants."""

    def get_queryset(self):
        return super().get_queryset().filter(pattern=None)


class UserGrantManager(GrantManager, UserObjectPermissionManager.from_queryset(GrantQuerySet)):
    """The grants to users as they were made."""


class GroupGrantManager(GrantManager, GroupObjectPermissionManager.from_queryset(GrantQuerySet)):
    """The grants to groups as they were made."""


class GrantDetails(ValidityColumns):
    """The columns that guardian's models do not have: author, time, reason and validity of a grant, and facts
    about its entity.

    pattern: of a derived grant, the pattern from which it follows. A derived grant on the pattern itself marks one
        container that the pattern reveals: `namespace` and `application` are those of the container.

    entity_kind: the kind of the entity, so that an index finds the few grants on one kind among very many.
        Empty if it is not known, as in rows of the past (grants.history.past).
    INVARIANT: `namespace`, `application` and `entity_kind` equal those of the entity (grants.changes.grants), except of
        marks.
    """

    granted_by = models.ForeignKey("grants.User", models.SET_NULL, null=True, related_name="+")
    granted_at = models.DateTimeField()
    reason = optional_text()
    namespace = models.ForeignKey(Entity, models.PROTECT, null=True, related_name="+", db_index=False)
    application = models.ForeignKey(Entity, models.PROTECT, null=True, related_name="+", db_index=False)
    entity_kind = optional_text(63, db_default="")
    pattern = models.ForeignKey(Entity, models.PROTECT, null=True, related_name="+", db_index=False)

    class Meta:
        abstract = True

    def save(self, *args, **kwargs):
        self.namespace_id, self.application_id = (
            self.content_object.namespace_id,
            self.content_object.application_id,
        )
        self.entity_kind = self.content_object.kind
        super().save(*args, **kwargs)

    @property
    def privilege(self) -> Privilege:
        return privilege_of(self.permission_id)


def grant_indexes(holder: str) -> list[models.Index]:
    """Return the indexes of the grants to principals of one type. holder: the name of the type.

    Entity and principal together, because an entity may have many holders and a principal many grants. With the
    validity, which every evaluator compares, PostgreSQL need not read the table.
    """
    prefix = f"{holder}_grant"
    return [
        models.Index(
            fields=["content_object", holder, "permission"],
            name=f"{prefix}_on_entity",
            include=(*VALIDITY_COLUMNS, "pattern"),
        ),
        models.Index(
            fields=[holder, "namespace", "permission", "content_object"],
            name=f"{prefix}_in_namespace",
            include=(*VALIDITY_COLUMNS, "pattern"),
        ),
        models.Index(
            fields=[holder, "application"],
            name=f"{prefix}_in_application",
            condition=Q(application__isnull=False),
        ),
        models.Index(fields=[holder, "entity_kind"], name=f"{prefix}_on_kind"),
        models.Index(
            fields=["pattern", holder, "permission"],
            name=f"{prefix}_by_pattern",
            condition=Q(pattern__isnull=False),
        ),
        *validity_indexes(prefix),
    ]


def grant_constraints(holder: str) -> list[models.BaseConstraint]:
    """Return the constraints of the grants to principals of one type. holder: the name of the type."""
    return [
        validity_constraint(f"{holder}_grant"),
        models.UniqueConstraint(
            fields=[holder, "content_object", "permission"],
            condition=Q(pattern__isnull=True),
            name=f"{holder}_grant_key",
        ),
    ]


class UserGrant(GrantDetails, UserObjectPermissionBase):
    """A grant to a user."""

    user = models.ForeignKey("grants.User", models.PROTECT, related_name="grants", db_index=False)
    content_object = models.ForeignKey(Entity, models.PROTECT, related_name="user_grants", db_index=False)

    principal_type = "user"
    objects = UserGrantManager()
    held = models.Manager.from_queryset(GrantQuerySet)()

    class Meta(UserObjectPermissionBase.Meta):
        abstract = False
        unique_together: ClassVar[list[str]] = []
        default_permissions = ()
        indexes = grant_indexes("user")
        constraints = grant_constraints("user")


class GroupGrant(GrantDetails, GroupObjectPermissionBase):
    """A grant to a group, which counts for every member."""

    group = models.ForeignKey("auth.Group", models.PROTECT, related_name="grants", db_index=False)
    content_object = models.ForeignKey(Entity, models.PROTECT, related_name="group_grants", db_index=False)

    principal_type = "group"
    objects = GroupGrantManager()
    held = models.Manager.from_queryset(GrantQuerySet)()

    class Meta(GroupObjectPermissionBase.Meta):
        abstract = False
        unique_together: ClassVar[list[str]] = []
        default_permissions = ()
        indexes = grant_indexes("group")
        constraints = grant_constraints("group")


@frozen
class PrincipalType:
    """A type of principal.

    name: the prefix of the written form, such as `user` in `user:alice`, and the name of the column of `grant_model`.
    model, name_column: the table of the principals.
    active: the columns that are true for the known subjects in decisions; empty if all principals are known.
    """

    name: str
    model: type[Model]
    name_column: str
    grant_model: type[UserGrant | GroupGrant]
    active: tuple[str, ...] = ()

    @property
    def id_column(self) -> str:
        """The column of `grant_model` with the primary key of the holder."""
        return f"{self.name}_id"

    @property
    def name_path(self) -> str:
        """The query path from a grant to the name of its holder."""
        return f"{self.name}__{self.name_column}"

    @property
    def principals(self) -> QuerySet:
        return self.model._default_manager.all()

    @property
    def active_principals(self) -> QuerySet:
        """The known subjects in decisions."""
        return self.principals.filter(**dict.fromkeys(self.active, True))

    @property
    def grants(self) -> GrantQuerySet:
        """All grants to principals of the type, as they were made."""
        return self.grant_model.objects.all()

    @property
    def held_grants(self) -> GrantQuerySet:
        """All grants to principals of the type, also the derived ones."""
        return self.grant_model.held.all()

    def grants_to(self, principal: str | Model | Collection[int]) -> GrantQuerySet:
        """Return the grants to a principal, by name or as an object, or to those with these primary keys."""
        if isinstance(principal, str):
            return self.grants.filter(**{self.name_path: principal})
        if isinstance(principal, Model):
            return self.grants.filter(**{self.id_column: principal.pk})
        return self.grants.filter(**{f"{self.name}__pk__among": principal})

    @property
    def is_effective(self) -> Q:
        """The condition that a grant counts in decisions: it is in force, and its holder is active."""
        return Q(**in_force()) & self.has_active_holder

    @property
    def has_active_holder(self) -> Q:
        return Q(**{f"{self.name}__{column}": True for column in self.active})

    def find(self, name: str) -> User | Group | None:
        """Return the principal with this name. Runs at most one query."""
        return None if storage_fault(name) else self.principals.filter(**{self.name_column: name}).first()


USER = PrincipalType("user", User, "username", UserGrant, ACTIVE_PRINCIPAL)
GROUP = PrincipalType("group", Group, "name", GroupGrant)
# by the name of the type
PRINCIPAL_TYPES = {principal_type.name: principal_type for principal_type in (USER, GROUP)}


@frozen
class GrantSource:
    """The grants to holders of one type that are effective for subjects of one type.

    subject: the path from a grant to its subject. membership: the path to the membership through which it counts;
    empty for grants to the subject itself.
    """

    holder: PrincipalType
    subject: str
    membership: str = ""

    @property
    def memberships(self) -> QuerySet:
        """All memberships through which such grants count, at any time."""
        return self._memberships.related_model._default_manager.all()

    @property
    def member_column(self) -> str:
        """The column of a membership with the primary key of the subject."""
        return f"{self.subject.rpartition('__')[2]}_id"

    @property
    def group_column(self) -> str:
        """The column of a membership with the primary key of the holder."""
        return self._memberships.field.attname

    @property
    def _memberships(self) -> models.ManyToOneRel:
        return self.holder.model._meta.get_field(self.membership.split("__")[1])

    def in_force(self, at: datetime | None = None) -> dict[str, datetime]:
        """Return the condition that a grant and its membership are in force. at: by default the time of the question."""
        return in_force(at=at) | (in_force(self.membership, at) if self.membership else {})

    def rows(self, at: datetime | None = None, **where) -> GrantQuerySet:
        """Return the grants that are in force and meet `where`."""
        return self.holder.held_grants.filter(**where, **self.in_force(at))


THROUGH_GROUPS = GrantSource(GROUP, "group__belongings__user", "group__belongings__")
# by the type of the subject
GRANT_SOURCES = {
    USER.name: (GrantSource(USER, USER.name), THROUGH_GROUPS),
    GROUP.name: (
        GrantSource(GROUP, GROUP.name),
        GrantSource(GROUP, "group__role_groups__group", "group__role_groups__"),
    ),
}


def grants_through(principal: User | Group) -> list[GrantQuerySet]:
    """Return the stored grants of a principal at any time: its own, and those through its memberships. They may
    contain duplicates.
    """
    return [
        source.holder.grants.filter(**{source.subject: principal})
        for source in GRANT_SOURCES[type_of(principal).name]
    ]


def type_of(principal: User | Group) -> PrincipalType:
    """Return the type of a principal."""
    return next(row for row in PRINCIPAL_TYPES.values() if isinstance(principal, row.model))


def all_grants(**where) -> list[GrantQuerySet]:
    """Return the stored grants that meet a condition, one queryset for each type of principal."""
    return [principal_type.grants.filter(**where) for principal_type in PRINCIPAL_TYPES.values()]


def grants_by_type(pks: Collection[tuple[str, int]]) -> Iterator[tuple[PrincipalType, GrantQuerySet]]:
    """Yield the grants of these principals, each (type, primary key), for each type of principal among them; also the
    derived ones.
    """
    for principal_type in PRINCIPAL_TYPES.values():
        if of_type := [pk for name, pk in pks if name == principal_type.name]:
            yield (
                principal_type,
                principal_type.held_grants.filter(**{f"{principal_type.name}__pk__among": of_type}),
            )


@cache
def permission_ids() -> dict[Privilege, int]:
    """Return the primary key of the permission of each privilege."""
    rows = Permission.objects.filter(content_type__app_label="entities", content_type__model="entity")
    return {Privilege[codename.upper()]: pk for codename, pk in rows.values_list("codename", "pk")}


@cache
def _privileges() -> dict[int, Privilege]:
    return {pk: privilege for privilege, pk in permission_ids().items()}


def privilege_of(permission_id: int) -> Privilege:
    """Return the privilege of the permission with this primary key."""
    return _privileges()[permission_id]


def clear_permission_ids() -> None:
    """Clear the caches. Migrating or flushing a database may assign new keys to the permissions."""
    permission_ids.cache_clear()
    _privileges.cache_clear()


class ActiveGeneration(models.Model):
    """The generation that pages and decisions use unless a request names another generation.

    The table has at most one row.
    """

    name = models.CharField(max_length=20)

    class Meta:
        default_permissions = ()
