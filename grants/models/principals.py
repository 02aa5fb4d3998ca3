"""Models of users and their memberships."""

from django.contrib.auth.models import AbstractUser, Group
from django.db import models
from django.db.models.functions import Upper
from django.utils import timezone

from grants.models.validity_columns import ValidityColumns, validity_constraint, validity_indexes
from grants.policies.principals import group_text
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
        return f"{self.user} in {group_text(self.group.name)}"


class RoleGroup(ValidityColumns):
    """A group that is a member of a role. The users that are members of a role have a Membership."""

    role = models.ForeignKey(Group, models.CASCADE, related_name="role_groups")
    group = models.ForeignKey(Group, models.CASCADE, related_name="roles")

    class Meta:
        unique_together = ["role", "group"]
        default_permissions = ()
        constraints = [validity_constraint("role_group")]
        indexes = validity_indexes("role_group")

    def __str__(self):
        return f"{group_text(self.group.name)} in {group_text(self.role.name)}"


class RoleMembership(ValidityColumns):
    """The membership of a user in a role through one of its groups.

    INVARIANT: there is one for each membership in a group of a role, with the time that both periods have in common
    (grants.role_members).
    """

    user = models.ForeignKey("grants.User", models.CASCADE, related_name="role_memberships")
    role = models.ForeignKey(Group, models.CASCADE, related_name="role_memberships")
    via = models.ForeignKey(RoleGroup, models.CASCADE, related_name="memberships")

    class Meta:
        unique_together = ["user", "via"]
        default_permissions = ()
        constraints = [validity_constraint("role_membership")]
        indexes = [
            models.Index(fields=["user", "role"], name="role_membership_user"),
            *validity_indexes("role_membership"),
        ]


BELONGING_SELECT = """
SELECT id, user_id, group_id, valid_from, valid_until FROM grants_user_groups
UNION ALL SELECT -id, user_id, role_id, valid_from, valid_until FROM grants_rolemembership"""


class Belonging(ValidityColumns):
    """That the grants of a group or role count for a user: a Membership or a RoleMembership.

    Evaluators read this view (BELONGING_SELECT). A user can belong to a role in several ways at once.
    """

    user = models.ForeignKey("grants.User", models.DO_NOTHING, related_name="belongings")
    group = models.ForeignKey(Group, models.DO_NOTHING, related_name="belongings")

    class Meta:
        managed = False
        db_table = "grants_belonging"
        default_permissions = ()
