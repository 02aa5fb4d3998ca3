"""The limits of delegation: what delegates may grant and revoke, and for how long.

The settings DELEGATION_PRIVILEGES, DELEGATION_KINDS and DELEGATION_MAX_DAYS are the default and the upper
bound. Administrators set narrower limits (`grants.authority.delegation_limits`).
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

from django.conf import settings
from django.utils import timezone

from entities.address import Address
from entities.vocabulary import Privilege
from grants.models import StoredDelegationLimits, User
from grants.validity import Validity

_CACHE = "_delegation_limits"


@dataclass(frozen=True, slots=True)
class DelegationLimits:
    """What delegates may grant and revoke. kinds: None for all. max_days: the longest period of a grant; 0
    for no limit.
    """

    privileges: frozenset[str]
    kinds: frozenset[str] | None
    max_days: int

    @classmethod
    def from_settings(cls) -> Self:
        """Return the upper bound. Runs no query."""
        kinds = frozenset(settings.DELEGATION_KINDS) or None
        return cls(frozenset(settings.DELEGATION_PRIVILEGES), kinds, settings.DELEGATION_MAX_DAYS)

    @classmethod
    def current(cls) -> Self:
        """Return the limits in force. Runs one query if delegation is on."""
        return cls.stored_or_settings() if settings.DELEGATION else cls.from_settings()

    @classmethod
    def stored_or_settings(cls) -> Self:
        """Return the limits that are in force when delegation is on. Runs one query."""
        upper, stored = cls.from_settings(), stored_limits()
        return (
            cls(stored[0].privileges, stored[0].kinds, stored[0].max_days).within(upper) if stored else upper
        )

    @classmethod
    def for_account(cls, account: User) -> Self:
        """Return the limits in force, read once for each object of an account: for pages.

        Changes use `current`.
        """
        if _CACHE not in account.__dict__:
            account.__dict__[_CACHE] = cls.current()
        return account.__dict__[_CACHE]

    def within(self, upper: Self) -> Self:
        """Return these limits, narrowed to the other limits."""
        kinds = (
            upper.kinds
            if self.kinds is None
            else self.kinds
            if upper.kinds is None
            else self.kinds & upper.kinds
        )
        days = [days for days in (self.max_days, upper.max_days) if days]
        return type(self)(self.privileges & upper.privileges, kinds, min(days, default=0))

    @property
    def text(self) -> str:
        """The limits as in a journal line, such as `privileges READ, WRITE; kinds all; at most 30 days`."""
        privileges = ", ".join(name for name in Privilege if name in self.privileges) or "none"
        kinds = "all" if self.kinds is None else ", ".join(sorted(self.kinds)) or "none"
        days = f"at most {self.max_days} days" if self.max_days else "no longest period"
        return f"privileges {privileges}; kinds {kinds}; {days}"

    def allows(self, address: Address, privilege: Privilege | None) -> bool:
        """Return whether delegates may grant this privilege on the address. privilege: None for any."""
        return (self.kinds is None or address.kind in self.kinds) and (
            bool(self.privileges) if privilege is None else str(privilege) in self.privileges
        )

    def fault(self, address: Address, privilege: Privilege, period: Validity | None = None) -> str:
        """Return why delegates cannot make this change; empty if they can. period: of a grant; None for a
        revocation.
        """
        if not self.allows(address, None):
            return f"grants on a {address.kind} can only be changed by administrators of the console"
        if not self.allows(address, privilege):
            return f"{privilege} can only be granted and revoked by administrators of the console"
        if period is not None and self.max_days and _is_longer(period, timedelta(days=self.max_days)):
            return f"a grant by delegation must end within {self.max_days:,} days: enter an end"
        return ""


def stored_limits() -> list[DelegationLimits]:
    """Return the limits that administrators set, alone; an empty list if there are none. Runs one query."""
    return [
        DelegationLimits(
            frozenset(row.privileges), None if row.kinds is None else frozenset(row.kinds), row.max_days
        )
        for row in StoredDelegationLimits.objects.filter(pk=1)
    ]


def _is_longer(period: Validity, limit: timedelta) -> bool:
    begin: datetime = max(period.valid_from or timezone.now(), timezone.now())
    return period.valid_until is None or period.valid_until - begin > limit
