"""Define the conditions under which users, memberships and grants count in a decision.

A principal is a user with `is_principal`, or a group. An active principal is a principal that is not
deactivated; groups are always active. Only active principals are known subjects, and only their grants are
effective, in the period of their validity
(`grants.validity`).
"""

from collections.abc import Sequence
from datetime import datetime

from django.apps import apps
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractUser, Group, UserManager
from django.db.models import Case, CharField, F, OuterRef, Q, QuerySet, Value, When
from django.db.models.expressions import Combinable
from django.db.models.functions import Concat
from django.db.models.lookups import StartsWith

from entities.address import Address
from entities.vocabulary import INNER_CONTAINER_KINDS
from grants.policies.principals import ROLE_PREFIX
from grants.validity import in_force

# the columns that are true for an active principal
ACTIVE_PRINCIPAL = ("is_active", "is_principal")


def active_principal_condition(path: str = "") -> Q:
    """Return the condition that a user is an active principal. path: the query path to the user, such as
    `user__`.
    """
    return Q(**{f"{path}{column}": True for column in ACTIVE_PRINCIPAL})


def principal_condition(path: str = "") -> Q:
    """Return the condition that a user is a principal, active or not. path: the query path to the user."""
    return Q(**{f"{path}is_principal": True})


def active_principal_sql(alias: str) -> str:
    """Return the SQL condition that a user is an active principal. alias: the alias of the user table."""
    return " AND ".join(f"{alias}.{column}" for column in ACTIVE_PRINCIPAL)


class UserQuerySet(QuerySet):
    """Users, with filters for active principals."""

    def principals(self):
        """Return the users that are principals, active or not."""
        return self.filter(principal_condition())

    def active_principals(self):
        """Return the users that are known subjects in decisions."""
        return self.filter(active_principal_condition())


class ConsoleUserManager(UserManager.from_queryset(UserQuerySet)):
    """Django's manager of users with the methods of UserQuerySet."""

    use_in_migrations = False


def principal_expression(principal_type: str, name: str | OuterRef) -> Combinable:
    """Return the written form of principals of one type (`grants.policies.principals.principal_text`).

    name: the path to the stored name, or a reference to it.
    """
    column = F(name) if isinstance(name, str) else name
    written = Concat(Value(f"{principal_type}:"), column, output_field=CharField())
    if principal_type != "group":
        return written
    return Case(When(StartsWith(column, Value(ROLE_PREFIX)), then=column), default=written)


def on_and_inside(address: Address) -> dict[str, str]:
    """Return the condition on grants on an address and inside it. A namespace and an application contain themselves; the
    instance contains everything.
    """
    if address.kind == "instance":
        return {}
    column = address.kind if address.kind in INNER_CONTAINER_KINDS else "content_object"
    return {f"{column}__kind": address.kind, f"{column}__key": address.key}


def memberships() -> QuerySet:
    """Return all stored memberships: rows with `user_id`, `group_id` and their validity."""
    return get_user_model().groups.through.objects.all()


def memberships_of_principals() -> QuerySet:
    """Return the memberships of users that are principals, active or not."""
    return memberships().filter(principal_condition("user__"))


def belongings() -> QuerySet:
    """Return through which groups and roles the grants of others count for users, at any time: the memberships in
    groups, and those in roles, also through a group. A pair of user and group can be repeated.
    """
    return apps.get_model("grants", "Belonging").objects.all()


def memberships_in_force(at: datetime | None = None) -> QuerySet:
    """Return the belongings that count, of active and inactive users. at: by default the time of the question."""
    return belongings().filter(**in_force(at=at))


def groups_of(user: AbstractUser) -> QuerySet[Group]:
    """Return the groups through which a user has grants at the time of the question, by name."""
    ids = memberships_in_force().filter(user=user).values("group")
    return Group.objects.filter(pk__in=ids).order_by("name")


def effective_memberships() -> QuerySet:
    """Return the belongings of active principals that are in force, through which the grants of a group are
    effective.
    """
    return memberships_in_force().filter(active_principal_condition("user__"))


def union_all(queries: Sequence[QuerySet]) -> QuerySet:
    """Return the rows of all queries, with repetitions."""
    return queries[0].union(*queries[1:], all=True) if len(queries) > 1 else queries[0]
