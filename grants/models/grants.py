"""Models of grants, and of the active generation.

Grants are django-guardian's direct-foreign-key models on `entities.Entity`, one row for each principal,
privilege and entity.
"""

from functools import cache

from django.contrib.auth.models import Permission
from django.db import models
from django.db.models import Q
from guardian.models import GroupObjectPermissionBase, UserObjectPermissionBase

from entities.models import Entity
from entities.vocabulary import Privilege
from grants.models.validity_columns import ValidityColumns, validity_constraint, validity_indexes
from grants.querysets import UserGrantManager
from grants.validity import VALIDITY_COLUMNS


class GrantDetails(ValidityColumns):
    """The columns that guardian's models do not have: author, time, reason and validity of a grant, and facts
    about its entity.

    entity_kind: the kind of the entity, so that an index finds the few grants on one kind among very many.
        Empty if it is not known, as in rows of the past (grants.history.past).
    INVARIANT: `namespace`, `application` and `entity_kind` equal those of the entity (grants.changes.grants).
    """

    granted_by = models.ForeignKey("grants.User", models.SET_NULL, null=True, related_name="+")
    granted_at = models.DateTimeField()
    reason = models.TextField(blank=True, default="")
    namespace = models.ForeignKey(Entity, models.PROTECT, null=True, related_name="+", db_index=False)
    application = models.ForeignKey(Entity, models.PROTECT, null=True, related_name="+", db_index=False)
    entity_kind = models.CharField(max_length=63, blank=True, default="", db_default="")

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


class UserGrant(GrantDetails, UserObjectPermissionBase):
    """A grant to a user."""

    user = models.ForeignKey("grants.User", models.PROTECT, related_name="grants", db_index=False)
    content_object = models.ForeignKey(Entity, models.PROTECT, related_name="user_grants", db_index=False)

    objects = UserGrantManager()

    class Meta(UserObjectPermissionBase.Meta):
        abstract = False
        unique_together = ["user", "content_object", "permission"]
        default_permissions = ()
        # Entity and principal together, because an entity may have many holders and a principal many grants.
        # With the validity, which every evaluator compares, PostgreSQL need not read the table.
        indexes = [
            models.Index(
                fields=["content_object", "user", "permission"],
                name="user_grant_on_entity",
                include=VALIDITY_COLUMNS,
            ),
            models.Index(
                fields=["user", "namespace", "permission", "content_object"],
                name="user_grant_in_namespace",
                include=VALIDITY_COLUMNS,
            ),
            models.Index(
                fields=["user", "application"],
                name="user_grant_in_application",
                condition=Q(application__isnull=False),
            ),
            models.Index(fields=["user", "entity_kind"], name="user_grant_on_kind"),
            *validity_indexes("user_grant"),
        ]
        constraints = [validity_constraint("user_grant")]


class GroupGrant(GrantDetails, GroupObjectPermissionBase):
    """A grant to a group, which counts for every member."""

    group = models.ForeignKey("auth.Group", models.PROTECT, related_name="grants", db_index=False)
    content_object = models.ForeignKey(Entity, models.PROTECT, related_name="group_grants", db_index=False)

    class Meta(GroupObjectPermissionBase.Meta):
        abstract = False
        unique_together = ["group", "content_object", "permission"]
        default_permissions = ()
        # Entity and principal together, because an entity may have many holders and a principal many grants.
        # With the validity, which every evaluator compares, PostgreSQL need not read the table.
        indexes = [
            models.Index(
                fields=["content_object", "group", "permission"],
                name="group_grant_on_entity",
                include=VALIDITY_COLUMNS,
            ),
            models.Index(
                fields=["group", "namespace", "permission", "content_object"],
                name="group_grant_in_namespace",
                include=VALIDITY_COLUMNS,
            ),
            models.Index(
                fields=["group", "application"],
                name="group_grant_in_application",
                condition=Q(application__isnull=False),
            ),
            models.Index(fields=["group", "entity_kind"], name="group_grant_on_kind"),
            *validity_indexes("group_grant"),
        ]
        constraints = [validity_constraint("group_grant")]


# By principal type: (grant model, column of the principal), and the query path to the principal's name.
GRANT_TABLES = {"user": (UserGrant, "user_id"), "group": (GroupGrant, "group_id")}
NAME_COLUMNS = {"user": "user__username", "group": "group__name"}


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
