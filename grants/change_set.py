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
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from entities.address import Address, AddressError, parse_address
from entities.vocabulary import Privilege, VocabularyError, privilege_by_name
from grants.errors import GrantError, PrincipalError
from grants.policies.catalogue import UnknownGeneration, generation_by_name
from grants.policies.policy import Generation
from grants.policies.times import format_time
from grants.principal_names import format_principal, parse_principal
from grants.strict_json import json_from_bytes
from grants.validity import Validity, ValidityError

# a grant: principal, address and privilege; a membership: user and group
Key = tuple[str, Address, Privilege] | tuple[str, str]


@dataclass(frozen=True, slots=True)
class _OnGrant:
    """A change of one privilege of one principal on one address."""

    principal: str
    address: Address
    privilege: Privilege

    @property
    def key(self) -> Key:
        """The identity of the grant, without its period."""
        return self.principal, self.address, self.privilege

    def __str__(self) -> str:
        return f"{self.privilege} on {self.address} for {self.principal}"


@dataclass(frozen=True, slots=True)
class Grant(_OnGrant):
    """A principal gets a privilege, in a period. An existing grant gets this period."""

    verb: ClassVar[str] = "grant"
    validity: Validity = Validity()


@dataclass(frozen=True, slots=True)
class Revoke(_OnGrant):
    """A principal loses a privilege."""

    verb: ClassVar[str] = "revoke"


@dataclass(frozen=True, slots=True)
class _OnMembership:
    """A change of the membership of one user in one group, both by name."""

    user: str
    group: str

    @property
    def key(self) -> Key:
        """The identity of the membership, without its period."""
        return self.user, self.group

    @property
    def principals(self) -> tuple[str, str]:
        return f"user:{self.user}", f"group:{self.group}"

    def __str__(self) -> str:
        return f"the membership of user:{self.user} in group:{self.group}"


@dataclass(frozen=True, slots=True)
class Join(_OnMembership):
    """A user becomes a member of a group, in a period. An existing membership gets this period."""

    verb: ClassVar[str] = "join"
    validity: Validity = Validity()


@dataclass(frozen=True, slots=True)
class Leave(_OnMembership):
    """A user leaves a group."""

    verb: ClassVar[str] = "leave"


@dataclass(frozen=True, slots=True)
class Activate:
    """A user is activated. user: a name."""

    verb: ClassVar[str] = "activate"
    user: str


@dataclass(frozen=True, slots=True)
class Deactivate:
    """A user is deactivated: cannot sign in, and is denied everything. user: a name."""

    verb: ClassVar[str] = "deactivate"
    user: str


@dataclass(frozen=True, slots=True)
class MakePrincipal:
    """An account of the console becomes a principal. user: a name."""

    verb: ClassVar[str] = "principal"
    user: str


@dataclass(frozen=True, slots=True)
class RemovePrincipal:
    """A user or group is removed for good, with its memberships. principal: `user:NAME` or `group:NAME`.

    revokes_grants: its grants are revoked too; otherwise a principal with grants is not removed.
    """

    verb: ClassVar[str] = "remove"
    principal: str
    revokes_grants: bool = False


@dataclass(frozen=True, slots=True)
class Register:
    """A new or planned entity becomes live.

    creator: `user:NAME` receives the privileges that the generation grants to creators; empty for nobody.
    """

    verb: ClassVar[str] = "register"
    address: Address
    creator: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True)
class Recreate:
    """A deleted entity becomes live again, so that its remaining grants apply again. creator: see Register."""

    verb: ClassVar[str] = "recreate"
    address: Address
    creator: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True)
class Delete:
    """An entity is deleted, with all live entities inside it."""

    verb: ClassVar[str] = "delete"
    address: Address


@dataclass(frozen=True, slots=True)
class ActivateGeneration:
    """Another generation becomes active."""

    verb: ClassVar[str] = "generation"
    generation: Generation


Change = (
    Grant
    | Revoke
    | Join
    | Leave
    | Activate
    | Deactivate
    | MakePrincipal
    | RemovePrincipal
    | Register
    | Recreate
    | Delete
    | ActivateGeneration
)


class UnknownChange(GrantError):
    """A text does not describe a change."""


@dataclass(frozen=True, slots=True)
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


