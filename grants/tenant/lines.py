"""Parse and validate one line of a tenant document.

Each reader reports the fault of an invalid member and returns None. A line without `description`, `active`,
`email` or `members` leaves the stored value unchanged.
"""

from collections.abc import Callable, Collection
from datetime import datetime
from functools import cache, lru_cache
from sys import intern
from typing import NamedTuple

from entities.address import Address, AddressError, parse_address, parse_grantable
from entities.models import State
from entities.services import instance_fault
from entities.text import storage_fault
from entities.vocabulary import Privilege, VocabularyError, clip, privilege_by_name
from grants.errors import GuardrailError, PrincipalError
from grants.grant_attributes import GrantAttributes
from grants.guardrails.rules import Rule, check_guardrail_name, rule_from_members
from grants.policies.principals import ROLE_PREFIX, principal_text
from grants.policies.times import TimeError, parse_time
from grants.principal_names import name_fault, parse_principal
from grants.validity import VALIDITY_COLUMNS, Validity, ValidityError

MAX_EMAIL_CHARACTERS = 254
STATES = tuple(State.values)

_ABSENT = object()
_NO_LIMITS = Validity()


class EntityLine(NamedTuple):
    """A line of type `entity`. line: its number, as in the other types. description: None if the line does
    not set it.
    """

    line: int
    address: str
    state: str
    description: str | None


class UserLine(NamedTuple):
    """A line of type `user`. active, email: None if the line does not set them."""

    line: int
    name: str
    active: bool | None
    email: str | None


class GroupLine(NamedTuple):
    """A line of type `group` or `role`. name: as it is stored. groups: the periods of the groups in a role, as
    `members` those of users. members: the periods of the members by name; None if the line does not list
    them.
    """

    line: int
    name: str
    members: dict[str, Validity] | None
    groups: dict[str, Validity] | None = None


class GrantLine(NamedTuple):
    """A line of type `grant`. principal: ("user" or "group", name). validity: the period, which may have
    ended.
    """

    line: int
    principal: tuple[str, str]
    address: str
    privileges: tuple[Privilege, ...]
    attributes: GrantAttributes
    validity: Validity = Validity()


class ExceptionEntry(NamedTuple):
    """An exception in a line of type `guardrail`. principal, within: empty for everybody and everywhere."""

    principal: str
    within: str
    owner: str
    valid_until: datetime
    reason: str


class GuardrailLine(NamedTuple):
    """A line of type `guardrail`. exceptions: None if the line does not list them."""

    line: int
    name: str
    rule: Rule
    exceptions: tuple[ExceptionEntry, ...] | None


Line = EntityLine | UserLine | GroupLine | GrantLine | GuardrailLine


