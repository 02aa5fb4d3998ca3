"""Models of users, grants on entities, the journal and plans.

Grants are django-guardian's direct-foreign-key models on `entities.Entity`, one row for each principal, privilege and entity.
The services of this package are the only writers of these tables.
"""

import hashlib
import json
from collections.abc import Sequence
from functools import cache

from django.contrib.auth.models import AbstractUser, Permission
from django.db import models
from django.db.models import Q
from django.db.models.functions import Abs, Upper
from django.utils import timezone
from guardian.models import GroupObjectPermissionBase, UserObjectPermissionBase

from entities.address import MAX_KEY_LENGTH, Address
from entities.models import Entity
from entities.vocabulary import Privilege
from grants import history_models  # noqa: F401, Django reads the models of an app from this module
from grants.querysets import ConsoleUserManager, UserGrantManager


class Role(models.TextChoices):
    """The console role of an account. It grants no access to data."""

    ORDINARY = "ordinary", "Ordinary"
    AUDITOR = "auditor", "Auditor"
    ADMINISTRATOR = "administrator", "Administrator"


class User(AbstractUser):
    """An account of the console, a principal of the platform, or both.

    An account that is not a principal, such as the first administrator, is an unknown subject in every decision and is
    absent from analyses and tenant documents. It becomes a principal when it receives a grant, joins a group or is imported.
    """

    # Tenants choose the names, so only their length and uniqueness are checked.
    username = models.CharField("name", max_length=150, unique=True)
    role = models.CharField(max_length=13, choices=Role.choices, default=Role.ORDINARY)
    is_principal = models.BooleanField(default=True)
    # Another person set the password: the user must change it before using any page (grants.principals.services).
    must_change_password = models.BooleanField(default=False, db_default=False)
    # When a password that another account set stops working; null for a password that the user chose.
    password_expires_at = models.DateTimeField(null=True)
    # A service account owns API tokens for a program. It cannot sign in and has no password.
    is_service = models.BooleanField(default=False, db_default=False)

    objects = ConsoleUserManager()

    class Meta(AbstractUser.Meta):
        # to find names that differ only in case (grants.principals.new_names)
        indexes = [models.Index(Upper("username"), name="user_upper_name")]

    def __str__(self):
        return f"user:{self.username}"

    @property
    def is_active_principal(self) -> bool:
        """Return whether the user is a known subject in decisions."""
        return self.is_active and self.is_principal

    @property
    def has_expired_password(self) -> bool:
        """Return whether an administrator set the password too long ago."""
        return self.must_change_password and self.password_expires_at is not None and self.password_expires_at <= timezone.now()

    @property
    def can_administer(self) -> bool:
        return self.is_active and self.role == Role.ADMINISTRATOR

    @property
    def can_see_all(self) -> bool:
        return self.is_active and self.role in (Role.ADMINISTRATOR, Role.AUDITOR)


class GrantDetails(models.Model):
    """The columns that guardian's models do not have: author, time and reason of a grant, and the containers of its entity.

    INVARIANT: `namespace` and `application` equal those of the entity (grants.changes.rows).
    """

    granted_by = models.ForeignKey("grants.User", models.SET_NULL, null=True, related_name="+")
    granted_at = models.DateTimeField()
    reason = models.TextField(blank=True, default="")
    namespace = models.ForeignKey(Entity, models.PROTECT, null=True, related_name="+", db_index=False)
    application = models.ForeignKey(Entity, models.PROTECT, null=True, related_name="+", db_index=False)

    class Meta:
        abstract = True

    def save(self, *args, **kwargs):
        self.namespace_id, self.application_id = self.content_object.namespace_id, self.content_object.application_id
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
        indexes = [
            models.Index(fields=["content_object", "user", "permission"], name="user_grant_on_entity"),
            models.Index(fields=["user", "namespace", "permission", "content_object"], name="user_grant_in_namespace"),
            models.Index(fields=["user", "application"], name="user_grant_in_application",
                         condition=Q(application__isnull=False)),
        ]


class GroupGrant(GrantDetails, GroupObjectPermissionBase):
    """A grant to a group, which counts for every member."""

    group = models.ForeignKey("auth.Group", models.PROTECT, related_name="grants", db_index=False)
    content_object = models.ForeignKey(Entity, models.PROTECT, related_name="group_grants", db_index=False)

    class Meta(GroupObjectPermissionBase.Meta):
        abstract = False
        unique_together = ["group", "content_object", "permission"]
        default_permissions = ()
        # Entity and principal together, because an entity may have many holders and a principal many grants.
        indexes = [
            models.Index(fields=["content_object", "group", "permission"], name="group_grant_on_entity"),
            models.Index(fields=["group", "namespace", "permission", "content_object"], name="group_grant_in_namespace"),
            models.Index(fields=["group", "application"], name="group_grant_in_application",
                         condition=Q(application__isnull=False)),
        ]


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
    """The generation that pages and decisions use unless a request names another generation. The table has at most one row."""

    name = models.CharField(max_length=20)

    class Meta:
        default_permissions = ()


