"""The groups in roles: the memberships of users in roles that follow from them.

A member of a group that is in a role is a member of the role, while both periods last. `write_role_memberships`
stores these memberships.
"""

from collections.abc import Collection, Iterable, Iterator

from grants.bulk_rows import database_time, insert_rows
from grants.models import RoleGroup, RoleMembership
from grants.querysets import memberships
from grants.validity import VALIDITY_COLUMNS, Validity

_ROLE_PERIOD = tuple(f"group__roles__{column}" for column in VALIDITY_COLUMNS)


def write_role_memberships(groups: Collection[int], users: Collection[int] | None = None) -> None:
    """Write again the memberships in roles that follow from memberships in these groups, by primary key.

    Call it after every change of memberships of users or groups. users: only theirs. Runs one query if no group is in a
    role, and otherwise a few more, and one statement for every `ROWS_PER_STATEMENT` memberships.
    """
    role_groups = list(RoleGroup.objects.filter(group__pk__among=list(groups)).values_list("pk", flat=True))
    if not role_groups:
        return
    of_users = {} if users is None else {"user__pk__among": list(users)}
    RoleMembership.objects.filter(via__in=role_groups, **of_users).delete()
    rows = memberships().filter(group__roles__in=role_groups, **of_users).order_by()
    columns = ("user_id", "group__roles__role_id", "group__roles__pk", *VALIDITY_COLUMNS, *_ROLE_PERIOD)
    insert_rows(
        RoleMembership,
        ["user_id", "role_id", "via_id", *VALIDITY_COLUMNS],
        [
            (*key, *map(database_time, period))
            for *key, period in _with_common_period(rows.values_list(*columns))
        ],
    )


def _with_common_period(rows: Iterable[tuple]) -> Iterator[tuple]:
    """Yield the rows that have a time in both of their periods, with the common period in place of these."""
    for *key, begins, ends, role_begins, role_ends in rows:
        period = Validity(begins, ends).within(Validity(role_begins, role_ends))
        if period is not None:
            yield *key, period


def role_membership_fault() -> str:
    """Return how the stored memberships in roles differ from those that follow; empty if they do not.

    Reads the memberships of all groups in roles.
    """
    columns = ("user__username", "group__roles__pk", *VALIDITY_COLUMNS, *_ROLE_PERIOD)
    rows = memberships().filter(group__roles__isnull=False).order_by().values_list(*columns)
    expected = set(_with_common_period(rows.iterator()))
    stored = RoleMembership.objects.order_by().values_list("user__username", "via", *VALIDITY_COLUMNS)
    found = {(user, via, Validity(*period)) for user, via, *period in stored.iterator()}
    if found == expected:
        return ""
    user, via, _ = min(found ^ expected, key=str)
    role_group = RoleGroup.objects.select_related("role", "group").get(pk=via)
    return f"the membership of user:{user} in {role_group.role.name} through {role_group.group.name} is not that of the group"
