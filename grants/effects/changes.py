"""Divide changes into the parts that can be evaluated.

A deletion, for example, changes the states of all live entities inside, and in some generations revokes the
grants on them.

An effect is evaluated at one time, before and after the changes. A grant or membership whose validity does
not include this time does not count, whether it is stored or added. If something that the changes add begins
later, the effect is also evaluated at the first beginnings, MAX_TIMES times in all (`effect_times`).
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from django.conf import settings
from django.db.models import Q

from entities.address import Address
from entities.frozen import frozen
from entities.models import PATTERN, Entity, State
from entities.patterns import entities_matching, has_patterns, matches, reveals
from entities.selectors import entities_at
from entities.vocabulary import CONTAINER_KINDS
from grants.active_generation import active_generation
from grants.change_set import (
    Activate,
    ActivateGeneration,
    AddGroup,
    Addition,
    AddUser,
    Change,
    Deactivate,
    Delete,
    DeleteGuardrail,
    EndException,
    Exclude,
    Grant,
    Include,
    Join,
    Key,
    Leave,
    MakePrincipal,
    Recreate,
    Register,
    RemovePrincipal,
    Rename,
    Revoke,
    SetException,
    SetGuardrail,
)
from grants.errors import EffectTooLarge
from grants.lifecycle import grants_on, live_subtree
from grants.models import PRINCIPAL_TYPES, USER, RoleGroup, User
from grants.plan_items import with_plan_changes
from grants.principal_names import parse_principal
from grants.validity import in_force, question_time

ROWS_PER_READ = 5_000
# the time of the question and the first beginnings
MAX_TIMES = 4
# how many changes a request can evaluate together; more are evaluated as a plan
MAX_CHANGES = 100


@frozen
class StateChange:
    """An address gets a new state: it is registered, recreated or deleted."""

    address: Address
    state: State


# what the evaluation of an effect distinguishes; a removal only of a group without members, which changes no decision
EffectChange = (
    AddUser
    | AddGroup
    | Grant
    | Revoke
    | Join
    | Leave
    | Include
    | Exclude
    | Activate
    | Deactivate
    | MakePrincipal
    | RemovePrincipal
    | Rename
    | StateChange
    | ActivateGeneration
)


def evaluable_changes(changes: Iterable[Change], *, is_limited: bool = True) -> list[EffectChange]:
    """Return the changes that can be evaluated.

    A removed user is inactive afterwards and a removed group has no members, so it does not matter that their
    grants are revoked. A renamed group changes no decision about a user. A deletion runs two queries, and four more if the generation removes grants; the
    removal of a group and a registration with a creator run one, and all registrations with creators one more. Raise
    EffectTooLarge for a deletion above the limits of the settings, if `is_limited`; only jobs evaluate without limits. A plan runs two queries; raise PlanError
    unless it is proposed.
    """
    changes = list(with_plan_changes(changes))
    deleted = [change.address for change in changes if isinstance(change, Delete)]
    # first, because what is deleted may be recreated
    parts = list(_deletion_parts(deleted, is_limited)) if deleted else []
    created = {
        change.address for change in changes if isinstance(change, Register | Recreate) and change.creator
    }
    # they stay as they are, so their creators receive nothing
    live = {
        address
        for address, row in entities_at(created).items()
        if row.is_live and {address, *address.ancestors}.isdisjoint(deleted)
    }
    return parts + [part for change in changes for part in _parts(change, live)]


def _parts(change: Change, live: Collection[Address]) -> Iterator[EffectChange]:
    match change:
        case Register(address, creator) | Recreate(address, creator):
            yield StateChange(address, State.LIVE)
            for privilege in active_generation().creator_receives if creator and address not in live else ():
                yield Grant(creator, address, privilege)
        case RemovePrincipal(principal):
            yield from _removal_parts(*parse_principal(principal))
        case Rename(principal, new_name):
            principal_type, name = parse_principal(principal)
            if principal_type == USER.name and name != new_name:
                yield change
        case Delete() | SetGuardrail() | DeleteGuardrail() | SetException() | EndException():
            # a deletion was divided already; the others change no decision
            return
        case _:
            yield change


def _deletion_parts(addresses: Collection[Address], is_limited: bool) -> Iterator[EffectChange]:
    live = [row for row in entities_at(addresses).values() if row.is_live]
    parts = [live_subtree(row) for row in live if row.kind in CONTAINER_KINDS]
    if others := [row.pk for row in live if row.kind not in CONTAINER_KINDS]:
        parts.append(Entity.objects.filter(pk__among=others))
    found: list[tuple[str, str]] = []
    for part in parts:
        rows = part.order_by().values_list("kind", "key")
        # read to the end, because a cursor that stays open until the garbage is collected blocks its connection
        limit = settings.EFFECT_MAX_ENTITIES + 1 - len(found) if is_limited else None
        found += rows[:limit].iterator(chunk_size=ROWS_PER_READ)
        if is_limited and len(found) > settings.EFFECT_MAX_ENTITIES:
            raise EffectTooLarge("entities", settings.EFFECT_MAX_ENTITIES)
    yield from (StateChange(Address(*row), State.DELETED) for row in found)
    if not parts or not active_generation().deleting_removes_grants:
        return
    removed = [grants for part in parts for grants in grants_on(part)]
    if is_limited and sum(grants.count() for grants in removed) > settings.EFFECT_MAX_GRANTS:
        raise EffectTooLarge("grants", settings.EFFECT_MAX_GRANTS)
    for grants in removed:
        yield from (Revoke(*key) for key in grants.order_by().grant_keys())


def _removal_parts(principal_type: str, name: str) -> Iterator[EffectChange]:
    if principal_type == USER.name:
        yield Deactivate(name)
        return
    members = User.objects.filter(groups__name=name).order_by("username")
    yield from (Leave(user, name) for user in members.values_list("username", flat=True))
    rows = RoleGroup.objects.filter(Q(group__name=name) | Q(role__name=name)).order_by("pk")
    yield from (Exclude(*names) for names in rows.values_list("group__name", "role__name"))


def effect_times(changes: Sequence[EffectChange]) -> list[datetime]:
    """Return the time of the question, and each later beginning of a grant or membership that the changes
    add.
    """
    now = question_time()
    later = {
        change.validity.valid_from
        for change in changes
        if isinstance(change, Addition) and change.validity.valid_from
    }
    return [now, *sorted(beginning for beginning in later if beginning > now)]


def next_limit(changes: Iterable[EffectChange], after: datetime) -> datetime | None:
    """Return the first time after `after` at which something that the changes add begins or ends; None if
    there is none.
    """
    limits = (limit for change in changes if isinstance(change, Addition) for limit in change.validity)
    return min((limit for limit in limits if limit is not None and limit > after), default=None)


def changes_at(changes: Iterable[EffectChange], at: datetime) -> list[EffectChange]:
    """Return the changes as they count at this time, with what follows from those of grants on patterns (see
    `with_derived`).

    An added grant that is not in force at this time counts as a revocation, because its validity replaces
    that of a stored grant. The same applies to memberships. The users become principals immediately.
    """
    result: list[EffectChange] = []
    for change in changes:
        if not isinstance(change, Addition) or change.validity.includes(at):
            result.append(change)
        elif isinstance(change, Grant):
            principal_type, name = parse_principal(change.principal)
            result += [
                Revoke(change.principal, change.address, change.privilege),
                *([MakePrincipal(name)] if principal_type == USER.name else []),
            ]
        elif isinstance(change, Include):
            result.append(Exclude(change.group, change.role))
        else:
            result += [Leave(change.user, change.group), MakePrincipal(change.user)]
    return with_derived(result, at)


def with_derived(changes: list[EffectChange], at: datetime) -> list[EffectChange]:
    """Return the changes with what follows from those of grants on patterns, and without revocations of what a pattern
    still gives.

    A change of a grant on a pattern stays in the list, because it shows containers. Without patterns, runs at most one
    query.
    """
    granted = [change for change in changes if isinstance(change, Grant) and change.address.is_pattern]
    revoked = [change for change in changes if isinstance(change, Revoke)]
    live = {
        change.address for change in changes if isinstance(change, StateChange) and change.state == State.LIVE
    }
    if not granted and not ((revoked or live) and has_patterns()):
        return changes
    new = live - entities_at(live).keys()
    added: list[EffectChange] = []
    for change in granted:
        registered = entities_matching(change.address).order_by().values_list("kind", "key")
        matched = {Address(*row) for row in registered.iterator(chunk_size=ROWS_PER_READ)}
        matched |= {address for address in new if matches(change.address, address)}
        added += [replace(change, address=address) for address in sorted(matched, key=str)]
    return [*_effective_revocations(changes, revoked, at), *added, *_grants_on_new(new, revoked, at)]


def _effective_revocations(
    changes: list[EffectChange], revoked: list[Revoke], at: datetime
) -> list[EffectChange]:
    """Return the changes with revocations of exactly what no grant gives any more, neither on the address nor on a
    pattern. at: the time of the grants.
    """
    keys = {change.key for change in revoked}
    of_patterns = [change.address for change in revoked if change.address.is_pattern]
    sources: dict[Key, set[Key]] = {}
    for principal_type in PRINCIPAL_TYPES.values():
        parsed = (parse_principal(change.principal) for change in revoked)
        names = {name for type_, name in parsed if type_ == principal_type.name}
        rows = (
            principal_type.held_grants.filter(
                Q(
                    content_object__in=[
                        row.pk for row in entities_at({change.address for change in revoked}).values()
                    ]
                )
                | Q(content_object__in=Entity.objects.filter(_any_matches(of_patterns))),
                **{f"{principal_type.name_path}__among": list(names)},
                **in_force(at=at),
            )
            if names
            else principal_type.held_grants.none()
        )
        for principal, address, privilege, kind, key in rows.grant_keys("pattern__kind", "pattern__key"):
            source = Address(kind, key) if kind else address
            sources.setdefault((principal, address, privilege), set()).add((principal, source, privilege))
    kept = {key for key, of_key in sources.items() if not of_key <= keys}
    derived = (
        {key for key, of_key in sources.items() if of_key & keys and not key[1].is_pattern} - kept - keys
    )
    return [
        *(change for change in changes if not isinstance(change, Revoke) or change.key not in kept),
        *(Revoke(*key) for key in sorted(derived, key=str)),
    ]


def _any_matches(patterns: Iterable[Address]) -> Q:
    condition = Q(pk__in=[])
    for pattern in patterns:
        condition |= Q(pk__in=entities_matching(pattern).values("pk"))
    return condition


def _grants_on_new(
    addresses: Collection[Address], revoked: Iterable[Revoke], at: datetime
) -> Iterator[Grant]:
    """Yield what the stored grants on patterns give on addresses that are not registered yet. A grant that only shows a
    container is one on an address inside it that nothing has.
    """
    if not addresses:
        return
    keys = {change.key for change in revoked}
    for principal_type in PRINCIPAL_TYPES.values():
        rows = principal_type.grants.filter(content_object__state=PATTERN, **in_force(at=at))
        for principal, pattern, privilege in rows.grant_keys():
            if (principal, pattern, privilege) in keys:
                continue
            for address in addresses:
                if matches(pattern, address):
                    yield Grant(principal, address, privilege)
                elif reveals(pattern, address):
                    # no name has a space
                    yield Grant(principal, Address(pattern.kind, f"{address.key}. "), privilege)
