"""Read which users of the directory are members of the mapped groups."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from authzconsole.directory.connection import (
    DirectoryError,
    attribute_values,
    directory_connection,
    dn_key,
    paged_entries,
    subject_text,
)
from authzconsole.settings.user_directory import LdapOptions


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
