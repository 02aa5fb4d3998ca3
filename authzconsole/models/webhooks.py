"""Webhooks, and the journal lines that they did not accept."""

from django.db import models

from grants.models import Job


class Webhook(models.Model):
    """An endpoint that receives journal lines. Changed only by `authzconsole.common.webhooks.services` and
    `delivery`.

    actions: journal actions, separated by spaces; empty means all. nonce: the secret is derived from it and
    SECRET_KEY.
    position: the revision of the last line that was delivered, skipped or given up. attempts: failed attempts
    for the next line. retry_at: no attempt is made before this time.
    job: delivers the next lines; started again when there are any.
    """

    url = models.CharField(max_length=500)
    actions = models.CharField(max_length=2_000, blank=True, default="")
    nonce = models.CharField(max_length=64)
    is_enabled = models.BooleanField(default=True)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)
    position = models.BigIntegerField(default=0)
    attempts = models.PositiveIntegerField(default=0)
    retry_at = models.DateTimeField(null=True)
    delivered = models.PositiveBigIntegerField(default=0)
    delivered_at = models.DateTimeField(null=True)
    error = models.CharField(max_length=300, blank=True, default="")
    job = models.OneToOneField(Job, models.PROTECT, null=True)

    class Meta:
        default_permissions = ()

    def __str__(self):
        return f"webhook {self.pk}"


class DeadLetter(models.Model):
    """A journal line that a webhook did not accept. is_replayed: whether it is to be sent again before new
    lines.
    """

    webhook = models.ForeignKey(Webhook, models.CASCADE, related_name="dead_letters")
    revision = models.BigIntegerField()
    at = models.DateTimeField()
    error = models.CharField(max_length=300)
    is_replayed = models.BooleanField(default=False)

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["webhook", "revision"], name="dead_letter_of_line")]
