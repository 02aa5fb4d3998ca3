"""API tokens."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import models
from django.db.models.functions import Now
from django.utils import timezone

from grants.models import User


class TokenScope(models.TextChoices):
    """The permissions of a token."""

    DECIDE = "decide", "Ask for decisions about any subject"
    READ = "read", "Read what its owner may see"
    ADMINISTER = "administer", "Change what its owner may change"
    PROVISION = "provision", "Provision users and groups over SCIM (service accounts only)"
    SELF = "self", "Ask for decisions about its owner only"


class ApiTokenQuerySet(models.QuerySet["ApiToken"]):
    """Queries for tokens by their state."""

    def unexpired_tokens(self) -> "ApiTokenQuerySet":
        now = timezone.now()
        return self.filter(expires_at__gt=now, limit_starts_at__gt=now - max_token_lifetime())

    def active(self) -> "ApiTokenQuerySet":
        return self.unexpired_tokens().filter(revoked_at=None)


def max_token_lifetime() -> timedelta:
    return timedelta(days=settings.TOKEN_MAX_DAYS)


class ApiToken(models.Model):
    """One API token, stored as the SHA-256 of its secret. The secret has 256 random bits, so it needs no
    salt.

    scopes: values of TokenScope in their order, separated by spaces.
    issued_by: the account or command that created the token; empty if unknown.
    limit_starts_at: TOKEN_MAX_DAYS count from this time: the creation of the token, or the upgrade from
    version 1.0.
    is_unlimited: whether the token may ask about all subjects although its owner is an ordinary account. Only
    true for tokens of version 1.0.
    """

    name = models.CharField(max_length=100)
    owner = models.ForeignKey(User, models.PROTECT, related_name="api_tokens")
    digest = models.CharField(max_length=64, unique=True)
    scopes = models.CharField(max_length=40)
    issued_by = models.CharField(max_length=150, blank=True, default="", db_default="")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    limit_starts_at = models.DateTimeField(default=timezone.now, db_default=Now())
    is_unlimited = models.BooleanField(default=False, db_default=False)

    objects = ApiTokenQuerySet.as_manager()

    class Meta:
        default_permissions = ()
        indexes = [models.Index(fields=["owner", "-created_at"], name="api_token_of_owner")]

    def __str__(self):
        return f"`{self.name}` (number {self.pk})"

    @property
    def ends_at(self) -> datetime:
        """Return when the token expires, or reaches the limit if that is earlier."""
        return min(self.expires_at, self.limit_starts_at + max_token_lifetime())

    @property
    def state(self) -> str:
        """Return `good` for an active token, `expired` or `revoked`."""
        if self.revoked_at:
            return "revoked"
        return "expired" if self.ends_at <= timezone.now() else "good"
