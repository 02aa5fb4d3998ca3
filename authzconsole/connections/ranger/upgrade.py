"""Find the answers that a later version of Ranger gives differently with the same policies."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

from authzconsole.connections.ranger.evaluation import Enforcer, Subject
from authzconsole.connections.ranger.matching import (
    KINDS_IN_RANGER,
    RANGER_0_7,
    RANGER_2,
    Match,
    PolicyIndex,
    match,
    names_of,
)
from authzconsole.connections.ranger.policies import (
    CURRENT_USER,
    OWNER,
    PUBLIC_GROUP,
    Note,
    Policy,
    PolicyFile,
)
from entities.address import Address, AddressError, address_of, ancestor_kinds, instance_address
from entities.vocabulary import Privilege, clip


class Answer(NamedTuple):
    """An answer that differs. privilege: empty for visibility."""

    user: str
    entity: str
    privilege: str


def named_groups(file: PolicyFile) -> set[str]:
    """Return the groups that the policies name, without that of everybody."""
    return {group for policy in file.policies for item in policy.items for group in item.groups} - {
        PUBLIC_GROUP
    }


def names_everybody(policy: Policy) -> bool:
    """Return whether the policy is about every user."""
    return policy.denies_all_else or any(
        PUBLIC_GROUP in item.groups or CURRENT_USER in item.users for item in policy.items
    )


def changed_answers(
    file: PolicyFile,
    *,
    entities: Iterable[Address],
    members: Mapping[str, Collection[str]],
    users: Collection[str],
    at: datetime,
) -> tuple[list[Answer], list[Note]]:
    """Return the answers that Ranger 2 gives differently from 0.7, sorted, and what could not be answered.

    The users are those that the policies name and the members of the groups that they name; the entities are
    `entities` and those that the policies name without wildcards, with their containers. members: users by
    group. users: everybody, for the policies that are about everybody.
    """
    notes: list[Note] = []
    addresses = {address for address in entities if address.kind in KINDS_IN_RANGER} | {instance_address()}
    for policy in file.policies:
        addresses.update(_named_entities(policy, notes))
    groups_of: dict[str, set[str]] = {user: set() for user in users}
    for policy in file.policies:
        groups_of |= {user: set() for user in _named_users(policy) - groups_of.keys()}
    for group, names in members.items():
        for name in names:
            groups_of.setdefault(name, set()).add(group)
    subjects = {user: Subject(user, frozenset(groups)) for user, groups in groups_of.items()}
    old, new = Enforcer(file, RANGER_0_7, at), Enforcer(file, RANGER_2, at)
    sensitive = PolicyIndex(filter(_is_sensitive, file.policies))
    answers: list[Answer] = []
    with_entities: set[Policy] = set()
    for address in addresses:
        names = names_of(address)
        changed = [
            p for p in sensitive.candidates(address) if match(p.levels, names, RANGER_0_7) is not Match.NONE
        ]
        if not changed:
            continue
        before, after = old.matches(address), new.matches(address)
        with_entities.update(policy for policy, how in before if how in RANGER_0_7.held)
        for user in set[str]().union(*(_users_of(policy, members, subjects) for policy in changed)):
            answers += _differences(subjects[user], address, (old, before), (new, after))
    for policy in filter(_is_sensitive, file.policies):
        notes += _open_questions(policy, members, users, policy in with_entities)
    return sorted(answers), notes


def _is_sensitive(policy: Policy) -> bool:
    """Return whether the versions can treat the policy differently: an excluded `*` where an entity has no
    name, the content of its last level, or what 0.7 ignores.
    """
    has_content = any(policy.kind in ancestor_kinds(kind) for kind in KINDS_IN_RANGER)
    has_excluded_any = any(level.is_any and level.is_excluded for level in policy.levels)
    return has_content or has_excluded_any or bool(policy.features)


def _differences(
    subject: Subject,
    address: Address,
    old: tuple[Enforcer, list[tuple[Policy, Match]]],
    new: tuple[Enforcer, list[tuple[Policy, Match]]],
) -> Iterator[Answer]:
    for privilege in Privilege:
        before, after = (enforcer.is_held(matches, subject, privilege) for enforcer, matches in (old, new))
        if before != after:
            yield Answer(subject.user, str(address), privilege)
    before, after = (enforcer.is_shown(matches, subject) for enforcer, matches in (old, new))
    if before != after:
        yield Answer(subject.user, str(address), "")


def _named_users(policy: Policy) -> set[str]:
    return {user for item in policy.items for user in item.users} - {CURRENT_USER, OWNER}


def _users_of(
    policy: Policy, members: Mapping[str, Collection[str]], subjects: Mapping[str, Subject]
) -> set[str]:
    if names_everybody(policy):
        return set(subjects)
    groups = (members.get(group, ()) for item in policy.items for group in item.groups)
    return _named_users(policy).union(*groups)


def _named_entities(policy: Policy, notes: list[Note]) -> Iterator[Address]:
    """Yield the entities that a policy names without wildcards, down to its first level with a wildcard."""
    instance = instance_address()
    if not policy.levels[0].has_name(instance.name):
        names = ", ".join(policy.levels[0].values)
        reason = (
            f"the policy is about the instance `{clip(names)}`; this console administers `{instance.name}`"
        )
        notes.append(Note(policy.name, policy.id, reason))
        return
    containers = [instance]
    for level in policy.levels[1:]:
        named = []
        for container in containers:
            for name in level.literal_names:
                key = f"{container.key}.{name}" if len(ancestor_kinds(level.kind)) > 1 else name
                try:
                    named.append(address_of(level.kind, key))
                except AddressError as error:
                    notes.append(
                        Note(
                            policy.name,
                            policy.id,
                            f"the policy names `{clip(key)}`, which no entity can have: {error}",
                        )
                    )
        yield from named
        containers = named


def _open_questions(
    policy: Policy, members: Mapping[str, Collection[str]], users: Collection[str], is_matched: bool
) -> Iterator[Note]:
    """Yield what is not known about the answers of a sensitive policy."""
    reasons = [
        f"the console knows no members of the group `{clip(group)}`, so their answers are not listed"
        for group in sorted({group for item in policy.items for group in item.groups} - {PUBLIC_GROUP})
        if not members.get(group)
    ]
    reasons += [
        f"the console does not know who has the role `{clip(role)}`, so their answers are not listed"
        for role in sorted({role for item in policy.items for role in item.roles})
    ]
    if names_everybody(policy) and not users:
        reasons.append(
            "the policy is about everybody, and the console has no users; only those of the file are listed"
        )
    if not is_matched:
        reasons.append(
            "the policy applies to no entity that the console or the policies name, so its answers are not listed"
        )
    yield from (Note(policy.name, policy.id, reason) for reason in reasons)
