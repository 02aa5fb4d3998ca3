"""Sessions of accounts."""

from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models

from grants.models import User


class AccountSession(AbstractBaseSession):
    """A session (see authzconsole.sessions). account: None before the sign-in. created_at: the time of the
    sign-in.

    provider_name: the digest of the name that a sign-in provider uses in a single logout; empty for other
    sessions.
    """

    account = models.ForeignKey(User, models.CASCADE, null=True, related_name="+")
    created_at = models.DateTimeField()
    last_used_at = models.DateTimeField()
    address = models.CharField(max_length=64, blank=True, default="")
    user_agent = models.CharField(max_length=200, blank=True, default="")
    provider_name = models.CharField(max_length=64, blank=True, default="", db_default="", db_index=True)

    class Meta(AbstractBaseSession.Meta):
        abstract = False
        default_permissions = ()
