"""Users and groups that a provisioning service manages."""

from django.contrib.auth.models import Group
from django.db import models

from grants.models import User


class ProvisionedUser(models.Model):
    """The data of a provisioning service about a user.

    external_id: the id of the user in that service. removed_at: when the service removed the user, which also
    deactivated it.
    """

    user = models.OneToOneField(User, models.CASCADE, primary_key=True, related_name="provisioned")
    external_id = models.CharField(max_length=255, blank=True, default="", db_index=True)
    removed_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()


class ProvisionedGroup(models.Model):
    """The data of a provisioning service about a group. external_id: the id of the group in that service."""

    group = models.OneToOneField(Group, models.CASCADE, primary_key=True, related_name="provisioned")
    external_id = models.CharField(max_length=255, blank=True, default="", db_index=True)

    class Meta:
        default_permissions = ()
