"""Define the conditions under which users, memberships and grants count in a decision.

A principal is a user with `is_principal`, or a group. An active principal is a principal that is not deactivated; groups are
always active. Only active principals are known subjects, and only their grants are effective.
"""

from django.contrib.auth import get_user_model
from django.contrib.auth.models import UserManager
from django.db.models import Q, QuerySet
from guardian.managers import UserObjectPermissionManager


def active_principal_condition(path: str = "") -> Q:
    """Return the condition that a user is an active principal. path: the query path to the user, such as `user__`."""
    return Q(**{f"{path}is_active": True, f"{path}is_principal": True})


def effective_grant_condition(principal_type: str) -> Q:
    """Return the condition that a grant is effective. principal_type: `user` or `group`."""
    return active_principal_condition("user__") if principal_type == "user" else Q(group__isnull=False)


def active_principal_sql(alias: str) -> str:
    """Return the SQL condition that a user is an active principal. alias: the alias of the user table."""
    return f"{alias}.is_active AND {alias}.is_principal"


def principal_sql(alias: str) -> str:
    """Return the SQL condition that a user is a principal, active or not. alias: the alias of the user table."""
    return f"{alias}.is_principal"


class UserQuerySet(QuerySet):
    """Users, with filters for active principals."""

    def principals(self):
        """Return the users that are principals, active or not."""
        return self.filter(is_principal=True)

    def active_principals(self):
        """Return the users that are known subjects in decisions."""
        return self.filter(active_principal_condition())


class ConsoleUserManager(UserManager.from_queryset(UserQuerySet)):
    """Django's manager of users with the methods of UserQuerySet."""

    use_in_migrations = False


class UserGrantQuerySet(QuerySet):
    """Direct grants, with filters for effective grants. Grants to groups are always effective."""

    def of_principals(self):
        """Return the direct grants of users that are principals, active or not."""
        return self.filter(user__is_principal=True)

    def effective(self):
        """Return the direct grants of active principals, which are the grants that count in decisions."""
        return self.filter(effective_grant_condition("user"))


class UserGrantManager(UserObjectPermissionManager.from_queryset(UserGrantQuerySet)):
    """Guardian's manager of grants with the methods of UserGrantQuerySet."""


def memberships() -> QuerySet:
    """Return all memberships: rows with `user_id` and `group_id`."""
    return get_user_model().groups.through.objects.all()


def memberships_of_principals() -> QuerySet:
    """Return the memberships of users that are principals, active or not."""
    return memberships().filter(user__is_principal=True)


def effective_memberships() -> QuerySet:
    """Return the memberships of active principals, through which the grants of a group are effective."""
    return memberships().filter(active_principal_condition("user__"))
