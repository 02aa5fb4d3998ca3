"""Models of users and their memberships."""

from django.contrib.auth.models import AbstractUser, Group
from django.db import models
from django.db.models.functions import Upper
from django.utils import timezone

from grants.models.validity_columns import ValidityColumns, validity_constraint, validity_indexes
from grants.querysets import ConsoleUserManager
from grants.roles.capabilities import Capability, Role, capabilities_of


class User(AbstractUser):
    """An account of the console, a principal of the platform, or both.

    An account that is not a principal, such as the first administrator, is an unknown subject in every
    decision and is absent from analyses and tenant documents. It becomes a principal when it receives a
    grant, joins a group or is imported.
    """

    # Tenants choose the names, so only their length and uniqueness are checked.
    username = models.CharField("name", max_length=150, unique=True)
    role = models.CharField(max_length=30, choices=Role.choices, default=Role.ORDINARY)
    is_principal = models.BooleanField(default=True)
    # Another person set the password: the user must change it before using any page
    # (grants.principals.services).
    must_change_password = models.BooleanField(default=False, db_default=False)
    # When a password that another account set stops working; null for a password that the user chose.
    password_expires_at = models.DateTimeField(null=True)
    # A service account owns API tokens for a program. It cannot sign in and has no password.
    is_service = models.BooleanField(default=False, db_default=False)
    # The user chose to get an e-mail about new findings that are errors (authzconsole.mail).
    wants_finding_mail = models.BooleanField(default=False, db_default=False)

    # Replaces the field of Django: the same table, in which a membership also has a validity.
    groups = models.ManyToManyField(
        Group,
        through="grants.Membership",
        blank=True,
        related_name="user_set",
        related_query_name="user",
        verbose_name="groups",
    )

    objects = ConsoleUserManager()

    class Meta(AbstractUser.Meta):
        # to find names that differ only in case (grants.principals.new_names)
        indexes = [models.Index(Upper("username"), name="user_upper_name")]

    def __str__(self):
        return f"user:{self.username}"

    @property
    def is_active_principal(self) -> bool:
        """Return whether the user is a known subject in decisions."""
        return self.is_active and self.is_principal

    @property
    def has_expired_password(self) -> bool:
        """Return whether an administrator set the password too long ago."""
        return (
            self.must_change_password
            and self.password_expires_at is not None
            and self.password_expires_at <= timezone.now()
        )

    def can(self, *capabilities: Capability) -> bool:
        """Return whether the account is active and its console role has at least one of the capabilities."""
        return self.is_active and not capabilities_of(self.role).isdisjoint(capabilities)

    @property
    def can_administer(self) -> bool:
        return self.can(Capability.CHANGE_GRANTS)

    @property
    def can_see_all(self) -> bool:
        return self.can(Capability.READ_ALL)

    @property
    def can_read_journal(self) -> bool:
        return self.can(Capability.READ_JOURNAL)


class Membership(ValidityColumns):
    """The membership of a user in a group. Outside its validity, the group gives the user nothing."""

    user = models.ForeignKey("grants.User", models.CASCADE, related_name="memberships")
    group = models.ForeignKey(Group, models.CASCADE, related_name="memberships")

    class Meta:
        # Django named the table when it had no model
        db_table = "grants_user_groups"
        unique_together = ["user", "group"]
        default_permissions = ()
        constraints = [validity_constraint("membership")]
        indexes = validity_indexes("membership")

    def __str__(self):
        return f"{self.user} in group:{self.group.name}"