JOURNAL_FILTERS = ("principal", "entity", "actor", "action")
# indexed only where they are set, because commands have no request
JOURNAL_REQUEST_FILTERS = ("request_id", "caller_request_id")


# without spaces between tokens, and without escapes for characters beyond ASCII
_encode_canonical_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def line_hash(previous_hash: str, values: Sequence) -> str:
    """Return the hash of a journal line. values: its columns in the order of `JournalLine.HASHED`."""
    content = [previous_hash, *values]
    content[2] = content[2].isoformat(timespec="microseconds")
    if content[-1] == 1:
        del content[-len(JournalLine.SINCE_FORMAT_2):]
    return hashlib.sha256(_encode_canonical_json(content).encode()).hexdigest()


class JournalLine(models.Model):
    """One change. Lines are numbered without gaps, and never updated or deleted.

    INVARIANT: no line has an earlier time than the previous line (grants.journal), so each time corresponds to a revision.

    Each filter has an index that ends in `Abs(revision)`, which equals the revision. The expression keeps PostgreSQL from
    scanning all newer lines by primary key to find old lines of an actor, principal or entity.

    `hash` is SHA-256 over the previous line's hash and this line's fields in canonical JSON. `format` says which fields:
    lines of format 1 were written before the fields of SINCE_FORMAT_2 existed.
    request_id: generated by the console. caller_request_id: the X-Request-ID that the caller sent.
    key_id, mac: the key and the HMAC of the hash (grants.journal_keys); empty for lines that were written before there were keys.
    token, issuer: number of the API token of the request, and the account or command that created this token.
    """

    revision = models.BigIntegerField(primary_key=True)
    at = models.DateTimeField()
    actor = models.CharField(max_length=150)
    action = models.CharField(max_length=40)
    principal = models.CharField(max_length=160, blank=True, default="")
    entity = models.CharField(max_length=600, blank=True, default="")
    privilege = models.CharField(max_length=7, blank=True, default="")
    detail = models.TextField(blank=True, default="")
    reason = models.TextField(blank=True, default="")
    request_id = models.CharField(max_length=200, blank=True, default="")
    caller_request_id = models.CharField(max_length=200, blank=True, default="", db_default="")
    token = models.BigIntegerField(null=True)
    issuer = models.CharField(max_length=150, blank=True, default="", db_default="")
    format = models.SmallIntegerField(default=2, db_default=1)
    hash = models.CharField(max_length=64)
    key_id = models.CharField(max_length=16, blank=True, default="", db_default="")
    mac = models.CharField(max_length=64, blank=True, default="", db_default="")

    class Meta:
        ordering = ["revision"]
        default_permissions = ()
        indexes = [
            *(models.Index(name, Abs("revision").desc(), name=f"journal_{name}") for name in JOURNAL_FILTERS),
            *(models.Index(name, Abs("revision").desc(), name=f"journal_{name}", condition=~Q(**{name: ""}))
              for name in JOURNAL_REQUEST_FILTERS),
            models.Index(fields=["at", "revision"], name="journal_time"),
        ]

    SINCE_FORMAT_2 = ("caller_request_id", "token", "issuer", "format")
    HASHED = ("revision", "at", "actor", "action", "principal", "entity", "privilege", "detail", "reason", "request_id",
              *SINCE_FORMAT_2)

    def hash_after(self, previous_hash: str) -> str:
        """Return the hash of this line, given the hash of the line before."""
        return line_hash(previous_hash, [getattr(self, name) for name in self.HASHED])


class JournalHead(models.Model):
    """The newest revision with its time and hash, and an HMAC over revision and hash.

    The table has one row. Every write locks it, so writes happen one after the other.
    """

    revision = models.BigIntegerField(default=0)
    at = models.DateTimeField(null=True)
    hash = models.CharField(max_length=64, default="0" * 64)
    key_id = models.CharField(max_length=16, blank=True, default="", db_default="")
    mac = models.CharField(max_length=64, blank=True, default="", db_default="")

    class Meta:
        default_permissions = ()


class PlanState(models.TextChoices):
    """The state of a plan. Only a proposed plan can be applied or discarded."""

    PROPOSED = "proposed"
    APPLIED = "applied"
    DISCARDED = "discarded"


class PlanBreadth(models.TextChoices):
    """The changes that make a plan stale: changes of its entities only, or changes anywhere in their namespaces."""

    ENTITIES = "entities"
    NAMESPACES = "namespaces"