class MemberReader:
    """Read the members of the JSON object of one line, and pass faults to `report_fault(field, reason)`."""

    def __init__(self, body: dict, report_fault):
        self.body = body
        self._report_fault = report_fault

    def allow_only(self, *known: str) -> None:
        """Report a fault if the object has other members."""
        if unknown := [name for name in self.body if name not in known]:
            names = ", ".join(f"`{clip(name, 40)}`" for name in unknown[:3]) + (
                ", …" if len(unknown) > 3 else ""
            )
            self._report_fault(
                clip(unknown[0], 40),
                f"{names} is not a member of this line; its members are {', '.join(known)}",
            )

    def text(self, field: str, *, default=_ABSENT) -> str | None:
        """Return text that a database can store."""
        value = self.body.get(field, _ABSENT)
        if value is _ABSENT:
            return self.invalid(field, "it is missing") if default is _ABSENT else default
        if not isinstance(value, str):
            return self.invalid(field, f"it must be text, not {_json_type_of(value)}")
        if reason := storage_fault(value):
            return self.invalid(field, reason)
        return value

    def choice(self, field: str, choices: tuple[str, ...], *, default=_ABSENT) -> str | None:
        value = self.text(field, default=default)
        if value is None or value in choices:
            return value
        return self.invalid(field, f"`{clip(value)}` is not one of {', '.join(choices)}")

    def flag(self, field: str) -> bool | None:
        value = self.body.get(field, _ABSENT)
        if value is _ABSENT or isinstance(value, bool):
            return None if value is _ABSENT else value
        return self.invalid(field, f"it must be true or false, not {_json_type_of(value)}")

    def name(self, field: str) -> str | None:
        value = self.text(field)
        if value is not None and (reason := name_fault(value)):
            return self.invalid(field, reason)
        return value

    def email(self, field: str) -> str | None:
        value = self.text(field, default=None)
        if value is None:
            return None
        if len(value) > MAX_EMAIL_CHARACTERS:
            return self.invalid(
                field, f"it has {len(value):,} characters; {MAX_EMAIL_CHARACTERS} are allowed"
            )
        return (
            value
            if value.isprintable()
            else self.invalid(field, "it contains a character that cannot be printed")
        )

    def group_members(self, field: str) -> dict[str, Validity] | None:
        """Return the periods of members by name. Each entry is a name, or an object with a name and times.

        Return None if the line has no such member.
        """
        value = self.body.get(field, _ABSENT)
        if value is _ABSENT:
            return None
        if not isinstance(value, list):
            return self.invalid(field, f"it must be a list of names, not {_json_type_of(value)}")
        periods: dict[str, Validity] = {}
        for position, entry in enumerate(value, start=1):
            name, validity, reason = _parse_member(entry)
            if reason := reason or _member_name_fault(name, periods):
                return self.invalid(field, f"entry {position}: {reason}")
            periods[intern(name)] = validity
        return periods

    def role_members(self, field: str) -> tuple[dict[str, Validity], dict[str, Validity]] | None:
        """Return the periods of users and of groups by name, like `group_members`. The names are written
        `user:NAME` and `group:NAME`.
        """
        written = self.group_members(field)
        if written is None:
            return None
        users: dict[str, Validity] = {}
        groups: dict[str, Validity] = {}
        for position, (member, validity) in enumerate(written.items(), start=1):
            try:
                kind, name = parse_principal(member)
            except PrincipalError as error:
                return self.invalid(field, f"entry {position}: {error}")
            if name.startswith(ROLE_PREFIX) and kind == "group":
                return self.invalid(field, f"entry {position}: a role cannot contain a role")
            (users if kind == "user" else groups)[intern(name)] = validity
        return users, groups

    def validity(self, *, has_to_last: bool = False) -> Validity | None:
        """Return the period in the members `valid_from` and `valid_until`. has_to_last: the end must not be
        in the past.
        """
        times = {}
        for field in VALIDITY_COLUMNS:
            value = self.body.get(field, "")
            if not isinstance(value, str):
                return self.invalid(field, f"it must be text, not {_json_type_of(value)}")
            times[field] = value.strip()
        if not any(times.values()):
            return _NO_LIMITS
        try:
            validity = _parse_validity(**times)
            if has_to_last:
                validity.check_not_over()
        except ValidityError as error:
            return self.invalid(error.field, str(error))
        return validity

    def address(self, field: str, parse: Callable[[str], Address] = parse_address) -> str | None:
        value = self.text(field)
        if value is None:
            return None
        try:
            address = parse(value)
        except AddressError as error:
            return self.invalid(field, str(error))
        if reason := instance_fault(address):
            return self.invalid(field, reason)
        return intern(str(address))

    def principal(self, field: str) -> tuple[str, str] | None:
        value = self.text(field)
        if value is None:
            return None
        try:
            kind, name = parse_principal(value)
        except PrincipalError as error:
            return self.invalid(field, str(error))
        return intern(kind), intern(name)

    def privileges(self, field: str) -> tuple[Privilege, ...] | None:
        value = self.body.get(field, _ABSENT)
        if value is _ABSENT:
            return self.invalid(field, f"it is missing: list at least one of {', '.join(Privilege)}")
        if not isinstance(value, list):
            return self.invalid(field, f"it must be a list, not {_json_type_of(value)}")
        if not value:
            return self.invalid(field, f"it is empty: list at least one of {', '.join(Privilege)}")
        try:
            return _sorted_privileges(frozenset(map(_privilege, value)))
        except VocabularyError as error:
            return self.invalid(field, str(error))

    def exceptions(self, field: str) -> tuple[ExceptionEntry, ...] | None:
        """Return the exceptions from a guardrail. Return None if the line has no such member."""
        value = self.body.get(field, _ABSENT)
        if value is _ABSENT:
            return None
        if not isinstance(value, list):
            return self.invalid(field, f"it must be a list, not {_json_type_of(value)}")
        entries: dict[tuple[str, str], ExceptionEntry] = {}
        for position, body in enumerate(value, start=1):
            entry, reason = _parse_exception(body)
            if entry is None:
                return self.invalid(field, f"entry {position}: {reason}")
            if entries.setdefault(entry[:2], entry) is not entry:
                return self.invalid(field, f"entry {position}: it is listed twice")
        return tuple(entries.values())

    def invalid(self, field: str, reason: str) -> None:
        self._report_fault(field, reason)


def parse_line(number: int, body: object, report_fault) -> Line | None:
    """Return the line in a parsed JSON value; None if its type or its identity is invalid.

    Report every fault.
    """
    if not isinstance(body, dict):
        return report_fault("", f"it must be a JSON object, not {_json_type_of(body)}")
    members = MemberReader(body, report_fault)
    kind = members.choice("type", tuple(_READERS))
    return None if kind is None else _READERS[kind](number, members)


def _entity(number: int, members: MemberReader) -> EntityLine | None:
    members.allow_only("type", "id", "state", "description")
    address = members.address("id")
    state = members.choice("state", STATES, default=str(State.LIVE))
    description = members.text("description", default=None)
    return address and EntityLine(number, address, state, description)


def _user(number: int, members: MemberReader) -> UserLine | None:
    members.allow_only("type", "name", "active", "email")
    name, active, email = members.name("name"), members.flag("active"), members.email("email")
    return name and UserLine(number, intern(name), active, email)