def inverse_of(change: Change, before: Validity | None = None) -> Change:
    """Return the change that undoes this one, if it changed something.

    before: the period of the grant or membership that it changed or ended; None for a new one. Raise
    GrantError for a change that cannot be undone.
    """
    match change:
        case Grant() | Join():
            return ending_of(change) if before is None else replace(change, validity=before)
        case Revoke(principal, address, privilege):
            return Grant(principal, address, privilege, before or Validity())
        case Leave(user, group):
            return Join(user, group, before or Validity())
        case Activate(user):
            return Deactivate(user)
        case Deactivate(user):
            return Activate(user)
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
    match change:
        case Grant(principal, address, privilege, validity):
            return [change.verb, principal, str(address), str(privilege), *_period_parts(validity)]
        case Revoke(principal, address, privilege):
            return [change.verb, principal, str(address), str(privilege)]
        case Join(user, group, validity):
            return [change.verb, user, group, *_period_parts(validity)]
        case Leave(user, group):
            return [change.verb, user, group]
        case Activate(user) | Deactivate(user) | MakePrincipal(user):
            return [change.verb, user]
        case RemovePrincipal(principal, revokes_grants):
            return [change.verb, principal, *(["yes"] if revokes_grants else [])]
        case Register(address, creator, description) | Recreate(address, creator, description):
            options = [creator, description] if description else [creator] if creator else []
            return [change.verb, str(address), *options]
        case Delete(address):
            return [change.verb, str(address)]
        case ActivateGeneration(generation):
            return [change.verb, generation.name]


def _period_parts(validity: Validity) -> list[str]:
    """Return the beginning and the end; nothing for a period without limits."""
    return [format_time(time) or "" for time in validity] if validity.is_limited else []


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
    match verb, parts:
        case "grant", (principal, address, privilege, *period) if len(period) in (0, 2):
            return Grant(*_grant_key(principal, address, privilege), Validity.parse(*period))
        case "revoke", (principal, address, privilege):
            return Revoke(*_grant_key(principal, address, privilege))
        case "join", (user, group, *period) if len(period) in (0, 2):
            return Join(_name("user", user), _name("group", group), Validity.parse(*period))
        case "leave", (user, group):
            return Leave(_name("user", user), _name("group", group))
        case "activate", (user,):
            return Activate(_name("user", user))
        case "deactivate", (user,):
            return Deactivate(_name("user", user))
        case "principal", (user,):
            return MakePrincipal(_name("user", user))
        case "generation", (name,):
            return ActivateGeneration(generation_by_name(name))
        case (("register" | "recreate"), (address, *rest)) if len(rest) < 3:
            creator, description = [*rest, "", ""][:2]
            state = Register if verb == "register" else Recreate
            return state(parse_address(address), format_principal(creator) if creator else "", description)
        case "delete", (address,):
            return Delete(parse_address(address))
        case "remove", (principal, *rest) if rest in ([], ["yes"]):
            return RemovePrincipal(format_principal(principal), bool(rest))
    raise ValueError(verb)


def _grant_key(principal: str, address: str, privilege: str) -> tuple[str, Address, Privilege]:
    return format_principal(principal), parse_address(address), privilege_by_name(privilege)


def _name(principal_type: str, name: str) -> str:
    """Return the name. Raise PrincipalError if a principal cannot have it."""
    return parse_principal(f"{principal_type}:{name}")[1]


def grants_to(principal: str, grants: Iterable[tuple[Address, Privilege]]) -> Iterator[Grant]:
    """Yield a change for each of these grants to the principal."""
    return (Grant(principal, address, privilege) for address, privilege in grants)


def ending_of(change: Grant | Join) -> Revoke | Leave:
    """Return the change that ends the grant or the membership."""
    if isinstance(change, Grant):
        return Revoke(change.principal, change.address, change.privilege)
    return Leave(change.user, change.group)


def principals_of(change: Change) -> tuple[str, ...]:
    """Return the principals of a grant, a revocation, a membership or an activation, in written form."""
    match change:
        case Grant(principal) | Revoke(principal):
            return (principal,)
        case Join() | Leave():
            return change.principals
        case Activate(user) | Deactivate(user):
            return (f"user:{user}",)
    return ()


def with_current_names(change: Change, current_name: Callable[[str], str]) -> Change:
    """Return the change with the current names of renamed principals."""

    def name_in(principal_type: str, name: str) -> str:
        return current_name(f"{principal_type}:{name}").removeprefix(f"{principal_type}:")

    match change:
        case Grant() | Revoke():
            return replace(change, principal=current_name(change.principal))
        case Join() | Leave():
            return replace(change, user=name_in("user", change.user), group=name_in("group", change.group))
        case Activate() | Deactivate():
            return replace(change, user=name_in("user", change.user))
    return change
