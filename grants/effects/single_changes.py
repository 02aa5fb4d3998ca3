"""Define the changes of forms and REST requests, divide them into the changes that can be evaluated, and
write them as text.

A deletion, for example, changes the states of all live entities inside, and in some generations revokes the
grants on them.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from django.conf import settings
from django.contrib.auth.models import Group

from entities.address import Address, AddressError, parse_address
from entities.models import State
from entities.selectors import entity_at
from entities.vocabulary import VocabularyError, privilege_by_name
from grants.active_generation import active_generation
from grants.effects.changes import (
    ActivationChange,
    EffectChange,
    GenerationChange,
    GrantChange,
    MembershipChange,
    PrincipalChange,
    StateChange,
    SubtreeDeletion,
)
from grants.errors import EffectTooLarge, GrantError, PrincipalError
from grants.lifecycle.forecast import grants_on, live_subtree
from grants.models import NAME_COLUMNS, GroupGrant, User, UserGrant, privilege_of
from grants.policies.catalogue import UnknownGeneration, generation_by_name
from grants.policies.times import format_time
from grants.principal_names import format_principal, parse_principal
from grants.roles.capabilities import Capability
from grants.strict_json import json_from_bytes
from grants.validity import Validity, ValidityError

ROWS_PER_READ = 5_000
# how many changes a request can evaluate together; more are evaluated as a plan
MAX_CHANGES = 100


@dataclass(frozen=True, slots=True)
class Registration:
    """An entity becomes live: it is registered or recreated. creator: `user:NAME` receives the privileges of
    a creator.
    """

    address: Address
    creator: str = ""


@dataclass(frozen=True, slots=True)
class Deletion:
    """An entity is deleted, with all live entities inside it."""

    address: Address


@dataclass(frozen=True, slots=True)
class Removal:
    """A user or group is removed, with its grants and memberships. principal: `user:NAME` or `group:NAME`."""

    principal: str


SingleChange = (
    GrantChange
    | MembershipChange
    | ActivationChange
    | PrincipalChange
    | GenerationChange
    | Registration
    | Deletion
    | Removal
)


class UnknownChange(GrantError):
    """A text does not describe a change."""


def evaluable_changes(changes: Iterable[SingleChange]) -> list[EffectChange]:
    """Return the changes that can be evaluated.

    A deletion runs two queries, and four more if the generation removes grants; a removal runs up to three; a
    registration with a creator runs one. Raise EffectTooLarge above the limits of the settings.
    """
    return [part for change in changes for part in _parts(change)]


def _parts(change: SingleChange) -> Iterator[EffectChange]:
    match change:
        case Registration(address, creator):
            yield StateChange(address, State.LIVE)
            for privilege in active_generation().creator_receives if creator else ():
                yield GrantChange(creator, address, privilege)
        case Deletion(address):
            yield from _deletion_parts(address)
        case Removal(principal):
            yield from _removal_parts(*parse_principal(principal))
        case _:
            yield change


def capability_to_make(change: SingleChange) -> Capability:
    """Return the capability that an account needs to make the change."""
    match change:
        case GenerationChange():
            return Capability.MANAGE_SETTINGS
        case ActivationChange() | PrincipalChange():
            return Capability.MANAGE_ACCOUNTS
    return Capability.CHANGE_GRANTS


def can_make(account: User, changes: Iterable[SingleChange]) -> bool:
    """Return whether the role of the account allows all of the changes."""
    return all(account.can(capability_to_make(change)) for change in changes)


def changes_for_run(changes: Iterable[SingleChange]) -> list[EffectChange]:
    """Return the changes that a run evaluates. They have the same effect as `evaluable_changes`, but do not
    list every entity and grant that a deletion or removal reaches.

    A removed user is inactive afterwards and a removed group has no members, so it does not matter that their
    grants are revoked. A deletion, a registration with a creator, and the removal of a group run one query
    each, and one for the active generation.
    """
    return [part for change in changes for part in _parts_for_run(change)]


def _parts_for_run(change: SingleChange) -> Iterator[EffectChange]:
    match change:
        case Deletion(address):
            entity = entity_at(address)
            if entity is not None and entity.is_live:
                yield SubtreeDeletion(address, active_generation().deleting_removes_grants)
        case Removal(principal):
            principal_type, name = parse_principal(principal)
            if principal_type == "user":
                yield ActivationChange(name, is_active=False)
            else:
                yield from _leaving_members(name)
        case _:
            yield from _parts(change)


def _deletion_parts(address: Address) -> Iterator[EffectChange]:
    entity = entity_at(address)
    if entity is None or not entity.is_live:
        return
    deleted = live_subtree(entity)
    for number, row in enumerate(
        deleted.order_by().values_list("kind", "key").iterator(chunk_size=ROWS_PER_READ)
    ):
        if number >= settings.EFFECT_MAX_ENTITIES:
            raise EffectTooLarge("entities", settings.EFFECT_MAX_ENTITIES)
        yield StateChange(Address(*row), State.DELETED)
    if not active_generation().deleting_removes_grants:
        return
    removed = grants_on(deleted)
    if sum(grants.count() for grants in removed) > settings.EFFECT_MAX_GRANTS:
        raise EffectTooLarge("grants", settings.EFFECT_MAX_GRANTS)
    for principal_type, grants in zip(("user", "group"), removed, strict=True):
        yield from _revocations(principal_type, grants)


def _removal_parts(principal_type: str, name: str) -> Iterator[EffectChange]:
    if principal_type == "user":
        yield from _revocations("user", UserGrant.objects.filter(user__username=name))
        yield ActivationChange(name, is_active=False)
        groups = Group.objects.filter(user__username=name).order_by("name")
        yield from (
            MembershipChange(name, group, is_join=False) for group in groups.values_list("name", flat=True)
        )
    else:
        yield from _revocations("group", GroupGrant.objects.filter(group__name=name))
        yield from _leaving_members(name)


def _leaving_members(group: str) -> Iterator[MembershipChange]:
    members = User.objects.filter(groups__name=group).order_by("username")
    yield from (
        MembershipChange(user, group, is_join=False) for user in members.values_list("username", flat=True)
    )


def _revocations(principal_type: str, grants) -> Iterator[GrantChange]:
    columns = (NAME_COLUMNS[principal_type], "permission_id", "content_object__kind", "content_object__key")
    for name, permission, kind, key in (
        grants.order_by().values_list(*columns).iterator(chunk_size=ROWS_PER_READ)
    ):
        yield GrantChange(
            f"{principal_type}:{name}", Address(kind, key), privilege_of(permission), is_grant=False
        )


def change_as_text(change: SingleChange) -> str:
    """Return a text that `change_from_text` reads, such as
    `["revoke","user:alice","dataset:sales.orders","READ"]`.
    """
    match change:
        case GrantChange(principal, address, privilege, is_grant):
            parts = [
                "grant" if is_grant else "revoke",
                principal,
                str(address),
                str(privilege),
                *_period_parts(change.validity),
            ]
        case MembershipChange(user, group, is_join):
            parts = ["join" if is_join else "leave", user, group, *_period_parts(change.validity)]
        case ActivationChange(user, is_active):
            parts = ["activate" if is_active else "deactivate", user]
        case PrincipalChange(user):
            parts = ["principal", user]
        case GenerationChange(generation):
            parts = ["generation", generation.name]
        case Registration(address, creator):
            parts = ["register", str(address), *([creator] if creator else [])]
        case Deletion(address):
            parts = ["delete", str(address)]
        case Removal(principal):
            parts = ["remove", principal]
    return json.dumps(parts, ensure_ascii=False, separators=(",", ":"))


def change_from_text(text: str) -> SingleChange:
    """Return the change that a text describes. Raise UnknownChange if it describes none."""
    try:
        parts = json_from_bytes(text.encode(), text_name="the change")
        if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
            raise ValueError
        return _change(*parts)
    except (
        ValueError,
        TypeError,
        AddressError,
        VocabularyError,
        PrincipalError,
        UnknownGeneration,
        ValidityError,
    ):
        raise UnknownChange("this is not a change that can be evaluated") from None


def _change(verb: str, *parts: str) -> SingleChange:
    match verb, parts:
        case (("grant" | "revoke"), (principal, address, privilege, *period)) if len(period) in (0, 2):
            return GrantChange(
                format_principal(principal),
                parse_address(address),
                privilege_by_name(privilege),
                verb == "grant",
                Validity.parse(*period),
            )
        case (("join" | "leave"), (user, group, *period)) if len(period) in (0, 2):
            return MembershipChange(
                _name("user", user), _name("group", group), verb == "join", Validity.parse(*period)
            )
        case (("activate" | "deactivate"), (user,)):
            return ActivationChange(_name("user", user), verb == "activate")
        case "principal", (user,):
            return PrincipalChange(_name("user", user))
        case "generation", (name,):
            return GenerationChange(generation_by_name(name))
        case "register", (address, *creator) if len(creator) < 2:
            return Registration(parse_address(address), *map(format_principal, creator))
        case "delete", (address,):
            return Deletion(parse_address(address))
        case "remove", (principal,):
            return Removal(format_principal(principal))
    raise ValueError(verb)


def _period_parts(validity: Validity) -> list[str]:
    """Return the beginning and the end; nothing for a period without limits."""
    return [format_time(time) or "" for time in validity] if validity.is_limited else []


def _name(principal_type: str, name: str) -> str:
    """Return the name. Raise PrincipalError if a principal cannot have it."""
    return parse_principal(f"{principal_type}:{name}")[1]
