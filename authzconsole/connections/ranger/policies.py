"""Read the policies of a Ranger service of type `cdap`, strictly.

A file is what `exportJson` of Ranger Admin returns (`RangerExportPolicyList`), or what a plugin downloads
(`ServicePolicies`). A file that cannot be read as a whole is refused. What a policy has and the evaluation
does not support is a `Note`, so that nothing is dropped silently.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from fnmatch import translate
from functools import cached_property
from zoneinfo import ZoneInfo

from entities.address import ancestor_kinds
from entities.errors import Refusal
from entities.frozen import frozen
from entities.vocabulary import Privilege, clip
from grants.strict_json import MalformedJson, json_from_bytes

SERVICE_TYPE = "cdap"

# The levels of the service definition `cdap`. They contain each other as the kinds do.
KIND_OF_LEVEL: Mapping[str, str] = {
    "instance": "instance",
    "namespace": "namespace",
    "application": "application",
    "program": "program",
    "artifact": "artifact",
    "dataset": "dataset",
    "dataset_module": "dataset_module",
    "dataset_type": "dataset_type",
    "stream": "stream",
    "secure_key": "securekey",
    "principal": "kerberosprincipal",
}
PRIVILEGE_OF_ACCESS = {privilege.lower(): privilege for privilege in Privilege}

PUBLIC_GROUP = "public"
CURRENT_USER, OWNER = "{USER}", "{OWNER}"
# the form of the times of a schedule
SCHEDULE_TIME = "%Y/%m/%d %H:%M:%S"


class PolicyFileError(Refusal, ValueError):
    """The file cannot be read. The message says what is wrong, where, and how to correct it."""


class Feature(StrEnum):
    """What policies of later versions have and Ranger 0.7 ignores, in words."""

    DENY = "deny items or exceptions"
    SCHEDULE = "a validity schedule"
    PRIORITY = "a priority"
    ROLES = "roles"
    CURRENT_USER = "the variable {USER} as a user"
    DENY_ALL_ELSE = "the denial of all other access"


class LeftOut(StrEnum):
    """The policies, and parts of policies, that are read and not evaluated, in words."""

    ZONES = "policies of security zones"
    TAGS = "policies on tags"
    MASKS = "masks"
    FILTERS = "row filters"
    RESOURCES = "additional resources"


@dataclass(frozen=True)
class Level:
    """The names that a policy has at one level. is_excluded: the names that it does not apply to."""

    kind: str
    values: tuple[str, ...]
    is_excluded: bool = False

    @cached_property
    def is_any(self) -> bool:
        """Whether the names are `*`, which also matches where an entity has no name at this level.

        `RangerAbstractResourceMatcher.isMatchAny` is the same for excluded names.
        """
        return not any(self.values) or any(value and not value.strip("*") for value in self.values)

    @cached_property
    def _expression(self) -> re.Pattern[str]:
        """`*` is any number of characters, `?` is one, and everything else is literal and case-sensitive."""
        return re.compile("|".join(translate(value.replace("[", "[[]")) for value in self.values if value))

    @property
    def literal_names(self) -> list[str]:
        """The names without wildcards that the policy applies to."""
        return (
            []
            if self.is_excluded
            else [value for value in self.values if value and not set("*?") & set(value)]
        )

    def has_name(self, name: str) -> bool:
        """Return whether the policy applies to an entity with this name at this level."""
        return (self.is_any or self._expression.match(name) is not None) != self.is_excluded


@frozen
class Item:
    """Who has which privileges by one item of a policy. delegates: whether they may also change such policies.
    is_conditional: whether it has conditions.
    """

    users: frozenset[str]
    groups: frozenset[str]
    roles: frozenset[str]
    accesses: frozenset[Privilege]
    delegates: bool = False
    is_conditional: bool = False


@frozen
class Schedule:
    """A period of validity; None for no limit. recurs: whether it is limited to recurring parts of the period. is_unclear:
    whether a time or the zone cannot be read.
    """

    start: datetime | None
    end: datetime | None
    recurs: bool = False
    is_unclear: bool = False

    def contains(self, at: datetime) -> bool:
        return (self.start is None or self.start <= at) and (self.end is None or at <= self.end)


@frozen
class Policy:
    """A policy that grants or denies access. levels: from the instance down to the last level that it has.

    features: those that Ranger 0.7 ignores. is_conditional: whether it has conditions. left_out: why it is not evaluated,
    a value of `LeftOut`; empty if it is.
    """

    name: str
    id: int | None
    levels: tuple[Level, ...]
    allow: tuple[Item, ...] = ()
    allow_exceptions: tuple[Item, ...] = ()
    deny: tuple[Item, ...] = ()
    deny_exceptions: tuple[Item, ...] = ()
    schedules: tuple[Schedule, ...] = ()
    priority: int = 0
    denies_all_else: bool = False
    features: frozenset[Feature] = frozenset()
    is_conditional: bool = False
    left_out: str = ""

    @property
    def kind(self) -> str:
        """The kind of the last level."""
        return self.levels[-1].kind

    @property
    def items(self) -> tuple[Item, ...]:
        return (*self.allow, *self.allow_exceptions, *self.deny, *self.deny_exceptions)


@frozen
class Note:
    """What a policy has and the answers do not consider, or what they depend on. policy, id: empty for the
    whole file. feature: set if only some versions of Ranger consider it.
    """

    policy: str
    id: int | None
    reason: str
    feature: Feature | None = None


@frozen
class PolicyFile:
    """The enabled policies of a file. enables_deny: whether the service definition has deny items and
    exceptions applied; None if it does not say so. left_out: policies and parts of policies that are not evaluated.
    service: the name of the service; empty if the file does not say it.
    """

    policies: tuple[Policy, ...]
    notes: tuple[Note, ...]
    enables_deny: bool | None = None
    left_out: tuple[Policy, ...] = ()
    service: str = ""


_FILE_FIELDS = frozenset(
    "policies serviceName serviceId policyVersion policyUpdateTime serviceDef auditMode tagPolicies securityZones policyDeltas "
    "serviceConfig metaDataInfo startIndex pageSize totalCount resultSize sortType sortBy queryTimeMS list listSize".split()
)
# the fields of `RangerPolicy` that change no answer, then those that are read below
_POLICY_FIELDS = frozenset(
    "guid createdBy updatedBy createTime updateTime version service name description resourceSignature isAuditEnabled options "
    "policyLabels "
    "id serviceType policyType policyPriority isEnabled resources additionalResources conditions policyItems "
    "denyPolicyItems allowExceptions denyExceptions dataMaskPolicyItems rowFilterPolicyItems validitySchedules zoneName "
    "isDenyAllElse".split()
)
_ITEM_FIELDS = frozenset("accesses users groups roles conditions delegateAdmin".split())
_RESOURCE_FIELDS = frozenset("values isExcludes isRecursive".split())
_POLICY_TYPES = {1: "masks data", 2: "filters rows"}
_LEFT_OUT_ITEMS = {"dataMaskPolicyItems": LeftOut.MASKS, "rowFilterPolicyItems": LeftOut.FILTERS}
_NOT_EVALUATED = "it is not evaluated"
_JSON_TYPES = {str: "text", bool: "true or false", int: "a whole number", list: "a list", dict: "an object"}
_EXPORT = "export the policies of the service from Ranger Admin again"


def read_policies(raw: bytes, *, file_name: str) -> PolicyFile:
    """Return the enabled policies. Raise PolicyFileError if the file is not an export or a download of the
    policies of one service of type `cdap`.
    """
    body = _document(raw, file_name)
    notes = [
        Note("", None, f"the file has the unknown field `{clip(name)}`")
        for name in body
        if name not in _FILE_FIELDS
    ]
    definition = _member(body, "serviceDef", dict, file_name, {})
    _check_service_type(
        _member(definition, "name", str, f"{file_name}: serviceDef", SERVICE_TYPE), f"{file_name}: serviceDef"
    )
    if _member(body, "policyDeltas", list, file_name, []):
        raise PolicyFileError(
            f"{file_name}: policyDeltas has changes instead of all policies: download without `lastKnownVersion`"
        )
    enables_deny = _enables_deny(definition, file_name)
    notes += _notes_of_parts(body, file_name)
    policies, ids, services = [], Counter[int](), set[str]()
    left_out = list(_left_out_of_parts(body))
    for number, entry in enumerate(_member(body, "policies", list, file_name, [])):
        place = f"{file_name}: policies[{number}]"
        if not isinstance(entry, dict):
            raise PolicyFileError(f"{place} is not an object: {_EXPORT}")
        name, id_ = _member(entry, "name", str, place, ""), _member(entry, "id", int, place, None)
        place += f" (`{clip(name)}`)"
        _check_service_type(_member(entry, "serviceType", str, place, SERVICE_TYPE) or SERVICE_TYPE, place)
        services.add(_member(entry, "service", str, place, ""))
        ids.update([] if id_ is None else [id_])
        if ids[id_] > 1:
            raise PolicyFileError(f"{place} has the id {id_} of a policy before it: {_EXPORT}")
        reasons: list[str] = []
        policy = _policy(entry, place, reasons)
        notes += [Note(name, id_, reason) for reason in reasons]
        if policy is not None:
            notes += _notes_of_features(policy, enables_deny)
        policies += [] if policy is None else [policy]
        left_out += _left_out(entry)
    if len(services) > 1:
        raise PolicyFileError(
            f"{file_name} has policies of {len(services)} services ({clip(', '.join(sorted(services)))}): export one "
            f"service, with `serviceName`"
        )
    service = _member(body, "serviceName", str, file_name, "") or max(services, default="")
    return PolicyFile(tuple(policies), tuple(notes), enables_deny, tuple(left_out), service)


def _document(raw: bytes, file_name: str) -> dict:
    if not raw.strip():
        raise PolicyFileError(f"{file_name} is empty: {_EXPORT}")
    if raw.lstrip().startswith(b"<"):
        raise PolicyFileError(
            f"{file_name} is HTML or XML, not JSON: Ranger Admin has probably returned its sign-in page. Export the "
            f"policies with the name and the password of an administrator"
        )
    try:
        body = json_from_bytes(raw, text_name=file_name, allows_surrogates=False)
    except MalformedJson as error:
        raise PolicyFileError(f"{error}: {_EXPORT}") from None
    if not isinstance(body, dict) or not isinstance(body.get("policies"), list):
        raise PolicyFileError(
            f"{file_name} has no list `policies`: it is not the JSON export of a service (`exportJson`), nor a policy "
            f"download of a plugin"
        )
    return body


def _member(body: dict, name: str, type_: type, place: str, default):
    """Return a member of an object, or the default where it is null or absent."""
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, type_) or (type_ is int and isinstance(value, bool)):
        raise PolicyFileError(f"{place}.{name} is not {_JSON_TYPES[type_]}: {_EXPORT}")
    return value


def _objects(body: dict, name: str, place: str) -> list[dict]:
    entries = _member(body, name, list, place, [])
    if not all(isinstance(entry, dict) for entry in entries):
        raise PolicyFileError(f"{place}.{name} is not a list of objects: {_EXPORT}")
    return entries


def _texts(body: dict, name: str, place: str) -> tuple[str, ...]:
    entries = _member(body, name, list, place, [])
    if not all(isinstance(entry, str) for entry in entries):
        raise PolicyFileError(f"{place}.{name} is not a list of texts: {_EXPORT}")
    return tuple(entries)


def _check_service_type(name: str, place: str) -> None:
    if name != SERVICE_TYPE:
        raise PolicyFileError(
            f"{place} is of the service type `{clip(name)}`, not `{SERVICE_TYPE}`: export the policies of the service of CDAP"
        )


def _enables_deny(definition: dict, file_name: str) -> bool | None:
    """Return the option of the service definition (`ServiceDefUtil`)."""
    options = _member(definition, "options", dict, f"{file_name}: serviceDef", {})
    option = options.get("enableDenyAndExceptionsInPolicies")
    return None if option is None else str(option).lower() == "true"


def _notes_of_parts(body: dict, file_name: str) -> Iterator[Note]:
    """Yield a note for each policy in the parts of a download that are not evaluated."""
    tags = _member(body, "tagPolicies", dict, file_name, {})
    for entry in _objects(tags, "policies", f"{file_name}: tagPolicies"):
        place = f"{file_name}: tagPolicies.policies"
        name, id_ = _member(entry, "name", str, place, ""), _member(entry, "id", int, place, None)
        yield Note(name, id_, f"the policy applies to tags; {_NOT_EVALUATED}")
    for zone in _member(body, "securityZones", dict, file_name, {}):
        yield Note("", None, f"the policies of the security zone `{clip(zone)}` are not evaluated")


def _notes_of_features(policy: Policy, enables_deny: bool | None) -> Iterator[Note]:
    for feature in sorted(policy.features):
        if feature is Feature.DENY and enables_deny is not None:
            versions = "both versions apply" if enables_deny else "both versions ignore"
        else:
            versions = "Ranger 0.7 ignores and Ranger 2 applies"
        yield Note(policy.name, policy.id, f"the policy has {feature}, which {versions}", feature)


def _policy(entry: dict, place: str, reasons: list[str]) -> Policy | None:
    """Return the policy; None for one that decides nothing. Append what is not supported to `reasons`."""
    if not _member(entry, "isEnabled", bool, place, True):
        return None
    reasons += [
        f"the policy has the unknown field `{clip(field)}`" for field in entry if field not in _POLICY_FIELDS
    ]
    zone = _member(entry, "zoneName", str, place, "")
    type_ = _member(entry, "policyType", int, place, 0)
    if type_ or zone:
        what = (
            f"belongs to the security zone `{clip(zone)}`"
            if zone
            else _POLICY_TYPES.get(type_, f"is of type {type_}")
        )
        reasons.append(f"the policy {what}; {_NOT_EVALUATED}")
        return None
    levels = _levels(_member(entry, "resources", dict, place, {}), place, reasons)
    if _member(entry, "additionalResources", list, place, []):
        reasons.append("the policy has `additionalResources`; only `resources` are evaluated")
    if _member(entry, "conditions", list, place, []):
        reasons.append("the policy has conditions; it is evaluated as if they were met")
    for field_name in _LEFT_OUT_ITEMS:
        if _member(entry, field_name, list, place, []):
            reasons.append(f"the policy has `{field_name}`, which are not evaluated")
    policy = _policy_with(entry, levels, place, reasons)
    if any(OWNER in item.users for item in policy.items):
        reasons.append("the policy names `{OWNER}`, but CDAP does not send the owner of an entity to Ranger")
    return replace(policy, features=frozenset(_features(policy)))


def _policy_with(entry: dict, levels: tuple[Level, ...], place: str, reasons: list[str]) -> Policy:
    """Return the policy on these levels. Append what is not supported to `reasons`."""
    allow, allow_exceptions, deny, deny_exceptions = (
        tuple(
            _item(item, f"{field_name}[{number}]", place, reasons)
            for number, item in enumerate(_objects(entry, field_name, place))
        )
        for field_name in ("policyItems", "allowExceptions", "denyPolicyItems", "denyExceptions")
    )
    return Policy(
        name=_member(entry, "name", str, place, ""),
        id=_member(entry, "id", int, place, None),
        levels=levels,
        allow=allow,
        allow_exceptions=allow_exceptions,
        deny=deny,
        deny_exceptions=deny_exceptions,
        schedules=tuple(_schedules(entry, place, reasons)),
        priority=_member(entry, "policyPriority", int, place, 0),
        denies_all_else=_member(entry, "isDenyAllElse", bool, place, False),
        is_conditional=bool(_member(entry, "conditions", list, place, [])),
    )


def _left_out_of_parts(body: dict) -> Iterator[Policy]:
    """Yield the policies of a download that apply to tags or belong to a security zone."""
    tags, zones = _member(body, "tagPolicies", dict, "", {}), _member(body, "securityZones", dict, "", {})
    for entry in _objects(tags, "policies", "tagPolicies"):
        yield from _left_out(entry, LeftOut.TAGS)
    for name in zones:
        for entry in _objects(
            _member(zones, name, dict, "securityZones", {}), "policies", f"securityZones.{name}"
        ):
            yield from _left_out(entry, LeftOut.ZONES)


def _left_out(entry: dict, reason: str = "") -> Iterator[Policy]:
    """Yield what an enabled policy has and is not evaluated. reason: why nothing of it is.

    Nothing of a policy on levels that CDAP does not have.
    """
    place, reasons = "", list[str]()
    try:
        type_ = _member(entry, "policyType", int, place, 0)
        if not _member(entry, "isEnabled", bool, place, True):
            return
        if not reason and _member(entry, "zoneName", str, place, ""):
            reason = LeftOut.ZONES
        if not reason and type_ and type_ not in _POLICY_TYPES:
            reason = f"policies of the type {type_}"
        is_on_tags = reason == LeftOut.TAGS
        levels = () if is_on_tags else _levels(_member(entry, "resources", dict, place, {}), place, reasons)
        policy = _policy_with(entry, levels, place, reasons)
        if reason:
            yield replace(policy, left_out=reason)
        for field_name, masks in _LEFT_OUT_ITEMS.items():
            items = (_item(item, "", place, reasons) for item in _objects(entry, field_name, place))
            yield Policy(policy.name, policy.id, levels, tuple(items), left_out=masks)
        for resources in _objects(entry, "additionalResources", place):
            others = _levels(resources, place, reasons)
            yield replace(policy, levels=others, left_out=reason or LeftOut.RESOURCES)
    except PolicyFileError:
        return


def _levels(resources: dict, place: str, reasons: list[str]) -> tuple[Level, ...]:
    """Return the levels from the instance down. Raise PolicyFileError if they are not a path without gaps."""
    if unknown := [name for name in resources if name not in KIND_OF_LEVEL]:
        raise PolicyFileError(
            f"{place}.resources has the level `{clip(unknown[0])}`, which the service definition of CDAP does not have: its "
            f"levels are {', '.join(KIND_OF_LEVEL)}"
        )
    levels = {}
    for name in resources:
        part_place = f"{place}.resources.{name}"
        part = _member(resources, name, dict, f"{place}.resources", {})
        reasons += [
            f"`{name}` has the unknown field `{clip(field)}`"
            for field in part
            if field not in _RESOURCE_FIELDS
        ]
        values = _texts(part, "values", part_place)
        if any("{" in value for value in values):
            reasons.append(f"`{name}` has a variable in braces, which is not replaced")
        if _member(part, "isRecursive", bool, part_place, False):
            reasons.append(f"`{name}` is recursive, which has no effect in the service definition of CDAP")
        level = Level(KIND_OF_LEVEL[name], values, _member(part, "isExcludes", bool, part_place, False))
        levels[level.kind] = level
    last = max(levels, key=lambda kind: len(ancestor_kinds(kind)), default="instance")
    path = [*reversed(ancestor_kinds(last)), last]
    if set(path) != set(levels):
        names = " > ".join(name for kind in path for name in KIND_OF_LEVEL if KIND_OF_LEVEL[name] == kind)
        raise PolicyFileError(
            f"{place}.resources has the levels {', '.join(resources) or 'none'}, which are not a path from the instance "
            f"down, such as {names}: correct the policy in Ranger Admin"
        )
    return tuple(levels[kind] for kind in path)


def _item(body: dict, field_name: str, place: str, reasons: list[str]) -> Item:
    place = f"{place}.{field_name}"
    reasons += [
        f"{field_name} has the unknown field `{clip(field)}`" for field in body if field not in _ITEM_FIELDS
    ]
    conditions = _member(body, "conditions", list, place, [])
    if conditions:
        reasons.append(f"{field_name} has conditions; it is evaluated as if they were met")
    accesses = set()
    for access in _objects(body, "accesses", place):
        name = _member(access, "type", str, f"{place}.accesses", "")
        if not _member(access, "isAllowed", bool, f"{place}.accesses", True):
            continue
        # policies on tags name the service type too
        if privilege := PRIVILEGE_OF_ACCESS.get(name.lower().removeprefix(f"{SERVICE_TYPE}:")):
            accesses.add(privilege)
        else:
            reasons.append(f"{field_name} has the unknown access type `{clip(name)}`")
    users, groups, roles = (frozenset(_texts(body, name, place)) for name in ("users", "groups", "roles"))
    delegates = _member(body, "delegateAdmin", bool, place, False)
    return Item(users, groups, roles, frozenset(accesses), delegates, bool(conditions))


def _schedules(entry: dict, place: str, reasons: list[str]) -> Iterator[Schedule]:
    """Yield the schedules (`RangerValidityScheduleEvaluator`): times without a zone are in the zone of the
    schedule. They are in GMT without a zone, and with one that Java does not know.
    """
    for schedule in _objects(entry, "validitySchedules", place):
        place_of_schedule = f"{place}.validitySchedules"
        zone_name = _member(schedule, "timeZone", str, place_of_schedule, "") or "GMT"
        is_unclear, zone = False, ZoneInfo("GMT")
        try:
            zone = ZoneInfo(zone_name)
        except (ValueError, KeyError, OSError):
            is_unclear = True
            reasons.append(
                f"the policy has a schedule in the time zone `{clip(zone_name)}`, which is unknown; its times are read as GMT"
            )
        recurs = bool(_member(schedule, "recurrences", list, place_of_schedule, []))
        if recurs:
            reasons.append("the policy has a recurring schedule; its recurrences are not evaluated")
        times = []
        for name in ("startTime", "endTime"):
            text = _member(schedule, name, str, place_of_schedule, "")
            try:
                times.append(datetime.strptime(text, SCHEDULE_TIME).replace(tzinfo=zone) if text else None)
            except ValueError:
                is_unclear = True
                reasons.append(
                    f"the policy has the {name} `{clip(text)}` in `{clip(zone_name)}`, which is not a time; it is no limit"
                )
                times.append(None)
        yield Schedule(times[0], times[1], recurs, is_unclear)


def _features(policy: Policy) -> Iterator[Feature]:
    if policy.deny or policy.deny_exceptions or policy.allow_exceptions:
        yield Feature.DENY
    if policy.schedules:
        yield Feature.SCHEDULE
    if policy.priority:
        yield Feature.PRIORITY
    if policy.denies_all_else:
        yield Feature.DENY_ALL_ELSE
    if any(item.roles for item in policy.items):
        yield Feature.ROLES
    if any(CURRENT_USER in item.users for item in policy.items):
        yield Feature.CURRENT_USER
