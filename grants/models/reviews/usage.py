"""The use of entities by users."""

from django.db import models


class UsageDay(models.Model):
    """The number of permitted decisions, or imported uses, of one user and one entity on one day (UTC).

    See `grants.usage`.
    """

    user = models.ForeignKey("grants.User", models.CASCADE, related_name="+", db_index=False)
    entity = models.ForeignKey("entities.Entity", models.CASCADE, related_name="+", db_index=False)
    day = models.DateField()
    count = models.PositiveBigIntegerField(default=0)

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["user", "entity", "day"], name="usage_once_a_day")]
        indexes = [
            models.Index(fields=["entity", "day"], name="usage_of_entity"),
            models.Index(fields=["day"], name="usage_day"),
        ]
