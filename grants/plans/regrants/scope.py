"""Read the scope of regrants from names: for which users, and in which namespace, permissions are kept."""

from django.contrib.auth.models import Group

from grants.errors import PlanError
from grants.models import User
from grants.plans.regrants.compute import RegrantScope


def regrant_scope(user: str = "", group: str = "", namespace: str = "") -> RegrantScope:
    """Return the scope of one user, of the members of one group, and of one namespace. Empty names do not
    limit it.

    Raise PlanError if the user or the group does not exist.
    """
    if user and not User.objects.filter(username=user).exists():
        raise PlanError(f"user:{user} does not exist: add it first, or correct the name")
    if not group:
        return RegrantScope(frozenset({user}) if user else None, namespace)
    row = Group.objects.filter(name=group).first()
    if row is None:
        raise PlanError(f"group:{group} does not exist: add it first, or correct the name")
    members = frozenset(row.user_set.values_list("username", flat=True))
    return RegrantScope(members & {user} if user else members, namespace)
