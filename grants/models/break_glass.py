"""The model of emergency access."""

import time
from functools import cache
from pathlib import Path

from django.db import models
from django.utils import timezone

from entities.fields import optional_text

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def uptime() -> tuple[str, float]:
    """Return the identity of the start of this machine, and the seconds since then; an empty identity if it
    is unknown.

    Unlike the clock, the seconds cannot be set back, and all processes and containers of the machine share
    them.
    """
    return _boot_identity(), time.clock_gettime(time.CLOCK_BOOTTIME) if _boot_identity() else 0.0


@cache
def _boot_identity() -> str:
    try:
        return _BOOT_ID.read_text().strip() if hasattr(time, "CLOCK_BOOTTIME") else ""
    except OSError:
        return ""


class BreakGlassUse(models.Model):
    """One use of break-glass access, and its review by another person.

    account_name: the name at that time; account is null after the user was removed. ends_at: the access ends
    at this time without a task, or earlier if an administrator ends it. boot, uptime_at_end: the end as the
    `uptime` of the machine on which it started. notified_at: when the e-mail about the start was sent.
    reviewed_by: empty before the review.
    """

    account = models.ForeignKey("grants.User", models.SET_NULL, null=True, related_name="+")
    account_name = models.CharField(max_length=150)
    reason = models.TextField()
    started_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    boot = optional_text(40, db_default="")
    uptime_at_end = models.FloatField(default=0, db_default=0)
    notified_at = models.DateTimeField(null=True)
    first_revision = models.BigIntegerField()
    reviewed_by = optional_text(150)
    reviewed_at = models.DateTimeField(null=True)
    comment = optional_text()

    class Meta:
        default_permissions = ()
        indexes = [
            models.Index(fields=["account", "ends_at"], name="break_glass_of_account"),
            models.Index(
                fields=["-started_at"], name="break_glass_open", condition=models.Q(reviewed_at__isnull=True)
            ),
        ]

    def __str__(self):
        return f"break-glass access {self.pk}"

    @property
    def is_active(self) -> bool:
        """Whether the access has not ended.

        Setting the clock back does not extend it on the machine on which it started. It counts as ended
        before its start.
        """
        boot, seconds = uptime()
        has_expired = bool(boot) and boot == self.boot and seconds >= self.uptime_at_end
        return self.started_at <= timezone.now() < self.ends_at and not has_expired

    @property
    def is_reviewed(self) -> bool:
        return self.reviewed_at is not None