def _group(number: int, members: MemberReader) -> GroupLine | None:
    members.allow_only("type", "name", "members")
    name, periods = members.name("name"), members.group_members("members")
    if name and name.startswith(ROLE_PREFIX):
        return members.invalid("name", f"`{clip(name)}` is a role: write a line of the type role")
    return name and GroupLine(number, intern(name), periods)


def _role(number: int, members: MemberReader) -> GroupLine | None:
    members.allow_only("type", "name", "members")
    name, periods = members.name("name"), members.role_members("members")
    if name and (fault := name_fault(ROLE_PREFIX + name)):
        return members.invalid("name", fault)
    return name and GroupLine(number, intern(ROLE_PREFIX + name), *(periods or (None, None)))


def _grant(number: int, members: MemberReader) -> GrantLine | None:
    members.allow_only(
        "type", "principal", "entity", "privileges", *VALIDITY_COLUMNS, *GrantAttributes._fields
    )
    principal, address = members.principal("principal"), members.address("entity", parse_grantable)
    privileges, validity = members.privileges("privileges"), members.validity()
    attributes = [ATTRIBUTE_READERS[name](members, name) for name in GrantAttributes._fields]
    if None in (principal, address, privileges, validity, *attributes):
        return None
    return GrantLine(number, principal, address, privileges, _shared_attributes(*attributes), validity)


def _guardrail(number: int, members: MemberReader) -> GuardrailLine | None:
    body = {name: value for name, value in members.body.items() if name not in ("type", "name", "exceptions")}
    exceptions = members.exceptions("exceptions")
    try:
        name = check_guardrail_name(members.body.get("name"))
        rule = rule_from_members(body)
    except GuardrailError as error:
        return members.invalid(error.field, error.reason)
    return GuardrailLine(number, name, rule, exceptions)


# By column of GrantAttributes. Each reader returns None for an invalid value, and a default if the line has
# no such member.
ATTRIBUTE_READERS = {"reason": lambda members, name: members.text(name, default="")}


_READERS = {
    "entity": _entity,
    "user": _user,
    "group": _group,
    "role": _role,
    "grant": _grant,
    "guardrail": _guardrail,
}


@lru_cache(maxsize=1_000)
def _shared_attributes(*values) -> GrantAttributes:
    """Return the same object for equal values, because most lines of a document have the same few values."""
    return GrantAttributes(*values)


@lru_cache(maxsize=1_000)
def _parse_validity(valid_from: str, valid_until: str) -> Validity:
    """Return the same object for equal times, because many lines of a document have the same period."""
    return Validity.parse(valid_from, valid_until)


def _parse_member(entry: object) -> tuple[str, Validity, str]:
    """Return name, period and fault of a member of a group."""
    if not isinstance(entry, dict):
        return entry, _NO_LIMITS, ""
    if unknown := next((member for member in entry if member not in ("name", *VALIDITY_COLUMNS)), None):
        members = ", ".join(("name", *VALIDITY_COLUMNS))
        return (
            "",
            _NO_LIMITS,
            f"`{clip(unknown, 40)}` is not a member of this object; its members are {members}",
        )
    faults: list[str] = []
    validity = MemberReader(entry, lambda field, reason: faults.append(f"`{field}`: {reason}")).validity()
    return entry.get("name"), validity or _NO_LIMITS, faults[0] if faults else ""


def _parse_exception(body: object) -> tuple[ExceptionEntry | None, str]:
    """Return an exception from a guardrail, or why it is none."""
    if not isinstance(body, dict):
        return None, f"it must be an object, not {_json_type_of(body)}"
    faults: list[str] = []
    members = MemberReader(body, lambda field, reason: faults.append(f"`{field}`: {reason}"))
    members.allow_only("principal", "within", "owner", "valid_until", "reason")
    principal = members.principal("principal") if "principal" in body else ()
    within = members.address("within") if "within" in body else ""
    owner, reason, end = members.name("owner"), members.text("reason"), members.text("valid_until")
    if reason is not None and not reason.strip():
        faults.append("`reason`: it is empty")
    try:
        valid_until = parse_time(end or "").replace(microsecond=0)
    except TimeError as error:
        faults.append(f"`valid_until`: {error}")
    if faults or principal is None or within is None or owner is None or reason is None:
        return None, faults[0]
    return ExceptionEntry(principal and principal_text(*principal), within, owner, valid_until, reason), ""


def _privilege(value: object) -> Privilege:
    if not isinstance(value, str):
        raise VocabularyError(f"each entry must be text, not {_json_type_of(value)}")
    return privilege_by_name(value)


@cache
def _sorted_privileges(privileges: frozenset[Privilege]) -> tuple[Privilege, ...]:
    return tuple(privilege for privilege in Privilege if privilege in privileges)


def _member_name_fault(name: object, earlier_names: Collection[str]) -> str:
    if not isinstance(name, str):
        return f"a name must be text, not {_json_type_of(name)}"
    return f"`{clip(name)}` is listed twice" if name in earlier_names else name_fault(name)


def _json_type_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case _:
            return "an object"
