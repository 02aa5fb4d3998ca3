"""Warn before a change about the entities that it would leave with fewer than two active administrators."""

from collections.abc import Collection
from dataclasses import dataclass

from authzconsole.web.shared.links import AddressLink, address_link_to, principal_url
from entities.address import Address
from entities.selectors import entity_at
from entities.vocabulary import Privilege
from grants.administrators import Strandings
from grants.errors import PrincipalError
from grants.principal_rows import principals_by_name
from grants.principals.administrator_loss import (
    MAX_ADMIN_GRANTS_READ,
    AdministratorLoss,
    loss_if_member_removed,
    loss_if_revoked,
)

MAX_ROWS = 5


@dataclass(frozen=True, slots=True)
class StrandingWarning:
    """The entities that would be stranded.

    without_admin_count, one_admin_count: number of entities without an administrator, and with only one.
    rows: the first entities, each with its number of remaining administrators.
    more_url: the page that lists all entities; empty if there is no such page.
    max_checked: number of ADMIN grants that were checked; 0 if all of them were.
    """

    without_admin_count: int
    one_admin_count: int
    rows: list[tuple[AddressLink, int]]
    more_url: str = ""
    max_checked: int = 0

    @property
    def total(self) -> int:
        return self.without_admin_count + self.one_admin_count

    @property
    def more(self) -> int:
        return self.total - len(self.rows)


def stranding_warning(loss: AdministratorLoss, *, principal: str = "") -> StrandingWarning:
    """Return the warning for a loss of administrators.

    principal: the user or group that would be removed (`user:NAME` or `group:NAME`), if the change removes
    one.
    """
    rows = [(address_link_to(row.entity), row.admin_count) for row in loss.first_entities[:MAX_ROWS]]
    more_url = principal_url("person-off-board", principal) if principal else ""
    max_checked = MAX_ADMIN_GRANTS_READ if loss.is_truncated else 0
    return StrandingWarning(loss.without_admin_count, loss.one_admin_count, rows, more_url, max_checked)


def warning_of_strandings(strandings: Strandings, max_rows: int = MAX_ROWS) -> StrandingWarning:
    """Return the warning for the entities that changes strand."""
    rows = [(address_link_to(row.address), row.admin_count) for row in strandings.entities[:max_rows]]
    return StrandingWarning(strandings.without_admin_count, strandings.one_admin_count, rows)


def revocation_warning(
    principal: str, address: Address, privileges: Collection[str]
) -> StrandingWarning | None:
    """Return the warning for revoking these privileges; None if ADMIN is not among them or the entity is not
    registered.
    """
    principals = _principal_rows(principal) if Privilege.ADMIN in privileges else []
    entity = entity_at(address) if principals else None
    return stranding_warning(loss_if_revoked(principals[0], entity)) if entity is not None else None


def membership_removal_warning(user: str, group: str) -> StrandingWarning | None:
    """Return the warning for removing the user from the group; None if either name is unknown."""
    principals = _principal_rows(f"user:{user}", f"group:{group}")
    return stranding_warning(loss_if_member_removed(*principals)) if principals else None


def _principal_rows(*names: str) -> list:
    """Return the principals in this order; an empty list if one of them is unknown."""
    try:
        principals = principals_by_name(names)
    except PrincipalError:
        return []
    return [principals[name] for name in names] if len(principals) == len(names) else []
