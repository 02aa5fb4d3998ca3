"""Results of maintenance tasks."""

from django.db import models


class MaintenanceTask(models.TextChoices):
    JOURNAL_VERIFICATION = "journal-verification", "Journal verification"
    JOURNAL_ANCHOR = "journal-anchor", "Journal anchor"
    BACKUP = "backup", "Backup"
    EXPIRY_MAIL = "expiry-mail", "E-mail about ended access"


class MaintenanceRecord(models.Model):
    """The newest result of a maintenance task. There is one row for each task that was ever executed.

    revision: the newest journal line that the task included. text: the fault, or further details.
    """

    task = models.CharField(max_length=30, choices=MaintenanceTask.choices, primary_key=True)
    at = models.DateTimeField()
    is_ok = models.BooleanField()
    revision = models.BigIntegerField()
    text = models.TextField(blank=True, default="")

    class Meta:
        default_permissions = ()

    def __str__(self):
        return f"{self.task} at revision {self.revision}"
