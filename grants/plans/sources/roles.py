"""Create plans that replace direct grants by groups, as the analysis `role-mining` proposes. They change no answer, now
or later.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from django.contrib.auth.models import Group
from django.db.models import Count

from entities.address import Address
from entities.models import State
from entities.vocabulary import Privilege, clip, quantity
from grants.change_set import AddGroup, Change, Grant, Join, Revoke
from grants.errors import PlanError
from grants.models import UserGrant, privilege_of
from grants.plans.create import PlanDraft, PlanOrigin, plan_source
from grants.policies.principals import group_text
from grants.querysets import memberships, principal_condition
from grants.stored_changes import ENTITY_COLUMNS
from grants.validity import in_force

Permission = tuple[Address, Privilege]


class ProposedRole(NamedTuple):
    """A proposed group. number: in the report `run`. group, users: names."""

    number: int
    group: str
    users: frozenset[str]
    permissions: frozenset[Permission]


@plan_source(PlanOrigin.ROLE_MINING)
def role_plan(*, run: int, roles: Sequence[ProposedRole]) -> PlanDraft:
    """Return a plan that gives each role to a group, and revokes the direct grants that the groups give then.

    A group that exists is used if its members are exactly the users of the role; otherwise the plan is refused. A
    permission remains direct unless all users of the role hold it now and without an end. A role without any other
    permission is left out. Runs two queries for each role.
    Raise PlanError for a group that cannot be used, or if there is nothing to replace.
    """
    _check_names(roles)
    total = sum(len(role.permissions) for role in roles)
    kept = [
        role._replace(permissions=held)
        for role in roles
        if (held := role.permissions & _lasting_permissions(role.users))
    ]
    left_out = total - sum(len(role.permissions) for role in kept)
    note = (
        f"Direct grants of {quantity(left_out, 'permission', 'permissions')} of the roles remain: not all users of the role hold "
        "the permission now and without an end."
    )
    return PlanDraft(
        title=f"Replace direct grants by {quantity(len(kept), 'group', 'groups')}",
        changes=_changes(kept),
        recipe={"run": run, "roles": [role.number for role in kept]} | ({"note": note} if left_out else {}),
        empty_message="there is nothing to replace: no permission of these roles is held directly, now and without an end, by "
        "all users of the role",
    )


def _check_names(roles: Iterable[ProposedRole]) -> None:
    """Raise PlanError if two roles have the same group, or if a group that exists has other members."""
    numbers: dict[str, int] = {}
    for role in roles:
        other = numbers.setdefault(role.group, role.number)
        if other != role.number:
            raise PlanError(
                f"roles {other} and {role.number} have the same group {clip(role.group)}: rename one"
            )
    for role in roles:
        group = Group.objects.filter(name=role.group).first()
        if group is not None and not _has_exactly(group, role.users):
            raise PlanError(
                f"{group_text(clip(role.group))} exists, and its members are not exactly the users of role {role.number} without an "
                "end: choose another name"
            )


def _has_exactly(group: Group, users: frozenset[str]) -> bool:
    """Return whether these users are the only members of the group, now and without an end."""
    members = memberships().filter(group=group)
    lasting = members.filter(**in_force(), valid_until=None)
    return members.count() == len(users) and set(lasting.values_list("user__username", flat=True)) == users


def _lasting_permissions(users: frozenset[str]) -> set[Permission]:
    """Return the permissions on live entities that all of the users hold directly, now and without an end."""
    grants = UserGrant.objects.filter(
        # an account that is no principal would become one, and its other grants would count from then on
        principal_condition("user__"),
        **in_force(),
        user__username__among=list(users),
        valid_until=None,
        content_object__state=State.LIVE,
    )
    columns = (*ENTITY_COLUMNS, "permission_id")
    held = grants.order_by().values_list(*columns).annotate(holders=Count("pk")).filter(holders=len(users))
    return {(Address(kind, key), privilege_of(permission)) for kind, key, permission, _ in held}


def _changes(roles: Iterable[ProposedRole]) -> Iterator[Change]:
    """Yield the changes: a group before what names it, and each revocation once."""
    existing = set(
        Group.objects.filter(name__among=[role.group for role in roles]).values_list("name", flat=True)
    )
    revoked: set[Revoke] = set()
    for role in roles:
        permissions = sorted(role.permissions, key=lambda permission: (str(permission[0]), permission[1]))
        if role.group not in existing:
            yield AddGroup(role.group)
            yield from (Join(user, role.group) for user in sorted(role.users))
        for address, privilege in permissions:
            yield Grant(group_text(role.group), address, privilege)
        for user in sorted(role.users):
            for address, privilege in permissions:
                revocation = Revoke(f"user:{user}", address, privilege)
                if revocation not in revoked:
                    revoked.add(revocation)
                    yield revocation
