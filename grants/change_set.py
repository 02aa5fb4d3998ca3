"""Changes, and sets of changes that are made together or not at all.

A change is one value of the union `Change`. Pages, REST, plans, requests, reviews and files build them,
`grants.effects` evaluates them, and `grants.changes` makes them. Their JSON form is a list of texts such as
`["revoke","user:alice","dataset:sales.orders","READ"]`. It is used in URLs and in the options of runs.

Principals are written in full, such as `user:alice`; users and groups of memberships are plain names. A
change that has no effect on the stored data, such as a grant that exists already, is allowed and changes
nothing.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, replace
from functools import partial
from typing import Any, ClassVar, Self, get_args

from entities.address import Address, AddressError, parse_address, parse_grantable
from entities.frozen import frozen
from entities.vocabulary import Privilege, VocabularyError, privilege_by_name
from grants.errors import GrantError, PrincipalError
from grants.policies.catalogue import UnknownGeneration, generation_by_name
from grants.policies.policy import Generation
from grants.policies.principals import group_text, is_group_text, principal_text, type_and_name
from grants.policies.times import format_time
from grants.principal_names import format_principal, parse_principal
from grants.strict_json import json_from_bytes
from grants.validity import Validity, ValidityError

# a grant: principal, address and privilege; a membership: the member and the group or role; principals in written form
Key = tuple[str, Address, Privilege] | tuple[str, str]


@frozen
class _OnGrant:
    """A change of one privilege of one principal on one address."""

    principal: str
    address: Address
    privilege: Privilege

    @property
    def key(self) -> Key:
        """The identity of the grant, without its period."""
        return self.principal, self.address, self.privilege

    @property
    def sort_key(self) -> tuple[str, str, Privilege]:
        """The key that sorts by principal, address and privilege."""
        return self.principal, str(self.address), self.privilege

    def __str__(self) -> str:
        return f"{self.privilege} on {self.address} for {self.principal}"


@frozen
class Grant(_OnGrant):
    """A principal gets a privilege, in a period. An existing grant gets this period."""

    verb: ClassVar[str] = "grant"
    validity: Validity = Validity()


@frozen
class Revoke(_OnGrant):
    """A principal loses a privilege."""

    verb: ClassVar[str] = "revoke"


@frozen
class _OnMembership:
    """A change of the membership of one user in one group, both by name."""

    user: str
    group: str

    @property
    def key(self) -> tuple[str, str]:
        """The identity of the membership, without its period."""
        return f"user:{self.user}", group_text(self.group)

    def __str__(self) -> str:
        return "the membership of {} in {}".format(*self.key)


@frozen
class Join(_OnMembership):
    """A user becomes a member of a group, in a period. An existing membership gets this period."""

    verb: ClassVar[str] = "join"
    validity: Validity = Validity()


@frozen
class Leave(_OnMembership):
    """A user leaves a group."""

    verb: ClassVar[str] = "leave"


@frozen
class _OnRoleGroup:
    """A change of the membership of one group in one role, both as they are stored."""

    group: str
    role: str

    @property
    def key(self) -> tuple[str, str]:
        """The identity of the membership, without its period."""
        return group_text(self.group), group_text(self.role)

    def __str__(self) -> str:
        return "the membership of {} in {}".format(*self.key)


@frozen
class Include(_OnRoleGroup):
    """A group becomes a member of a role, in a period. An existing membership gets this period."""

    verb: ClassVar[str] = "include"
    validity: Validity = Validity()


@frozen
class Exclude(_OnRoleGroup):
    """A group leaves a role."""

    verb: ClassVar[str] = "exclude"


@frozen
class Activate:
    """A user is activated. user: a name."""

    verb: ClassVar[str] = "activate"
    user: str


@frozen
class Deactivate:
    """A user is deactivated: cannot sign in, and is denied everything. user: a name."""

    verb: ClassVar[str] = "deactivate"
    user: str


@frozen
class MakePrincipal:
    """An account of the console becomes a principal. user: a name."""

    verb: ClassVar[str] = "principal"
    user: str


@frozen
class AddUser:
    """A user without a password is added as a principal. It is written before the other changes of its set.
    user: a name.
    """

    verb: ClassVar[str] = "add-user"
    user: str

    def __str__(self) -> str:
        return f"user:{self.user}"


@frozen
class AddGroup:
    """A group without members is added. It is written before the other changes of its set. group: a name."""

    verb: ClassVar[str] = "add"
    group: str

    def __str__(self) -> str:
        return group_text(self.group)


@frozen
class RemovePrincipal:
    """A user or group is removed for good, with its memberships. principal: `user:NAME` or `group:NAME`.

    revokes_grants: its grants are revoked too; otherwise a principal with grants is not removed.
    """

    verb: ClassVar[str] = "remove"
    principal: str
    revokes_grants: bool = False


@frozen
class Rename:
    """A user or group gets another name. Decisions are about names, so its grants count for the new name only.

    principal: `user:NAME` or `group:NAME`. new_name: without the type.
    """

    verb: ClassVar[str] = "rename"
    principal: str
    new_name: str


@frozen
class Register:
    """A new or planned entity becomes live.

    creator: `user:NAME` receives the privileges that the generation grants to creators; empty for nobody.
    """

    verb: ClassVar[str] = "register"
    address: Address
    creator: str = ""
    description: str = ""


@frozen
class Recreate:
    """A deleted entity becomes live again, so that its remaining grants apply again. creator: see Register."""

    verb: ClassVar[str] = "recreate"
    address: Address
    creator: str = ""
    description: str = ""


@frozen
class Delete:
    """An entity is deleted, with all live entities inside it."""

    verb: ClassVar[str] = "delete"
    address: Address


@frozen
class ActivateGeneration:
    """Another generation becomes active."""

    verb: ClassVar[str] = "generation"
    generation: Generation


@frozen
class ApplyPlan:
    """A plan is applied together with the other changes. plan: its number."""

    verb: ClassVar[str] = "plan"
    plan: int

    def __str__(self) -> str:
        return f"plan {self.plan}"


@frozen
class SetGuardrail:
    """A guardrail is added, or gets another content. rule: its canonical text (grants.guardrails.rules)."""

    verb: ClassVar[str] = "guardrail-set"
    guardrail: str
    rule: str


@frozen
class DeleteGuardrail:
    """A guardrail is deleted, with the exceptions from it."""

    verb: ClassVar[str] = "guardrail-delete"
    guardrail: str


@frozen
class _OnException:
    """A change of the exception from a guardrail for a principal and a place with its contents.

    subject: in written form; empty for everybody. place: an address in written form; empty for everywhere.
    """

    guardrail: str
    subject: str = ""
    place: str = ""

    def __str__(self) -> str:
        subject = f" for {self.subject}" if self.subject else ""
        return f"the exception from {self.guardrail}{subject}" + (
            f" within {self.place}" if self.place else ""
        )


@frozen
class SetException(_OnException):
    """Violations are accepted until a time, with the reason of the author. An existing exception is replaced.

    owner: the name of the user who answers for it. valid_until: RFC 3339.
    """

    verb: ClassVar[str] = "exception-set"
    owner: str = ""
    valid_until: str = ""


@frozen
class EndException(_OnException):
    """Violations are no longer accepted."""

    verb: ClassVar[str] = "exception-end"


GuardrailChange = SetGuardrail | DeleteGuardrail | SetException | EndException


Change = (
    Grant
    | Revoke
    | Join
    | Leave
    | Include
    | Exclude
    | Activate
    | Deactivate
    | MakePrincipal
    | AddUser
    | AddGroup
    | RemovePrincipal
    | Rename
    | Register
    | Recreate
    | Delete
    | ActivateGeneration
    | ApplyPlan
    | GuardrailChange
)


MembershipChange = Join | Leave | Include | Exclude
# changes with a period
Addition = Grant | Join | Include


class UnknownChange(GrantError):
    """A text does not describe a change."""


@frozen
class ChangeSet:
    """Changes that are made together or not at all."""

    changes: tuple[Change, ...] = ()

    @classmethod
    def of(cls, *changes: Change) -> Self:
        return cls(changes)

    def __iter__(self) -> Iterator[Change]:
        return iter(self.changes)

    def __len__(self) -> int:
        return len(self.changes)

    @property
    def texts(self) -> list[str]:
        """The JSON forms of the changes as texts, without what has no effect on permissions."""
        return [as_text(_relevant_part(change)) for change in self.changes]

    @property
    def identity(self) -> str:
        """A hash of `texts`, so that a form can tell whether the effect that it showed was that of the same
        changes.
        """
        return hashlib.sha256("\n".join(self.texts).encode()).hexdigest()[:16]


def inverse_of(change: Change, before: Validity | GuardrailChange | None = None) -> Change:
    """Return the change that undoes this one, if it changed something.

    before: the period of the grant or membership that it changed or ended, or the change that would set the
    guardrail or exception as it was; None for a new one. The inverse of a removal adds the group without members
    and grants. Raise GrantError for a change that cannot be undone.
    """
    if isinstance(before, GuardrailChange):
        return before
    match change:
        case SetGuardrail(guardrail):
            return DeleteGuardrail(guardrail)
        case SetException(guardrail, subject, place):
            return EndException(guardrail, subject, place)
        case Grant() | Join() | Include():
            return ending_of(change) if before is None else replace(change, validity=before)
        case Revoke(principal, address, privilege):
            return Grant(principal, address, privilege, before or Validity())
        case Leave(user, group):
            return Join(user, group, before or Validity())
        case Exclude(group, role):
            return Include(group, role, before or Validity())
        case Activate(user):
            return Deactivate(user)
        case Deactivate(user):
            return Activate(user)
        case AddUser() | AddGroup():
            return RemovePrincipal(str(change))
        case RemovePrincipal(principal) if is_group_text(principal):
            return AddGroup(type_and_name(principal)[1])
    raise GrantError(f"`{change.verb}` cannot be undone")


def _relevant_part(change: Change) -> Change:
    """Return the change without the members that have no effect on permissions."""
    match change:
        case Register() | Recreate():
            return replace(change, description="")
        case RemovePrincipal():
            return replace(change, revokes_grants=False)
    return change


def as_json(change: Change) -> list[str]:
    """Return the JSON form: the verb and the members, without empty ones at the end."""
    parts = [change.verb]
    for member in fields(change):
        parts += _texts_of_member(getattr(change, member.name))
    if isinstance(change, Addition):
        return parts
    return parts[: max(number for number, part in enumerate(parts, 1) if part)]


def _texts_of_member(value: object) -> list[str]:
    match value:
        case Validity():
            # the beginning and the end; nothing for a period without limits
            return [format_time(time) or "" for time in value] if value.is_limited else []
        case Generation():
            return [value.name]
        case bool():
            return ["yes" if value else ""]
    return [str(value)]


def as_text(change: Change) -> str:
    """Return the JSON form as a text."""
    return json.dumps(as_json(change), ensure_ascii=False, separators=(",", ":"))


def change_from_text(text: str) -> Change:
    """Return the change that `as_text` wrote. Raise UnknownChange if the text describes none."""
    try:
        return change_from_json(json_from_bytes(text.encode(), text_name="the change"))
    except ValueError:
        raise UnknownChange("this is not a change that can be evaluated") from None


def change_from_json(parts: Any) -> Change:
    """Return the change with this JSON form. Raise UnknownChange if it is not one."""
    try:
        if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
            raise ValueError
        return _change(*parts)
    except (
        KeyError,
        ValueError,
        TypeError,
        AddressError,
        VocabularyError,
        PrincipalError,
        UnknownGeneration,
        ValidityError,
    ):
        raise UnknownChange("this is not a change that can be evaluated") from None


def _change(verb: str, *parts: str) -> Change:
    type_ = _TYPES[verb]
    names = [member.name for member in fields(type_) if member.name in _MEMBERS]
    values, period = zip(names, parts, strict=False), parts[len(names) :]
    if period and (len(period) != 2 or not issubclass(type_, Addition)):
        raise ValueError(verb)
    change = type_(
        *(_MEMBERS[name](part) for name, part in values), *([Validity.parse(*period)] if period else [])
    )
    if isinstance(change, Register | Recreate | Delete) and change.address.is_pattern:
        raise ValueError(verb)
    return change


def _name(principal_type: str, name: str) -> str:
    """Return the name. Raise PrincipalError if a principal cannot have it."""
    return parse_principal(principal_text(principal_type, name))[1]


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise ValueError(text)
    return int(text)


def _flag(text: str) -> bool:
    if text != "yes":
        raise ValueError(text)
    return True


# by verb, and by member: the function that reads its text
_TYPES: dict[str, Any] = {type_.verb: type_ for type_ in get_args(Change)}
_MEMBERS: dict[str, Callable[[str], Any]] = {
    "principal": format_principal,
    "address": parse_grantable,
    "privilege": privilege_by_name,
    "user": partial(_name, "user"),
    "group": partial(_name, "group"),
    "role": partial(_name, "group"),
    "new_name": partial(_name, "user"),
    "creator": lambda text: format_principal(text) if text else "",
    "description": str,
    "generation": generation_by_name,
    "plan": _number,
    "revokes_grants": _flag,
    "guardrail": str,
    "rule": str,
    "subject": lambda text: format_principal(text) if text else "",
    "place": lambda text: str(parse_address(text)) if text else "",
    "owner": str,
    "valid_until": str,
}


def grants_to(principal: str, grants: Iterable[tuple[Address, Privilege]]) -> Iterator[Grant]:
    """Yield a change for each of these grants to the principal."""
    return (Grant(principal, address, privilege) for address, privilege in grants)


def ending_of(change: Addition) -> Revoke | Leave | Exclude:
    """Return the change that ends the grant or the membership."""
    if isinstance(change, Include):
        return Exclude(change.group, change.role)
    if isinstance(change, Grant):
        return Revoke(change.principal, change.address, change.privilege)
    return Leave(change.user, change.group)


def principals_of(change: Change) -> tuple[str, ...]:
    """Return the principals of a grant, a revocation, a membership, an activation, a new group or a removal, in
    written form.
    """
    match change:
        case Grant(principal) | Revoke(principal):
            return (principal,)
        case Join() | Leave() | Include() | Exclude():
            return change.key
        case Activate(user) | Deactivate(user):
            return (f"user:{user}",)
        case AddUser() | AddGroup():
            return (str(change),)
        case RemovePrincipal(principal):
            return (principal,)
    return ()


def with_current_names(change: Change, current_name: Callable[[str], str]) -> Change:
    """Return the change with the current names of renamed principals."""

    def name_in(principal_type: str, name: str) -> str:
        return type_and_name(current_name(principal_text(principal_type, name)))[1]

    match change:
        case Grant() | Revoke() | RemovePrincipal():
            return replace(change, principal=current_name(change.principal))
        case Join() | Leave():
            return replace(change, user=name_in("user", change.user), group=name_in("group", change.group))
        case Include() | Exclude():
            return replace(change, group=name_in("group", change.group), role=name_in("group", change.role))
        case Activate() | Deactivate():
            return replace(change, user=name_in("user", change.user))
    return change
