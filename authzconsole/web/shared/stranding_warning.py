"""Which entities a change would leave with fewer than two active administrators, in the words of a plan, before it is made."""

from collections.abc import Collection
from dataclasses import dataclass

from authzconsole.web.shared.links import AddressLink, address_link_to, principal_url
from entities.address import Address
from entities.selectors import entity_at
from entities.vocabulary import Privilege
from grants.errors import PrincipalError
from grants.principal_rows import principals_by_name
from grants.principals.administrator_loss import MAX_ADMIN_GRANTS_READ, AdministratorLoss, loss_if_member_removed, loss_if_revoked

MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class StrandingWarning:
    """none, one: how many entities would be left with nobody and with one active user. rows: the first of them, each with how
    many administer it then. more_url: where the others stand; empty where nothing shows them.

    looked_at: so many grants of ADMIN were looked at and there are more; 0 where it was all of them.
    """

    none: int
    one: int
    rows: list[tuple[AddressLink, int]]
    more_url: str = ""
    looked_at: int = 0

    @property
    def total(self) -> int:
        return self.none + self.one

    @property
    def more(self) -> int:
        return self.total - len(self.rows)


def stranding_warning(leaving: AdministratorLoss, *, principal: str = "") -> StrandingWarning:
    """principal: who would leave or be removed, written `user:NAME` or `group:NAME`, where it is that."""
    return StrandingWarning(leaving.none, leaving.one,
                            [(address_link_to(row.entity), row.admins) for row in leaving.rows[:MOST_NAMED]],
                     principal_url("person-leaving", principal) if principal else "",
                     MAX_ADMIN_GRANTS_READ if leaving.is_cut else 0)


def revocation_warning(principal: str, address: Address, privileges: Collection[str]) -> StrandingWarning | None:
    """What revoking these from the principal would strand; None where ADMIN is not among them, or nothing is registered so."""
    found = _known(principal) if Privilege.ADMIN in privileges else []
    entity = entity_at(address) if found else None
    return stranding_warning(loss_if_revoked(found[0], entity)) if entity is not None else None


def membership_removal_warning(user: str, group: str) -> StrandingWarning | None:
    """What it would strand if the user left the group; None where there is no such user or group. user, group: their names."""
    found = _known(f"user:{user}", f"group:{group}")
    return stranding_warning(loss_if_member_removed(*found)) if found else None


def _known(*written: str) -> list:
    """The principals in this order; empty where one of them is not known."""
    try:
        found = principals_by_name(written)
    except PrincipalError:
        return []
    return [found[text] for text in written] if len(found) == len(written) else []
