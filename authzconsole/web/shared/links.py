"""Links to entities and principals, for the tags `address` and `principal`."""

from urllib.parse import quote

from django.contrib.auth.models import Group
from django.urls import reverse

from entities.address import Address, AddressError, parse_grantable
from entities.frozen import frozen
from entities.models import Entity
from grants.holders import Holder
from grants.models import User
from grants.policies.principals import written_subject


@frozen
class AddressLink:
    """An address, split before its last part. `url` is empty if the account may not open the page."""

    kind: str
    lead: str
    last: str
    state: str = ""
    url: str = ""

    def __str__(self) -> str:
        return f"{self.lead}{self.last}"

    @property
    def parent_path(self) -> str:
        """The text between the kind and the last part."""
        return self.lead.partition(":")[2]


@frozen
class PrincipalLink:
    """A user, group or role.

    type, name: as they are written.

    `members` is the number of members of a group; None hides it. is_linked: with a link to its page.
    """

    type: str
    name: str
    is_inactive: bool = False
    members: int | None = None
    is_linked: bool = True

    @property
    def address(self) -> str:
        return f"{self.type}:{self.name}"

    @property
    def url(self) -> str:
        """The page of the principal, which only accounts that see everything can open; empty without a link."""
        return principal_url("person", self.address) if self.is_linked else ""


def address_link_to(target: Entity | Address | AddressLink | str, *, is_linked: bool) -> AddressLink:
    if isinstance(target, AddressLink):
        return target
    try:
        address = parse_grantable(target) if isinstance(target, str) else getattr(target, "address", target)
    except AddressError:
        # the kind existed when the text was written, but no longer does
        return AddressLink("entity", "", str(target))
    text, last = str(address), address.name
    url = entity_url(address) if is_linked else ""
    return AddressLink(address.kind, text[: len(text) - len(last)], last, getattr(target, "state", ""), url)


def entity_url(address: Address | Entity) -> str:
    return address_url("entity", address)


def entity_tab_url(address: Address | Entity, tab: str) -> str:
    """Return the URL of a tab of an entity's page; `authzconsole/web/entities/page.py` has the names of the
    tabs.
    """
    return f"{entity_url(address)}?tab={tab}"


def address_url(url_name: str, address: Address | Entity | str, *other_args: str) -> str:
    """Return a URL that ends with an address, after `other_args`.

    The characters `:`, `@` and `/` are not escaped.
    """
    return reverse(url_name, args=[*other_args, ":"]).removesuffix(":") + quote(str(address), safe=":@/")


def principal_url(url_name: str, principal: str) -> str:
    """Return a URL that ends with a principal. Slashes are escaped, because a name may contain them."""
    return reverse(url_name, args=["user:"]).removesuffix("user:") + quote(principal, safe=":@")


def principal_link(principal: User | Group | Holder | PrincipalLink | str) -> PrincipalLink:
    match principal:
        case PrincipalLink():
            return principal
        case str():
            return principal_link_from_text(principal)
        case Holder():
            written = written_subject(principal.kind, principal.name)
            return PrincipalLink(*written, not principal.is_active, principal.members)
        case Group():
            written = written_subject("group", principal.name)
            return PrincipalLink(*written, members=getattr(principal, "members", None))
    return PrincipalLink("user", principal.username, not principal.is_active)


def principal_link_from_text(text: str) -> PrincipalLink:
    """Return a link for text such as `user:alice`, without looking up the principal."""
    type_, _, name = text.partition(":")
    return PrincipalLink(type_, name)
