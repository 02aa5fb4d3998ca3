"""Define the conditions under which users, memberships and grants count in a decision.

A principal is a user with `is_principal`, or a group. An active principal is a principal that is not
deactivated; groups are always active. Only active principals are known subjects, and only their grants are
effective, in the period of their validity
(`grants.validity`).
"""

from datetime import datetime

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractUser, Group, UserManager
from django.db.models import Q, QuerySet
from guardian.managers import UserObjectPermissionManager

from grants.validity import in_force, in_force_condition


def active_principal_condition(path: str = "") -> Q:
    """Return the condition that a user is an active principal. path: the query path to the user, such as
    `user__`.
    """
    return Q(**{f"{path}is_active": True, f"{path}is_principal": True})


def effective_grant_condition(principal_type: str) -> Q:
    """Return the condition that a grant is effective. principal_type: `user` or `group`."""
    is_in_force = in_force_condition()
    return is_in_force & active_principal_condition("user__") if principal_type == "user" else is_in_force


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
    """Direct grants, with filters for effective grants."""

    def of_principals(self):
        """Return the direct grants of users that are principals, active or not."""
        return self.filter(user__is_principal=True)

    def effective(self):
        """Return the direct grants of active principals that are in force, which are those that count in
        decisions.
        """
        return self.filter(effective_grant_condition("user"))


class UserGrantManager(UserObjectPermissionManager.from_queryset(UserGrantQuerySet)):
    """Guardian's manager of grants with the methods of UserGrantQuerySet."""


def memberships() -> QuerySet:
    """Return all stored memberships: rows with `user_id`, `group_id` and their validity."""
    return get_user_model().groups.through.objects.all()


def memberships_of_principals() -> QuerySet:
    """Return the memberships of users that are principals, active or not."""
    return memberships().filter(user__is_principal=True)


def memberships_in_force(at: datetime | None = None) -> QuerySet:
    """Return the memberships that count, of active and inactive users. at: by default the time of the
    question.
    """
    return memberships().filter(**in_force(at=at))


def groups_of(user: AbstractUser) -> QuerySet[Group]:
    """Return the groups through which a user has grants at the time of the question, by name."""
    return Group.objects.filter(memberships__user=user, **in_force("memberships__")).order_by("name")


def effective_memberships() -> QuerySet:
    """Return the memberships of active principals that are in force, through which the grants of a group are
    effective.
    """
    return memberships_in_force().filter(active_principal_condition("user__"))
