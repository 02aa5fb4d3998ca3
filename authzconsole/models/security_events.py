"""Security events, and how far they were shipped."""

from django.db import models

from grants.models import Job


class AppendOnlyQuerySet(models.QuerySet):
    """A queryset that refuses to change or delete rows.

    `authzconsole.common.security_events.record` deletes old rows.
    """

    def update(self, **values):
        raise TypeError("security events are not changed")

    def delete(self):
        raise TypeError("security events are only deleted by their retention")


class SecurityEvent(models.Model):
    """One security event, such as a sign-in. Written only by `authzconsole.common.security_events.record`.

    kind: a value of `security_events.record.EventKind`. account: the account that acted; for a failed sign-in,
    the entered name.
    address: the client address; empty for commands. target: the principal, path or file that the event is
    about.
    token: number of the API token of the request. count: the number of equal events that this row stands for.
    """

    at = models.DateTimeField(db_index=True)
    kind = models.CharField(max_length=30)
    account = models.CharField(max_length=150, blank=True, default="")
    address = models.CharField(max_length=45, blank=True, default="")
    target = models.CharField(max_length=600, blank=True, default="")
    detail = models.CharField(max_length=600, blank=True, default="")
    request_id = models.CharField(max_length=64, blank=True, default="")
    token = models.BigIntegerField(null=True)
    count = models.PositiveIntegerField(default=1, db_default=1)

    objects = models.Manager.from_queryset(AppendOnlyQuerySet)()

    class Meta:
        default_permissions = ()
        indexes = [
            models.Index(fields=["kind", "-id"], name="security_event_kind"),
            models.Index(fields=["account", "-id"], name="security_event_account"),
            models.Index(fields=["address", "-id"], name="security_event_address"),
        ]

    def __str__(self):
        return f"security event {self.pk}: {self.kind}"


class SecurityEventTarget(models.Model):
    """The progress of shipping security events to one target.

    name: the target as configured. shipped_to: the number of the last shipped event.
    failures: failed attempts since the last success. error: the reason of the last failure.
    job: ships the next events; started again when there are any.
    """

    name = models.CharField(max_length=300, unique=True)
    shipped_to = models.BigIntegerField(default=0)
    failures = models.PositiveIntegerField(default=0)
    error = models.CharField(max_length=300, blank=True, default="")
    job = models.OneToOneField(Job, models.PROTECT, null=True)

    class Meta:
        default_permissions = ()

    def __str__(self):
        return f"{self.name}: shipped to {self.shipped_to}"
