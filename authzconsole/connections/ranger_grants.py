"""Turn policies of Ranger into grants of the console, and grants into policies.

A policy is read as the plugin of CDAP reads it, with the rules of Ranger 0.7. A grant is about one kind of entity, so
a policy that decides about several kinds becomes a grant on each of them. Roles and a validity schedule are taken
over, although Ranger 0.7 ignores them, because they are what the author of the policy meant.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import product
from operator import attrgetter
from typing import Any

from authzconsole.connections.platform import Unsupported, principal_or_fault
from authzconsole.connections.ranger.matching import KINDS_IN_RANGER
from authzconsole.connections.ranger.policies import (
    CURRENT_USER,
    KIND_OF_LEVEL,
    OWNER,
    PUBLIC_GROUP,
    SCHEDULE_TIME,
    SERVICE_TYPE,
    Feature,
    Item,
    Level,
    Note,
    Policy,
    PolicyFile,
)
from authzconsole.connections.services import new_principals
from entities.address import Address, AddressError, ancestor_kinds, instance_address, parse_grantable
from entities.vocabulary import Privilege, clip
from grants.change_set import ChangeSet, Grant, Key
from grants.journal_details import period_detail
from grants.validity import Validity, ValidityError, question_time

_LEVEL_OF_KIND = {kind: level for level, kind in KIND_OF_LEVEL.items()}
# In Ranger, `*` also matches an entity that has no name at the level.
ANY_NAME = "?*"
_UNKNOWN = "no policy of CDAP can express this address"
_NOTHING = {"values": ["*"], "isExcludes": True, "isRecursive": False}
# what becomes a part of the grants
_TAKEN_OVER = frozenset({Feature.ROLES, Feature.SCHEDULE})


def grants_of(file: PolicyFile) -> tuple[dict[Grant, list[Policy]], list[Note]]:
    """Return the grants that the policies give, with the policies that give them, and what was not taken over."""
    grants: dict[Grant, list[Policy]] = defaultdict(list)
    notes = [note for note in file.notes if note.feature not in _TAKEN_OVER]
    for policy in file.policies:
        reasons: list[str] = []
        for grant in dict.fromkeys(grants_of_policy(policy, reasons)):
            grants[grant].append(policy)
        notes += [Note(policy.name, policy.id, reason) for reason in dict.fromkeys(reasons)]
    return grants, notes


def grants_of_policy(policy: Policy, reasons: list[str]) -> Iterator[Grant]:
    """Yield the grants of a policy. Append what is not taken over to `reasons`."""
    if fault := fault_of_policy(policy):
        reasons.append(f"{fault}; it is not taken over")
        return
    if any(item.delegates for item in policy.items):
        reasons.append("the policy has `delegateAdmin`, the right to change it, which is not taken over")
    validity = _validity(policy)
    held = [
        (principal, privilege)
        for item in policy.allow
        for principal in principals_of_item(item, reasons)
        for privilege in sorted(item.accesses)
    ]
    addresses = list(addresses_of_policy(policy, reasons))
    for (principal, privilege), address in product(held, addresses):
        yield Grant(principal, address, privilege, validity)


def fault_of_policy(policy: Policy) -> str:
    """Return why no grant can have the meaning of the policy; empty if grants can."""
    if any(level.is_excluded and not level.is_any for level in policy.levels):
        return "the policy excludes names"
    if not policy.levels[0].has_name(instance_address().name):
        names = ", ".join(policy.levels[0].values)
        return (
            f"the policy is about the instance `{clip(names)}`, and this console administers "
            f"`{instance_address().name}`"
        )
    if len(policy.schedules) > 1:
        return "the policy has several validity schedules"
    if any(schedule.recurs for schedule in policy.schedules):
        return "the policy has a recurring schedule"
    if any(schedule.is_unclear for schedule in policy.schedules):
        return "the policy has a schedule with a time or a zone that cannot be read"
    try:
        _validity(policy).check_not_over(question_time())
    except ValidityError as error:
        return f"the policy has a schedule that no grant can have: {error}"
    return ""


def _validity(policy: Policy) -> Validity:
    """Return the period of a policy with at most one schedule. Raise ValidityError if it is empty."""
    return (
        Validity.between(policy.schedules[0].start, policy.schedules[0].end)
        if policy.schedules
        else Validity()
    )


def principals_of_item(item: Item, reasons: list[str]) -> Iterator[str]:
    """Yield the principals of an item, in written form."""
    for type_, names in (("user", item.users), ("group", item.groups), ("role", item.roles)):
        for name in sorted(names):
            principal = f"{type_}:{name}"
            if name in (CURRENT_USER, OWNER) or principal == f"group:{PUBLIC_GROUP}":
                reasons.append(f"the {type_} `{name}` stands for users that are not named")
                continue
            supported = principal_or_fault(principal)
            if isinstance(supported, Unsupported):
                reasons.append(f"{principal}: {supported.reason}")
            else:
                yield supported


def addresses_of_policy(policy: Policy, reasons: list[str]) -> Iterator[Address]:
    """Yield the addresses and patterns that the policy gives access to, for each kind that it decides about."""
    for kind in sorted(_decided_kinds(policy)):
        levels = policy.levels[1 : len(ancestor_kinds(kind)) + 1]
        names_of_content = [["*"]] * (len(ancestor_kinds(kind)) - len(levels))
        for names in product(*map(_names, levels), *names_of_content):
            text = f"{kind}:{_shortest('.'.join(names)) or instance_address().key}"
            try:
                address = parse_grantable(text)
            except AddressError as error:
                reasons.append(f"`{clip(text)}` cannot be granted: {error}")
                continue
            if crossing_addresses(address):
                reasons.append(
                    f"{address} also matches names with dots, which Ranger compares level by level"
                )
            yield address


def _shortest(key: str) -> str:
    """Return the shortest pattern with this meaning: a `*` that follows another one matches nothing more, unless a wildcard
    before both can stand for a dot.
    """
    while key.endswith("*.*") and not set("*?") & set(key.removesuffix("*.*").rstrip(".*")):
        key = key.removesuffix(".*")
    return key


def crossing_addresses(address: Address) -> list[Address]:
    """Return patterns that match each name that this pattern matches and Ranger does not: a wildcard stands for a dot
    that ends a level. They may match others too.
    """
    names = list(address.names.values())
    found = []
    for number, name in enumerate(names[:-1]):
        is_prefix = not set("*?") & set(name.rstrip("*"))
        if is_prefix and all(after == "*" for after in names[number + 1 :]):
            break
        for position, character in enumerate(name):
            if wider := {"*": "*.*", "?": "."}.get(character):
                crossing = f"{name[:position]}{wider}{name[position + 1 :]}"
                key = ".".join([*names[:number], crossing, *names[number + 1 :]])
                with suppress(AddressError):
                    found.append(parse_grantable(f"{address.kind}:{key}"))
    return found


def _decided_kinds(policy: Policy) -> Iterator[str]:
    """Yield the kinds of the entities on which the policy gives privileges: those of which it has all names, unless a
    name that is not `*` follows, and everything that the last level contains.
    """
    for kind in KINDS_IN_RANGER:
        depth = len(ancestor_kinds(kind)) + 1
        is_on_path = kind == policy.kind or kind in ancestor_kinds(policy.kind)
        if not is_on_path and policy.kind not in ancestor_kinds(kind):
            continue
        if any(level.is_excluded for level in policy.levels[:depth]):
            continue
        if all(level.is_any for level in policy.levels[depth:]):
            yield kind


def _names(level: Level) -> list[str]:
    """Return the names of a level as a pattern has them."""
    return ["*"] if level.is_any else ["*" if name == ANY_NAME else name for name in level.values if name]


def merged_grants(file: PolicyFile) -> tuple[dict[Key, Grant], list[Note]]:
    """Return the grants of the policies by key, and what was not taken over. Of several periods, the one that contains the
    others is kept, or else the first one.
    """
    found, notes = grants_of(file)
    grants: dict[Key, Grant] = {}
    for grant in found:
        other = grants.setdefault(grant.key, grant)
        if other.validity.within(grant.validity) == other.validity:
            grants[grant.key] = grant
    for grant, policies in found.items():
        if grant.validity.within(grants[grant.key].validity) != grant.validity:
            reason = (
                f"{grant}: another policy gives it in another period than {period_detail(grant.validity)}"
            )
            notes += [Note(policy.name, policy.id, reason) for policy in policies]
    return grants, notes


def computed_import(file: PolicyFile) -> tuple[ChangeSet, list[Note]]:
    """Return the changes that add the grants of the policies and their unknown principals, and what is not taken over."""
    grants, notes = merged_grants(file)
    added, unknown = new_principals({grant.principal for grant in grants.values()})
    for policy in file.policies:
        named = {principal for item in policy.allow for principal in principals_of_item(item, [])}
        notes += [
            Note(policy.name, policy.id, f"{name}: {unknown[name]}")
            for name in sorted(named & unknown.keys())
        ]
    known = (grant for grant in grants.values() if grant.principal not in unknown)
    return ChangeSet((*added, *sorted(known, key=attrgetter("sort_key")))), notes


def policies_of(grants: Iterable[Grant], *, service: str) -> tuple[list[dict[str, Any]], list[Note]]:
    """Return the policies that give these grants in the JSON form of Ranger, sorted by name, and what Ranger cannot
    express.

    Each has the grants on one address in one period. The first id is 1, so that a file can be imported.
    """
    by_place: dict[tuple[str, Validity], list[Grant]] = defaultdict(list)
    notes = []
    for grant in grants:
        if not (place := _place(grant.address)):
            notes.append(Note(str(grant), None, _UNKNOWN))
            continue
        by_place[place, grant.validity].append(grant)
        if crossing_addresses(grant.address):
            reason = "Ranger compares the pattern level by level, so it does not match names with dots"
            notes.append(Note(str(grant.address), None, reason))
    places = sorted(by_place, key=lambda place: (place[0], *map(_schedule_time, place[1])))
    policies = [
        {"id": number, **policy_json(by_place[place], service=service)}
        for number, place in enumerate(places, 1)
    ]
    return policies, list(dict.fromkeys(notes))


def address_fault(address: Address) -> str:
    """Return why no policy gives access to exactly this address; empty if one does."""
    if not _place(address):
        return _UNKNOWN
    levels = tuple(
        Level(KIND_OF_LEVEL[name], tuple(part["values"]), part["isExcludes"])
        for name, part in _resources(address).items()
    )
    given = [str(other) for other in addresses_of_policy(Policy("", None, levels), [])]
    return "" if given == [str(address)] else f"a policy for it gives {', '.join(given)}: grant this instead"


def _place(address: Address) -> str:
    """Return the address with all of its names, which is the name of its policy; empty if no policy can be about it."""
    names = list(address.names.values())
    if address.kind not in KINDS_IN_RANGER or not (names or address == instance_address()):
        return ""
    return f"{address.kind}:{'.'.join(names) or address.key}"


def policy_json(grants: Sequence[Grant], *, service: str) -> dict[str, Any]:
    """Return the policy of these grants, which are on one address in one period, without an id."""
    place, times = _place(grants[0].address), [_schedule_time(time) for time in grants[0].validity]
    schedule = {"startTime": times[0], "endTime": times[1], "timeZone": "UTC", "recurrences": []}
    return {
        "service": service,
        "serviceType": SERVICE_TYPE,
        "name": f"{place} {' to '.join(times)}" if any(times) else place,
        "policyType": 0,
        "isEnabled": True,
        "isAuditEnabled": True,
        "resources": _resources(grants[0].address),
        "policyItems": items_of((grant.principal, grant.privilege) for grant in grants),
        "denyPolicyItems": [],
        "allowExceptions": [],
        "denyExceptions": [],
        "validitySchedules": [schedule] if any(times) else [],
    }


def _resources(address: Address) -> dict[str, Any]:
    """Return the levels of an address, with an excluded `*` at those below it, so that the content is not granted too."""
    names = {"instance": instance_address().key, **address.names}
    resources = {
        _LEVEL_OF_KIND[kind]: {
            "values": [ANY_NAME if name == "*" else name],
            "isExcludes": False,
            "isRecursive": False,
        }
        for kind, name in names.items()
    }
    return resources | {_LEVEL_OF_KIND[kind]: dict(_NOTHING) for kind in _BELOW[address.kind]}


def _longest_below(kind: str) -> tuple[str, ...]:
    """Return the kinds of the longest path below a kind. A policy needs a path to its end, and one path is enough."""
    paths = [
        tuple(reversed((deepest, *ancestor_kinds(deepest)[: ancestor_kinds(deepest).index(kind)])))
        for deepest in KINDS_IN_RANGER
        if kind in ancestor_kinds(deepest)
    ]
    return max(sorted(paths), key=len, default=())


def items_of(pairs: Iterable[tuple[str, Privilege]]) -> list[dict[str, Any]]:
    """Return one item for each set of privileges, with everybody who has exactly these. pairs: who has which one."""
    privileges: dict[str, set[Privilege]] = defaultdict(set)
    for principal, privilege in pairs:
        privileges[principal].add(privilege)
    holders: dict[tuple[Privilege, ...], list[str]] = defaultdict(list)
    for principal, held in sorted(privileges.items()):
        holders[tuple(privilege for privilege in Privilege if privilege in held)].append(principal)
    return [
        {
            "accesses": [{"type": privilege.lower(), "isAllowed": True} for privilege in held],
            **_names_by_type(principals),
            "conditions": [],
            "delegateAdmin": False,
        }
        for held, principals in sorted(holders.items())
    ]


def _names_by_type(principals: Iterable[str]) -> Mapping[str, list[str]]:
    names: dict[str, list[str]] = {"users": [], "groups": [], "roles": []}
    for principal in principals:
        type_, _, name = principal.partition(":")
        names[f"{type_}s"].append(name)
    return names


def _schedule_time(time: datetime | None) -> str:
    return "" if time is None else time.astimezone(UTC).strftime(SCHEDULE_TIME)


_BELOW = {kind: _longest_below(kind) for kind in KINDS_IN_RANGER}
