"""Read which users of the directory are members of the mapped groups. Bring the memberships of these groups, and the
roles and the activity of directory accounts, in line with the directory.

INVARIANT: nothing is changed before the whole directory was read and the plan was checked (`check_plan`).
INVARIANT: service accounts keep their memberships. Accounts that are not linked to the directory keep their
roles and stay active.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import Group

from authzconsole.directory.connection import (
    DirectoryError,
    attribute_values,
    directory_connection,
    dn_key,
    paged_entries,
    subject_text,
)
from authzconsole.settings.sign_in import ROLES
from authzconsole.settings.user_directory import LDAP_PROVIDER, LdapOptions
from entities.frozen import frozen
from entities.text import is_storable
from grants.change_set import Deactivate
from grants.changes import ChangeSet, apply, changed_members
from grants.errors import PrincipalError
from grants.journal import Author
from grants.models import Role, User
from grants.policies.principals import group_text
from grants.principals.services import set_user_role
from grants.querysets import memberships
from grants.validity import in_force_condition


@dataclass(slots=True)
class DirectoryMembers:
    """The names of the users in each mapped group of the directory, by the DN in LDAP_GROUPS or LDAP_ROLES.

    user_count: number of users that the directory returned. Names need about 100 bytes each.
    subjects: the keys (`subject_key`) of the identifiers of all users; empty without LDAP_DEACTIVATE_MISSING.
    """

    names: dict[str, list[str]] = field(default_factory=dict)
    user_count: int = 0
    subjects: set[bytes] = field(default_factory=set)


def read_members(options: LdapOptions) -> DirectoryMembers:
    """Return the members of all mapped groups. Raise DirectoryError if the result would be incomplete.

    Reads each mapped group once, then all users page by page. Needs about 30 MB for 100,000 members.
    """
    mapped = list({**options.provider.groups, **options.provider.roles})
    members = DirectoryMembers({dn: [] for dn in mapped})
    with directory_connection(options) as connection:
        nested_groups = _groups_by_key(connection, options) if options.nested_groups else {}
        # by the key of a member: one bit for each mapped group
        groups_of: dict[bytes, int] = {}
        for number, dn in enumerate(mapped):
            for key in _member_keys(connection, options, dn, nested_groups):
                groups_of[key] = groups_of.get(key, 0) | 1 << number
        for dn, name, identifier in _users(connection, options):
            members.user_count += 1
            if identifier:
                members.subjects.add(subject_key(subject_text(identifier)))
            bits = groups_of.get(dn_key(dn) if options.has_dn_members else _name_key(name.encode()), 0)
            while bits:
                number = (bits & -bits).bit_length() - 1
                members.names[mapped[number]].append(name)
                bits &= bits - 1
    return members


def _member_keys(
    connection, options: LdapOptions, dn: str, nested_groups: dict[bytes, str]
) -> Iterator[bytes]:
    """Yield the keys of the users in a group, and in the groups that are its members.

    Cycles of groups are ignored.
    """
    waiting, visited = [dn], {dn_key(dn)}
    while waiting:
        for value in attribute_values(connection, waiting.pop(), options.group_member_attribute):
            key = dn_key(value.decode()) if options.has_dn_members else _name_key(value)
            if key not in nested_groups:
                yield key
            elif key not in visited:
                visited.add(key)
                waiting.append(nested_groups[key])


def _groups_by_key(connection, options: LdapOptions) -> dict[bytes, str]:
    pages = paged_entries(connection, options.group_search_base, options.group_search_filter, ["1.1"])
    return {dn_key(dn): dn for page in pages for dn, _ in page}


def _users(connection, options: LdapOptions) -> Iterator[tuple[str, str, bytes]]:
    """Yield DN, name and identifier of every user of the directory.

    The identifier is empty without LDAP_DEACTIVATE_MISSING.
    """
    search_filter = options.user_search_filter % {"user": "*"}
    requested = [options.name_attribute, *([options.id_attribute] if options.deactivate_missing else [])]
    for page in paged_entries(connection, options.user_search_base, search_filter, requested):
        for dn, attributes in page:
            if name := _first_value(attributes, options.name_attribute):
                identifier = (
                    _first_value(attributes, options.id_attribute) if options.deactivate_missing else b""
                )
                yield dn, name.decode(errors="replace"), identifier


def _first_value(attributes: dict[str, list[bytes]], attribute: str) -> bytes:
    return next(
        (values[0] for name, values in attributes.items() if name.lower() == attribute.lower() and values),
        b"",
    )


def subject_key(subject: str) -> bytes:
    """Return a short key of the identifier of a user, so that 100,000 of them need little memory."""
    return hashlib.blake2b(subject.encode(), digest_size=16).digest()


def _name_key(name: bytes) -> bytes:
    return name.decode(errors="replace").lower().encode()


def check_complete(members: DirectoryMembers) -> None:
    """Raise DirectoryError if the directory returned no user at all, because all users would lose access."""
    if not members.user_count:
        raise DirectoryError(
            "the directory returned no users: check LDAP_USER_SEARCH_BASE, LDAP_USER_SEARCH_FILTER and the "
            "rights of LDAP_BIND_DN"
        )


NAMES_PER_STATEMENT = 10_000
MEMBERS_PER_CHANGE = 5_000
# so few removals are always allowed
MIN_REMOVALS_TO_REFUSE = 10


class SyncRefused(Exception):
    """The plan would remove too much. The message is a sentence; nothing was changed."""


@frozen
class GroupPlan:
    """The changes of one group, as primary keys of users. unknown_count: members without a user in the
    console.
    """

    group: str
    member_count: int
    directory_count: int
    unknown_count: int
    added: list[int]
    removed: list[int]


@frozen
class SyncPlan:
    """All changes. roles: (name, current role, new role) of each account with a new role."""

    groups: list[GroupPlan]
    roles: list[tuple[str, str, str]]
    # names of roles that no user of the directory has
    empty_roles: set[str] = field(default_factory=set)
    # the active accounts without an entry in the directory, by name, and the number of active accounts that
    # are linked to it
    missing: list[str] = field(default_factory=list)
    linked_count: int = 0


def plan_sync(options: LdapOptions, members: DirectoryMembers) -> SyncPlan:
    """Compare the directory with the console. Raise SyncRefused if a mapped group does not exist in the
    console.

    Runs one statement for each NAMES_PER_STATEMENT names, and two for each mapped group.
    """
    mapping = options.provider.groups
    groups = dict(Group.objects.filter(name__in=set(mapping.values())).values_list("name", "pk"))
    if missing := sorted(set(mapping.values()) - groups.keys()):
        raise SyncRefused(
            f"LDAP_GROUPS names the group `{missing[0]}`, which does not exist in this console: add it first"
        )
    plans = []
    for name in sorted(groups):
        wanted_names = {user for dn, group in mapping.items() if group == name for user in members.names[dn]}
        wanted = set(_user_ids(wanted_names))
        # a membership that is not in force is added again, without limits
        members_now = memberships().filter(
            in_force_condition(), group_id=groups[name], user__is_service=False
        )
        present = set(members_now.values_list("user_id", flat=True))
        plans.append(
            GroupPlan(
                name,
                len(present),
                len(wanted_names),
                len(wanted_names) - len(wanted),
                sorted(wanted - present),
                sorted(present - wanted),
            )
        )
    return SyncPlan(plans, *_role_changes(options, members), *_missing_accounts(options, members))


def check_plan(plan: SyncPlan, *, max_removed_percent: int, max_deactivated_percent: int) -> None:
    """Raise SyncRefused if the plan empties a group or a role, or exceeds these shares of all memberships or
    linked accounts.
    """
    for group in plan.groups:
        if group.removed and not group.directory_count:
            raise SyncRefused(
                f"{group_text(group.group)} has no members in the directory, but {group.member_count:,} in the console: "
                f"a synchronization never removes all members of a group"
            )
    for name, present, _ in plan.roles:
        if present in plan.empty_roles:
            raise SyncRefused(
                f"no user of the directory has the role {present}, but the account `{name}` has it: a "
                f"synchronization never removes a role from all accounts"
            )
    removed, present_count = (
        sum(len(group.removed) for group in plan.groups),
        sum(group.member_count for group in plan.groups),
    )
    if removed > MIN_REMOVALS_TO_REFUSE and removed * 100 > max_removed_percent * present_count:
        raise SyncRefused(
            f"{removed:,} of {present_count:,} memberships would be removed, more than {max_removed_percent} %: if "
            f"this is intended, repeat the command with --max-removed-percent"
        )
    deactivated = len(plan.missing)
    is_many = deactivated > MIN_REMOVALS_TO_REFUSE or deactivated == plan.linked_count
    if deactivated and is_many and deactivated * 100 > max_deactivated_percent * plan.linked_count:
        raise SyncRefused(
            f"{deactivated:,} of {plan.linked_count:,} accounts of the directory would be deactivated, more than "
            f"{max_deactivated_percent} %: if this is intended, repeat the command with --max-deactivated-percent"
        )


def apply_plan(plan: SyncPlan, *, author: Author) -> list[str]:
    """Apply the changes, MEMBERS_PER_CHANGE memberships in each transaction.

    Return sentences about refused changes.
    """
    for group in plan.groups:
        for removed in _chunks(group.removed, MEMBERS_PER_CHANGE):
            apply(changed_members(group.group, removed=removed), author=author)
        for added in _chunks(group.added, MEMBERS_PER_CHANGE):
            apply(changed_members(group.group, added=added), author=author)
    refused = []
    # more rights first, so that the last administrator is not kept needlessly
    for name, _, role in sorted(plan.roles, key=lambda change: -ROLES.index(change[2])):
        try:
            set_user_role(author=author, name=name, role=role)
        except PrincipalError as error:
            refused.append(str(error))
    for name in plan.missing:
        try:
            apply(ChangeSet.of(Deactivate(name)), author=author)
        except PrincipalError as error:
            refused.append(str(error))
    return refused


def user_names(ids: Iterable[int]) -> Iterator[str]:
    """Yield the names of users, in chunks of NAMES_PER_STATEMENT."""
    for chunk in _chunks(ids, NAMES_PER_STATEMENT):
        yield from (
            User.objects.filter(pk__among=chunk).order_by("username").values_list("username", flat=True)
        )


def _user_ids(names: Iterable[str]) -> Iterator[int]:
    for chunk in _chunks(filter(is_storable, names), NAMES_PER_STATEMENT):
        yield from User.objects.filter(username__among=chunk, is_service=False).values_list("pk", flat=True)


def _role_changes(
    options: LdapOptions, members: DirectoryMembers
) -> tuple[list[tuple[str, str, str]], set[str]]:
    """Return the role changes of accounts that are linked to the directory, and the roles in the settings
    that no user gets.
    """
    if not options.provider.roles:
        return [], set()
    wanted: dict[str, str] = {}
    for dn, role in options.provider.roles.items():
        for name in members.names[dn]:
            wanted[name] = max(role, wanted.get(name, role), key=ROLES.index)
    linked = SocialAccount.objects.filter(provider=LDAP_PROVIDER, user__is_service=False)
    present = dict(linked.exclude(user__role=Role.ORDINARY).values_list("user__username", "user__role"))
    for chunk in _chunks(wanted, NAMES_PER_STATEMENT):
        present |= dict(
            linked.filter(user__username__among=chunk).values_list("user__username", "user__role")
        )
    changes = [(name, role, wanted.get(name, str(Role.ORDINARY))) for name, role in sorted(present.items())]
    empty_roles = set(options.provider.roles.values()) - set(wanted.values())
    return [change for change in changes if change[1] != change[2]], empty_roles


def _missing_accounts(options: LdapOptions, members: DirectoryMembers) -> tuple[list[str], int]:
    """Return the active linked accounts that the directory no longer has, and the number of active linked
    accounts.

    Runs one query, only with LDAP_DEACTIVATE_MISSING. An account that is linked to several entries needs one
    of them.
    """
    if not options.deactivate_missing:
        return [], 0
    links = SocialAccount.objects.filter(provider=LDAP_PROVIDER, user__is_active=True, user__is_service=False)
    is_present: dict[str, bool] = {}
    for name, subject in links.values_list("user__username", "uid").iterator(chunk_size=NAMES_PER_STATEMENT):
        is_present[name] = is_present.get(name, False) or subject_key(subject) in members.subjects
    return sorted(name for name, present in is_present.items() if not present), len(is_present)


def _chunks(items: Iterable, size: int) -> Iterator[list]:
    items = iter(items)
    while chunk := list(islice(items, size)):
        yield chunk


def print_plan(plan: SyncPlan, write: Callable[[str], object], *, max_names: int | None) -> None:
    """Write the plan as lines. max_names: the number of named users in each list; None for all."""
    for group in plan.groups:
        unknown = f", {group.unknown_count:,} of them unknown in this console" if group.unknown_count else ""
        write(
            f"{group_text(group.group)}: {group.member_count:,} members here, {group.directory_count:,} in the directory{unknown}; "
            f"{len(group.added):,} to add, {len(group.removed):,} to remove"
        )
        for sign, ids in (("+", group.added), ("-", group.removed)):
            for name in user_names(ids[:max_names]):
                write(f"  {sign} user:{name}")
            if max_names is not None and len(ids) > max_names:
                write(f"  {sign} {len(ids) - max_names:,} more (--verbosity 2 names all)")
    for name, present, role in plan.roles:
        write(f"user:{name}: role {role} instead of {present}")
    for name in plan.missing[:max_names]:
        write(f"user:{name}: deactivated, because the directory no longer has the user")
    if max_names is not None and len(plan.missing) > max_names:
        write(f"{len(plan.missing) - max_names:,} more users deactivated (--verbosity 2 names all)")
