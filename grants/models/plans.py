"""Models of plans: stored changes that are reviewed before they are applied."""

from django.contrib.auth.models import Permission
from django.db import models
from django.db.models import Q, Value

from entities.address import MAX_KEY_LENGTH, Address
from entities.fields import optional_text
from entities.vocabulary import Privilege
from grants.models.grants import privilege_of
from grants.models.validity_columns import ValidityColumns, validity_constraint
from grants.policies.principals import group_text, principal_text
from grants.validity import Validity


class PlanState(models.TextChoices):
    """The state of a plan. Only a proposed plan can be applied or discarded."""

    PROPOSED = "proposed"
    APPLIED = "applied"
    DISCARDED = "discarded"


class PlanBreadth(models.TextChoices):
    """The changes that make a plan stale: changes of its entities only, or changes anywhere in their
    namespaces.
    """

    ENTITIES = "entities"
    NAMESPACES = "namespaces"


class Plan(models.Model):
    """Changes that are applied together, and their outcome. The items never change.

    origin, recipe: the source of the plan and its input, from which the plan can be renewed
    (grants.plans.renew).
    base_revision: the revision of the data from which the plan was computed.
    breadth, watches: the changes that make the plan stale (grants.plans.staleness); watches are principals in
    written form.
    maker_ids: the keys of the accounts of the person who made the plan; empty for a command, and for plans of
    earlier versions
        (grants.authority.persons).
    revision: the newest revision when the plan was applied.
    effect: the counts of the changes, computed when the plan is created and again when it is applied
    (grants.plans.counts).
    """

    title = models.CharField(max_length=300)
    origin = models.CharField(max_length=40)
    recipe = models.JSONField(default=dict)
    base_revision = models.BigIntegerField()
    breadth = models.CharField(max_length=10, choices=PlanBreadth.choices, default=PlanBreadth.ENTITIES)
    watches = models.JSONField(default=list)
    made_by = models.CharField(max_length=150)
    maker_ids = models.JSONField(default=list, db_default=Value([], output_field=models.JSONField()))
    made_at = models.DateTimeField(auto_now_add=True)
    state = models.CharField(max_length=9, choices=PlanState.choices, default=PlanState.PROPOSED)
    decided_by = optional_text(150)
    decided_at = models.DateTimeField(null=True)
    reason = optional_text()
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
    """The change of a plan item: of a user or group, of a grant, of a membership, of the status of a user, or of the
    state of an entity.
    """

    ADD = "add"
    ADD_USER = "add-user"
    GRANT = "grant"
    REVOKE = "revoke"
    JOIN = "join"
    LEAVE = "leave"
    ACTIVATE = "activate"
    DEACTIVATE = "deactivate"
    REMOVE = "remove"
    REGISTER = "register"
    RECREATE = "recreate"
    DELETE = "delete"


GRANT_VERBS = (PlanVerb.GRANT, PlanVerb.REVOKE)
MEMBERSHIP_VERBS = (PlanVerb.JOIN, PlanVerb.LEAVE)
ACTIVATION_VERBS = (PlanVerb.ACTIVATE, PlanVerb.DEACTIVATE)
STATE_VERBS = (PlanVerb.REGISTER, PlanVerb.RECREATE, PlanVerb.DELETE)


class PlanItem(ValidityColumns):
    """One change of a plan. It has names instead of foreign keys, because an address may not be registered
    yet.

    position: starts at 1. kind, key: only of grants, revocations and states. permission: only of grants and
    revocations. principal_type, principal_name: not of states. group_name: only of memberships, of users in groups and
    of groups in roles.
    namespace: the key of the namespace of the address; empty outside of namespaces.
    valid_from, valid_until: the validity of the grant or membership that the item adds; null for other items.
    old_valid_from, old_valid_until: the earlier validity of the grant or membership that the item changes or
    removes.
    changes_period: the item only changes the validity of an existing grant or membership.
    is_noop: the item changes nothing; in an applied plan, the item changed nothing. The column is named
    `is_so`.
    """

    plan = models.ForeignKey(Plan, models.CASCADE, related_name="items", db_index=False)
    position = models.PositiveIntegerField()
    verb = models.CharField(max_length=10, choices=PlanVerb.choices)
    principal_type = models.CharField(max_length=5)
    principal_name = models.CharField(max_length=150)
    kind = optional_text(63)
    key = optional_text(MAX_KEY_LENGTH)
    namespace = optional_text(MAX_KEY_LENGTH)
    permission = models.ForeignKey(Permission, models.CASCADE, null=True, db_index=False, related_name="+")
    group_name = optional_text(150, db_default="")
    old_valid_from = models.DateTimeField(null=True)
    old_valid_until = models.DateTimeField(null=True)
    changes_period = models.BooleanField(default=False, db_default=False)
    is_noop = models.BooleanField(default=False, db_column="is_so")

    class Meta:
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(fields=["plan", "position"], name="plan_item_position"),
            models.UniqueConstraint(
                fields=["plan", "kind", "key", "principal_type", "principal_name", "permission"],
                name="plan_item_once",
            ),
            models.UniqueConstraint(
                fields=["plan", "principal_type", "principal_name", "group_name"],
                condition=Q(permission__isnull=True, kind=""),
                name="plan_item_membership_once",
            ),
            validity_constraint("plan_item"),
        ]
        indexes = [
            models.Index(fields=["plan", "principal_type", "principal_name"], name="plan_item_principal"),
            models.Index(fields=["plan", "namespace"], name="plan_item_namespace"),
        ]

    @property
    def principal(self) -> str:
        return principal_text(self.principal_type, self.principal_name)

    @property
    def address(self) -> Address:
        return Address(self.kind, self.key)

    @property
    def privilege(self) -> Privilege:
        return privilege_of(self.permission_id)

    @property
    def validity_before(self) -> Validity:
        return Validity(self.old_valid_from, self.old_valid_until)

    @property
    def removes_period(self) -> bool:
        """Whether the item only removes the limits of an existing grant or membership."""
        return self.changes_period and not self.validity.is_limited

    @property
    def group(self) -> str:
        """The group or role of a membership in written form; empty for other items."""
        return group_text(self.group_name) if self.group_name else ""


class PlanStranding(models.Model):
    """A live entity that a plan leaves with fewer than two active ADMIN holders. admins_left: 0 or 1."""

    plan = models.ForeignKey(Plan, models.CASCADE, related_name="strandings", db_index=False)
    admins_left = models.PositiveSmallIntegerField()
    kind = models.CharField(max_length=63)
    key = models.CharField(max_length=MAX_KEY_LENGTH)

    class Meta:
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(fields=["plan", "admins_left", "kind", "key"], name="plan_stranding_once")
        ]
