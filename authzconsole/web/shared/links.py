"""How an address and a principal are shown: what the pieces `address.html` and `principal.html` need."""

from dataclasses import dataclass, replace
from urllib.parse import quote

from django.contrib.auth.models import Group
from django.urls import reverse

from entities.address import Address
from entities.models import Entity
from grants.holders import Holder
from grants.models import User


@dataclass(frozen=True, slots=True)
class AddressLink:
    """An address with its last part apart. url is empty where this account may not look."""

    kind: str
    lead: str
    last: str
    state: str = ""
    url: str = ""

    def __str__(self) -> str:
        return f"{self.lead}{self.last}"

    @property
    def within(self) -> str:
        """What stands between the kind and the last part."""
        return self.lead.partition(":")[2]


@dataclass(frozen=True, slots=True)
class PrincipalLink:
    type: str
    name: str
    inactive: bool = False
    members: int | None = None

    @property
    def address(self) -> str:
        return f"{self.type}:{self.name}"

    @property
    def url(self) -> str:
        """Administrators and auditors look there; nobody else is shown principals."""
        return principal_url("person", self.address)

    def of(self, members: int) -> "PrincipalLink":
        """The same group with how many are in it."""
        return replace(self, members=members)


def address_link_to(what: Entity | Address, *, linked: bool = True) -> AddressLink:
    address = what.address if isinstance(what, Entity) else what
    text, last = str(address), address.name
    url = entity_url(address) if linked else ""
    return AddressLink(address.kind, text[: len(text) - len(last)], last, getattr(what, "state", ""), url)


def entity_url(address: Address | Entity) -> str:
    return address_url("entity", address)


def address_url(url_name: str, address: Address | Entity | str, *before: str) -> str:
    """Addresses stand in URLs as they are written: `:`, `@` and `/` need no escape there."""
    return reverse(url_name, args=[*before, ":"]).removesuffix(":") + quote(str(address), safe=":@/")


def principal_url(url_name: str, principal: str) -> str:
    """Names hold whatever they hold: a slash of a name must not end a part of the path."""
    return reverse(url_name, args=["user:"]).removesuffix("user:") + quote(principal, safe=":@")


def holder_link(holder: Holder) -> PrincipalLink:
    return PrincipalLink(holder.kind, holder.name, not holder.is_active, holder.members)


def principal_link(principal: User | Group, members: int | None = None) -> PrincipalLink:
    if isinstance(principal, Group):
        return PrincipalLink("group", principal.name, members=members)
    return PrincipalLink("user", principal.username, not principal.is_active)


def principal_link_from_text(text: str) -> PrincipalLink:
    """`user:alice`, for showing only."""
    type_, _, name = text.partition(":")
    return PrincipalLink(type_, name)