class Plan(models.Model):
    """Changes that are applied together, and their outcome. The items never change.

    origin, recipe: the source of the plan and its input, from which the plan can be renewed (grants.plans.renew).
    base_revision: the revision of the data from which the plan was computed.
    breadth, watches: the changes that make the plan stale (grants.plans.staleness); watches are principals in written form.
    revision: the newest revision when the plan was applied.
    effect: the counts of the changes, computed when the plan is created and again when it is applied (grants.plans.effect).
    """

    title = models.CharField(max_length=300)
    origin = models.CharField(max_length=40)
    recipe = models.JSONField(default=dict)
    base_revision = models.BigIntegerField()
    breadth = models.CharField(max_length=10, choices=PlanBreadth.choices, default=PlanBreadth.ENTITIES)
    watches = models.JSONField(default=list)
    made_by = models.CharField(max_length=150)
    made_at = models.DateTimeField(auto_now_add=True)
    state = models.CharField(max_length=9, choices=PlanState.choices, default=PlanState.PROPOSED)
    decided_by = models.CharField(max_length=150, blank=True, default="")
    decided_at = models.DateTimeField(null=True)
    reason = models.TextField(blank=True, default="")
    revision = models.BigIntegerField(null=True)
    effect = models.JSONField(default=dict)
    inverse_of = models.ForeignKey("self", models.PROTECT, null=True, related_name="inverses")
    renewal_of = models.ForeignKey("self", models.PROTECT, null=True, related_name="renewals")

    class Meta:
        default_permissions = ()
        indexes = [models.Index(fields=["state", "-id"], name="plan_in_state")]

    def __str__(self):
        return f"plan {self.pk}"

    @property
    def is_proposed(self) -> bool:
        return self.state == PlanState.PROPOSED


class PlanVerb(models.TextChoices):
    """The change of a plan item: of a grant, of a membership, or of the status of a user."""

    GRANT = "grant"
    REVOKE = "revoke"
    JOIN = "join"
    LEAVE = "leave"
    ACTIVATE = "activate"
    DEACTIVATE = "deactivate"


GRANT_VERBS = (PlanVerb.GRANT, PlanVerb.REVOKE)
MEMBERSHIP_VERBS = (PlanVerb.JOIN, PlanVerb.LEAVE)
ACTIVATION_VERBS = (PlanVerb.ACTIVATE, PlanVerb.DEACTIVATE)


class PlanItem(models.Model):
    """One change of a plan. It has names instead of foreign keys, because an address may not be registered yet.

    position: starts at 1. kind, key, permission: only of grants and revocations. group_name: only of memberships.
    namespace: the key of the namespace of the address; empty outside of namespaces.
    is_noop: the item changes nothing; in an applied plan, the item changed nothing. The column is named `is_so`.
    """

    plan = models.ForeignKey(Plan, models.CASCADE, related_name="items", db_index=False)
    position = models.PositiveIntegerField()
    verb = models.CharField(max_length=10, choices=PlanVerb.choices)
    principal_type = models.CharField(max_length=5)
    principal_name = models.CharField(max_length=150)
    kind = models.CharField(max_length=63, blank=True, default="")
    key = models.CharField(max_length=MAX_KEY_LENGTH, blank=True, default="")
    namespace = models.CharField(max_length=MAX_KEY_LENGTH, blank=True, default="")
    permission = models.ForeignKey(Permission, models.CASCADE, null=True, db_index=False, related_name="+")
    group_name = models.CharField(max_length=150, blank=True, default="", db_default="")
    is_noop = models.BooleanField(default=False, db_column="is_so")

    class Meta:
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(fields=["plan", "position"], name="plan_item_position"),
            models.UniqueConstraint(fields=["plan", "kind", "key", "principal_type", "principal_name", "permission"],
                                    name="plan_item_once"),
            models.UniqueConstraint(fields=["plan", "principal_name", "group_name"], condition=Q(permission__isnull=True),
                                    name="plan_item_membership_once"),
        ]
        indexes = [
            models.Index(fields=["plan", "principal_type", "principal_name"], name="plan_item_principal"),
            models.Index(fields=["plan", "namespace"], name="plan_item_namespace"),
        ]

    @property
    def principal(self) -> str:
        return f"{self.principal_type}:{self.principal_name}"

    @property
    def address(self) -> Address:
        return Address(self.kind, self.key)

    @property
    def privilege(self) -> Privilege:
        return privilege_of(self.permission_id)

    @property
    def group(self) -> str:
        """The group of a membership, written `group:NAME`; empty for other items."""
        return f"group:{self.group_name}" if self.group_name else ""


class PlanStranding(models.Model):
    """A live entity that a plan leaves with fewer than two active administrators. admins_left: 0 or 1."""

    plan = models.ForeignKey(Plan, models.CASCADE, related_name="strandings", db_index=False)
    admins_left = models.PositiveSmallIntegerField()
    kind = models.CharField(max_length=63)
    key = models.CharField(max_length=MAX_KEY_LENGTH)

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["plan", "admins_left", "kind", "key"], name="plan_stranding_once")]
