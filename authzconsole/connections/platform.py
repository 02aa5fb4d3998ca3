"""What a platform is to the console: its entities, principals and grants, and the changes that it accepts.

A platform is read as a whole before anything is compared or written, so a fault in the middle changes nothing.
"""

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from typing import NamedTuple

from entities.address import Address, AddressError, address_of
from entities.vocabulary import Privilege, clip
from grants.change_set import Grant, Include, Join, Key
from grants.errors import GrantError, PrincipalError
from grants.models import Remark
from grants.principal_names import parse_principal


class ConnectionFault(GrantError):
    """A platform cannot be reached, read or changed, or its answer is refused. The message says what to check.

    field: of the connection that is at fault, such as `url` or `option_verify`; empty if it is none.
    """


class ChangedSinceShown(ConnectionFault):
    """The platform or the console changed since the changes of a push were shown. Nothing was changed."""


class Unsupported(NamedTuple):
    """Something that only one side can express. subject: as the side writes it."""

    subject: str
    reason: str


class PlatformChange(NamedTuple):
    """A change on a platform, in its words. verb: `grant`, `revoke`, or `create` for a role that is to hold grants.
    policy: the policy that is written, if the platform has policies.
    """

    verb: str
    principal: str
    entity: Address | None = None
    privileges: tuple[str, ...] = ()
    policy: str = ""


class MadeBy(NamedTuple):
    """Who made a grant on a platform, and when; empty and None if the platform does not say."""

    grantor: str
    at: datetime | None


class Platform(AbstractContextManager):
    """A connection to a platform. Entering it connects, and raises ConnectionFault if that fails.

    capabilities: the privileges that the platform can express; none if it shows no grants. policy_kinds: set if the
    platform has policies instead of entities: the kinds that they are about. Then its grants are on any addresses and
    patterns of these kinds and have periods, and `read_entities` yields no address. creations: by a word of the platform,
    until when the last sync knows what was created. recreated: what was created again since then, if the platform says so;
    maybe also what was created for the first time. grants_version: what changes with every change of its
    grants, if the platform says so. `read_entities` fills all three. remarks: what its policies have and grants cannot
    express; made_by: who made which grant, if the platform says so; both are filled by `read_grants`. version: of the
    platform, once it is entered; empty if it does not say. secret_name: the word for its secret, such as `token`; empty if it has none. option_names,
    required_options: the options of its connections.
    """

    capabilities: frozenset[Privilege] = frozenset()
    policy_kinds: frozenset[str] = frozenset()
    option_names: tuple[str, ...] = ()
    required_options: tuple[str, ...] = ()
    creations: Mapping[str, str] = {}
    recreated: Collection[Address] = ()
    version = grants_version = ""
    remarks: Collection[Remark] = ()
    made_by: Mapping[Key, MadeBy] = {}
    secret_name = ""

    @abstractmethod
    def __init__(self, url: str, options: Mapping[str, str], secret: str = ""):
        """Raise ConnectionFault if the address, an option or the secret is invalid."""

    @abstractmethod
    def read_entities(self) -> Iterator[Address | Unsupported]:
        """Yield every entity, containers first."""

    def is_absent(self, entity: Address) -> bool:
        """Return whether an entity that `read_entities` did not yield does not exist, and is not only hidden from the account."""
        return True

    def read_principals(self) -> Iterator[str | Unsupported]:
        """Yield the principals that exist on the platform itself, in written form."""
        yield from ()

    def read_members(self) -> Iterator[Join | Include | Unsupported]:
        """Yield the members of the roles of `read_principals`. Called after it."""
        yield from ()

    def read_grants(self) -> Iterator[Grant | Unsupported]:
        """Yield every grant."""
        yield from ()

    def changes_to(self, intended: Collection[Grant]) -> Iterator[PlatformChange | Unsupported]:
        """Yield the changes after which the platform grants exactly this on its entities. Called after `read_grants`. The
        members of roles stay as they are.
        """
        yield from ()

    def write_changes(self, changes: Collection[PlatformChange]) -> None:
        """Make the changes. Raise ConnectionFault if one fails; those before it are made."""
        raise NotImplementedError("this platform accepts no grants")


def principal_or_fault(principal: str) -> str | Unsupported:
    """Return a principal in written form, or why the console cannot have it."""
    try:
        parse_principal(principal)
    except PrincipalError as error:
        return Unsupported(principal, str(error))
    return principal


def address_or_fault(kind: str, key: str) -> Address | Unsupported:
    """Return the address of an entity, or why the console cannot have it."""
    try:
        return address_of(kind, key)
    except AddressError as error:
        return Unsupported(clip(f"{kind}:{key}", 300), str(error))
