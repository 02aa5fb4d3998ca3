"""The managers of users."""

from django.db import models


class UserManagerLink(models.Model):
    """The manager of a user, who reviews the user's access in campaigns with that rule.

    It gives no access.
    """

    user = models.OneToOneField("grants.User", models.CASCADE, primary_key=True, related_name="manager_link")
    manager = models.ForeignKey("grants.User", models.CASCADE, related_name="report_links")

    class Meta:
        default_permissions = ()
