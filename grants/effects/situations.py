"""Number the users that changes affect, and describe the data before and after the changes."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from django.contrib.auth.models import Group

from entities.address import Address
from entities.frozen import frozen
from entities.models import State
from entities.vocabulary import Privilege
from grants.change_set import (
    Activate,
    ActivateGeneration,
    AddGroup,
    AddUser,
    Deactivate,
    Exclude,
    Grant,
    Include,
    Join,
    Leave,
    MakePrincipal,
    Rename,
    Revoke,
)
from grants.effects.changes import EffectChange, StateChange
from grants.models import USER, RoleGroup, User
from grants.principal_names import parse_principal
from grants.querysets import memberships, memberships_in_force
from grants.validity import in_force

# type (`user` or `group`) and primary key
Principal = tuple[str, int]
# a held privilege: principal, address and privilege
Held = tuple[Principal, Address, Privilege]


@dataclass(slots=True)
class Situation:
    """The data before the changes, after them, or after some of them.

    known: the mask of the known subjects. bits: for each principal, the mask of the users that its grants
    apply to. Only grants and memberships in force count.
    added, removed: the grants that differ from the stored ones. states: the states that differ from the
    stored ones.
    """

    known: int
    bits: dict[Principal, int]
    added: frozenset[Held] = frozenset()
    removed: frozenset[Held] = frozenset()
    states: dict[Address, State] = field(default_factory=dict)


@frozen
class AffectedUsers:
    """The users that changes can affect: user number i has bit i.

    names: sorted. A renamed user has two bits: the old name before the changes, the new one after them. before: without the changes. after: with all changes.
    personal: with the changes of memberships and activations only; None if there are none.
    changed: the users that are activated, deactivated or become principals, their groups, and the groups with
    changed members.
    is_known_changed: whether a user becomes a known subject, or stops being one. has_all: whether these are
    all principals.
    """

    names: tuple[str, ...]
    before: Situation
    after: Situation
    personal: Situation | None
    changed: frozenset[Principal]
    is_known_changed: bool
    has_all: bool = False

    @property
    def situations(self) -> list[Situation]:
        return [self.before, self.after, *([self.personal] if self.personal else [])]

    @property
    def everyone(self) -> int:
        return (1 << len(self.names)) - 1

    def ids(self, principal_type: str) -> list[int]:
        """Return the primary keys of the users, or of the groups that have one of them as a member."""
        return [pk for type_, pk in self.after.bits if type_ == principal_type]


def affected_users(changes: Sequence[EffectChange]) -> AffectedUsers:
    """Return the users that the changes can affect. Unknown principals are ignored. Runs four queries."""
    users, groups, has_all = _load_users(changes)
    user_ids = {user.username: user.pk for user in users}
    new_names = {
        change.new_name: pk
        for change in changes
        if isinstance(change, Rename) and (pk := user_ids.get(parse_principal(change.principal)[1]))
    }
    names = tuple(sorted([*user_ids, *new_names]))
    number = {name: 1 << position for position, name in enumerate(names)}
    bit = {pk: number[name] for name, pk in user_ids.items()}
    bit_after = bit | {pk: number[name] for name, pk in new_names.items()}
    rows = memberships().filter(**in_force())
    rows = rows if has_all else rows.filter(user__pk__among=list(bit))
    members = {pair for pair in rows.values_list("user_id", "group_id") if pair[0] in bit}
    role_groups = set(RoleGroup.objects.filter(**in_force()).values_list("group_id", "role_id"))
    members_after, role_groups_after = set(members), set(role_groups)
    for change in changes:
        if isinstance(change, Join | Leave) and change.user in user_ids and change.group in groups:
            pair = user_ids[change.user], groups[change.group]
            (members_after.add if isinstance(change, Join) else members_after.discard)(pair)
        elif isinstance(change, Include | Exclude) and change.group in groups and change.role in groups:
            pair = groups[change.group], groups[change.role]
            (role_groups_after.add if isinstance(change, Include) else role_groups_after.discard)(pair)
    pairs, pairs_after = _with_roles(members, role_groups), _with_roles(members_after, role_groups_after)
    active = {user.pk: user.is_active for user in users}
    active_after = active | {
        user_ids[change.user]: isinstance(change, Activate)
        for change in changes
        if isinstance(change, Activate | Deactivate) and change.user in user_ids
    }
    principals = {user.pk for user in users if user.is_principal}
    joined = {user for user, _ in members_after - members}
    joined |= {
        user_ids[change.user]
        for change in changes
        if isinstance(change, MakePrincipal | AddUser) and change.user in user_ids
    }
    held, removed = _changed_grants(changes, user_ids, groups)
    granted = {pk for (type_, pk), _, _ in held if type_ == USER.name}
    all_groups = set(groups.values()) | {group for _, group in pairs | pairs_after}
    before = Situation(_active_mask(bit, active, principals), _bits(bit, pairs, all_groups))
    personal = Situation(
        _active_mask(bit_after, active_after, principals | joined), _bits(bit_after, pairs_after, all_groups)
    )
    states = {change.address: change.state for change in changes if isinstance(change, StateChange)}
    after = Situation(
        _active_mask(bit_after, active_after, principals | joined | granted),
        personal.bits,
        held,
        removed,
        states,
    )
    changed_users = {
        pk for pk in bit if active[pk] != active_after[pk] or (before.known ^ after.known) & bit[pk]
    }
    changed = {("user", pk) for pk in changed_users} | {
        ("group", group) for pk, group in pairs | pairs_after if pk in changed_users
    }
    changed |= {("group", group) for _, group in pairs ^ pairs_after}
    has_personal = pairs != pairs_after or active != active_after or before.known != personal.known
    return AffectedUsers(
        names,
        before,
        after,
        personal if has_personal else None,
        frozenset(changed),
        is_known_changed=before.known != after.known,
        has_all=has_all,
    )


def _with_roles(members: set[tuple[int, int]], role_groups: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """Return the pairs of user and group with those of user and role for each group in a role."""
    roles = defaultdict(list)
    for group, role in role_groups:
        roles[group].append(role)
    if not roles:
        return members
    return members | {(user, role) for user, group in members for role in roles.get(group, ())}


class _UserRow(NamedTuple):
    pk: int
    username: str
    is_active: bool
    is_principal: bool


def _load_users(changes: Sequence[EffectChange]) -> tuple[list[_UserRow], dict[str, int], bool]:
    """Return the affected users by name, the primary keys of the named groups by name, and whether the users
    are all principals.
    """
    users: set[str] = set()
    group_names: set[str] = set()
    granted_groups: set[str] = set()
    added_users: list[str] = []
    added_groups: list[str] = []
    is_for_all = False
    for change in changes:
        match change:
            case Grant(principal) | Revoke(principal):
                principal_type, name = parse_principal(principal)
                (users if principal_type == USER.name else granted_groups).add(name)
            case AddUser(user):
                added_users.append(user)
                users.add(user)
            case AddGroup(group):
                added_groups.append(group)
            case Join(user, group) | Leave(user, group):
                users.add(user)
                group_names.add(group)
            case Include(group, role) | Exclude(group, role):
                granted_groups.add(group)
                group_names.add(role)
            case Activate(user) | Deactivate(user) | MakePrincipal(user):
                users.add(user)
            case Rename(principal):
                users.add(parse_principal(principal)[1])
            case StateChange() | ActivateGeneration():
                is_for_all = True
    # negative numbers stand for the keys of users and groups that are not stored yet
    groups = {name: -number for number, name in enumerate(added_groups, start=1)} | dict(
        Group.objects.filter(name__among=list(group_names | granted_groups)).values_list("name", "pk")
    )
    granted_ids = [groups[name] for name in granted_groups if name in groups]
    members = memberships_in_force().filter(group__pk__among=granted_ids).values("user_id")
    rows = User.objects.order_by()
    if is_for_all:
        rows = rows.principals() | rows.filter(username__among=list(users)) if users else rows.principals()
    else:
        named = rows.filter(username__among=list(users)) if users else rows.none()
        rows = named | rows.filter(pk__in=members) if granted_ids else named
    stored = {user.username: user for user in map(_UserRow._make, rows.values_list(*_UserRow._fields))}
    added = {name: _UserRow(-number, name, True, False) for number, name in enumerate(added_users, start=1)}
    return [user for _, user in sorted((added | stored).items())], groups, is_for_all


def _changed_grants(
    changes: Iterable[EffectChange], users: dict[str, int], groups: dict[str, int]
) -> tuple[frozenset[Held], frozenset[Held]]:
    """Return the granted and the revoked grants of known principals."""
    granted, revoked = set(), set()
    for change in changes:
        if isinstance(change, Grant | Revoke):
            principal_type, name = parse_principal(change.principal)
            pk = (users if principal_type == USER.name else groups).get(name)
            if pk is not None:
                (granted if isinstance(change, Grant) else revoked).add(
                    ((principal_type, pk), change.address, change.privilege)
                )
    return frozenset(granted), frozenset(revoked)


def _active_mask(bits: dict[int, int], active: dict[int, bool], principals: set[int]) -> int:
    return sum(bit for pk, bit in bits.items() if active[pk] and pk in principals)


def _bits(
    bits: dict[int, int], pairs: Iterable[tuple[int, int]], groups: Iterable[int]
) -> dict[Principal, int]:
    """Return for each user and group the mask of the users that its grants apply to."""
    result = {("user", pk): bit for pk, bit in bits.items()} | {("group", group): 0 for group in groups}
    for user, group in pairs:
        result["group", group] |= bits[user]
    return result
