"""The models of data stewards and of the limits of delegation.

`grants.stewards` and `grants.authority.limits` are their only writers.
"""

from django.db import models
from django.db.models import Q

from entities.address import MAX_KEY_LENGTH, Address
from entities.fields import optional_text
from grants.policies.principals import group_text


class NamespaceSteward(models.Model):
    """A user or a group that is data steward of a namespace. A group makes all its members stewards.

    namespace: the key of the namespace. assigned_by: the name of the author.
    """

    namespace = models.CharField(max_length=MAX_KEY_LENGTH)
    user = models.ForeignKey("grants.User", models.PROTECT, null=True, related_name="stewardships")
    group = models.ForeignKey("auth.Group", models.PROTECT, null=True, related_name="stewardships")
    assigned_by = models.CharField(max_length=150)
    assigned_at = models.DateTimeField()
    reason = optional_text()

    class Meta:
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(fields=["namespace", "user"], name="steward_user_once"),
            models.UniqueConstraint(fields=["namespace", "group"], name="steward_group_once"),
            models.CheckConstraint(
                condition=Q(user__isnull=True) ^ Q(group__isnull=True), name="steward_user_or_group"
            ),
        ]

    def __str__(self):
        return f"{self.principal} as steward of {self.address}"

    @property
    def address(self) -> Address:
        return Address("namespace", self.namespace)

    @property
    def principal(self) -> str:
        """The steward, written `user:NAME` or `group:NAME`."""
        return f"user:{self.user.username}" if self.user else group_text(self.group.name)


class StoredDelegationLimits(models.Model):
    """The limits that administrators set for delegation, in the row 1. Without a row, those of the settings
    apply.

    privileges: names. kinds: names, or null for all. max_days: 0 for no limit. The settings limit all of them
    when they are read.
    """

    privileges = models.JSONField()
    kinds = models.JSONField(null=True)
    max_days = models.PositiveIntegerField()

    class Meta:
        default_permissions = ()
        constraints = [models.CheckConstraint(condition=models.Q(pk=1), name="one_row_of_delegation_limits")]

    def __str__(self):
        return "limits of delegation"
