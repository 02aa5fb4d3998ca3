"""The table of API tokens, with which services authenticate."""

from django.db import models

from grants.models import User


class TokenScope(models.TextChoices):
    """The permissions of a token."""

    DECIDE = "decide", "Ask for decisions about any subject"
    READ = "read", "Read what its owner may see"
    ADMINISTER = "administer", "Change what its owner may change"


class ApiToken(models.Model):
    """One API token, stored as the SHA-256 of its secret. The secret has 256 random bits, so it needs no salt.

    scopes: values of TokenScope in their order, separated by spaces.
    issued_by: the account or command that created the token; empty if unknown.
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

    class Meta:
        default_permissions = ()
        indexes = [models.Index(fields=["owner", "-created_at"], name="api_token_of_owner")]

    def __str__(self):
        return f"`{self.name}` (number {self.pk})"
