"""The model of the limits of delegation. `grants.authority.limits` is its only writer."""

from django.db import models


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
