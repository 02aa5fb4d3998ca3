"""Change the policies of a Ranger service, so that they give exactly the intended grants.

A policy loses what is not intended. What it loses with it although it is intended, and what no policy gives, is added to
the policy with exactly these resources, or to a new one. Everything else in a policy stays.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from authzconsole.connections.ranger.policies import PRIVILEGE_OF_ACCESS, Note, PolicyFile
from authzconsole.connections.ranger_grants import (
    address_fault,
    grants_of_policy,
    items_of,
    merged_grants,
    policy_json,
)
from entities.vocabulary import Privilege
from grants.change_set import Grant

Json = Mapping[str, Any]
# who has which privilege
Held = tuple[str, Privilege]
_TYPES = ("user", "group", "role")
_OTHER_ITEMS = (
    "denyPolicyItems",
    "allowExceptions",
    "denyExceptions",
    "dataMaskPolicyItems",
    "rowFilterPolicyItems",
)


@dataclass(slots=True)
class PolicyChange:
    """A change of one policy. before: as it was read; None for a new one. after: None if it is deleted."""

    before: Json | None
    after: Json | None = None
    added: list[Grant] = field(default_factory=list)
    removed: list[Grant] = field(default_factory=list)

    @property
    def verb(self) -> str:
        return "create" if self.before is None else "delete" if self.after is None else "update"

    @property
    def name(self) -> str:
        return (self.before or self.after or {})["name"]


def changed_policies(
    entries: Collection[Json], file: PolicyFile, intended: Iterable[Grant], *, service: str
) -> tuple[list[PolicyChange], list[Note]]:
    """Return the changes of the policies, and the intended grants that no policy can give.

    entries: all policies as Ranger writes them. file: what was read from them.
    """
    wanted, notes = _expressible(intended)
    found, _ = merged_grants(file)
    by_id = {entry["id"]: entry for entry in entries}
    changes: dict[int, PolicyChange] = {}
    given_rightly: set[Grant] = set()
    for policy in file.policies:
        entry = by_id[policy.id]
        given = list(grants_of_policy(policy, []))
        # a grant in a second period stays, because the console has only one for it
        wrong = {
            (grant.principal, grant.privilege)
            for grant in given
            if grant.key not in wanted
            or (grant == found[grant.key] and grant.validity != wanted[grant.key].validity)
        }
        removed = [grant for grant in given if (grant.principal, grant.privilege) in wrong]
        given_rightly.update(set(given).difference(removed))
        if removed:
            changes[entry["id"]] = PolicyChange(entry, removed=removed)
    by_resources = {_resources_text(by_id[policy.id]): by_id[policy.id] for policy in file.policies}
    names = {entry["name"].lower() for entry in entries}
    created = []
    for grants in _by_place(grant for grant in wanted.values() if grant not in given_rightly):
        policy_of_grants = policy_json(grants, service=service)
        if same := by_resources.get(_resources_text(policy_of_grants)):
            changes.setdefault(same["id"], PolicyChange(same)).added += grants
        else:
            name = _free_name(policy_of_grants["name"], names)
            created.append(PolicyChange(None, policy_of_grants | {"name": name}, grants))
    for change in changes.values():
        _change_items(change)
    return [*created, *changes.values()], notes


def _expressible(intended: Iterable[Grant]) -> tuple[dict[tuple, Grant], list[Note]]:
    """Return the grants that policies can give, by key, and the others."""
    faults: dict[str, str] = {}
    wanted, notes = {}, []
    for grant in sorted(intended, key=lambda grant: grant.sort_key):
        text = str(grant.address)
        if text not in faults:
            faults[text] = address_fault(grant.address)
        if faults[text]:
            notes.append(Note(str(grant), None, faults[text]))
        else:
            wanted[grant.key] = grant
    return wanted, notes


def _by_place(grants: Iterable[Grant]) -> Iterator[list[Grant]]:
    """Yield the grants on one address in one period."""
    places: dict[tuple, list[Grant]] = defaultdict(list)
    for grant in grants:
        places[grant.address, grant.validity].append(grant)
    yield from places.values()


def _change_items(change: PolicyChange) -> None:
    """Set `after`. Items that only give privileges are replaced by new ones. From other items, the principals that lose a
    privilege are removed.
    """
    assert change.before is not None
    removed = {(grant.principal, grant.privilege) for grant in change.removed}
    held = {(grant.principal, grant.privilege) for grant in change.added}
    items: list[Json] = []
    for item in change.before.get("policyItems") or ():
        if _only_gives_privileges(item):
            held |= _privileges_of(item) - removed
        else:
            items += _without(item, removed)
    items += items_of(sorted(held))
    if items or any(change.before.get(name) for name in _OTHER_ITEMS) or change.before.get("isDenyAllElse"):
        change.after = {**change.before, "policyItems": items}


def _only_gives_privileges(item: Json) -> bool:
    return not (item.get("conditions") or item.get("delegateAdmin")) and all(
        access.get("isAllowed", True) and _privilege(access) for access in item.get("accesses") or ()
    )


def _privileges_of(item: Json) -> set[Held]:
    return {
        (principal, privilege)
        for principal in _principals(item)
        for access in item.get("accesses") or ()
        if access.get("isAllowed", True) and (privilege := _privilege(access))
    }


def _without(item: Json, removed: Collection[Held]) -> Iterator[Json]:
    """Yield the item without those who lose a privilege by it, and for each of them an item with the rest."""
    losers = [
        principal
        for principal in _principals(item)
        if any((principal, privilege) in removed for _, privilege in _privileges_of(item))
    ]
    nobody: Json = {f"{type_}s": [] for type_ in _TYPES}
    rest = {
        f"{type_}s": [name for name in item.get(f"{type_}s") or () if f"{type_}:{name}" not in losers]
        for type_ in _TYPES
    }
    if any(rest.values()):
        yield {**item, **rest}
    for principal in losers:
        type_, _, name = principal.partition(":")
        accesses = [access for access in item["accesses"] if (principal, _privilege(access)) not in removed]
        if accesses:
            yield {**item, **nobody, f"{type_}s": [name], "accesses": accesses}


def _principals(item: Json) -> list[str]:
    return [f"{type_}:{name}" for type_ in _TYPES for name in item.get(f"{type_}s") or ()]


def _privilege(access: Json) -> Privilege | None:
    return PRIVILEGE_OF_ACCESS.get(str(access.get("type")).lower())


def _resources_text(policy: Json) -> str:
    """Return what no two enabled policies of a service have in common (`RangerPolicyResourceSignature`)."""
    resources = {
        level: [sorted(part.get("values") or ()), bool(part.get("isExcludes")), bool(part.get("isRecursive"))]
        for level, part in policy["resources"].items()
    }
    schedules = [
        [schedule.get(name) or "" for name in ("startTime", "endTime", "timeZone")]
        + [schedule.get("recurrences") or []]
        for schedule in policy.get("validitySchedules") or ()
    ]
    return json.dumps([resources, schedules, policy.get("policyPriority") or 0], sort_keys=True)


def _free_name(name: str, names: set[str]) -> str:
    """Return the name, with a number if a policy has it, and add it to the names."""
    number, free = 1, name
    while free.lower() in names:
        number += 1
        free = f"{name} ({number})"
    names.add(free.lower())
    return free
