"""The limits of delegation: what delegates may grant and revoke, and for how long.

The settings DELEGATION_PRIVILEGES, DELEGATION_KINDS and DELEGATION_MAX_DAYS are the default and the upper
bound. Administrators set narrower limits (`set_delegation_limits`).
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Self

from django.conf import settings
from django.utils import timezone

from entities.address import Address
from entities.frozen import frozen
from entities.vocabulary import KINDS, Privilege, privilege_by_name
from grants.authority.transactions import administrator_transaction
from grants.errors import DelegationError
from grants.journal import Author, JournalEntry, append_to_journal
from grants.models import StoredDelegationLimits, User
from grants.outcomes import Outcome
from grants.roles.capabilities import Capability
from grants.validity import Validity

_CACHE = "_delegation_limits"
MAX_DAYS = 100_000


@frozen
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


def set_delegation_limits(
    *, author: Author, privileges: Iterable[str], kinds: Iterable[str] | None, max_days: int
) -> Outcome:
    """Set what delegates may grant and revoke, and the longest period of their grants.

    kinds: None for all that the settings allow. max_days: 0 for the limit of the settings. Grants that exist
    are not changed. Raise DelegationError if the limits exceed those of the settings, VocabularyError for an
    unknown privilege.
    """
    limits = DelegationLimits(
        frozenset(privilege_by_name(name).value for name in privileges),
        None if kinds is None else frozenset(kinds),
        max_days,
    )
    _check_limits(limits)
    with administrator_transaction(author, capability=Capability.MANAGE_SETTINGS) as head:
        if stored_limits() == [limits]:
            return Outcome(
                False, "the limits of delegation already have these values: nothing changed", head.revision
            )
        StoredDelegationLimits.objects.update_or_create(
            pk=1,
            defaults={
                "privileges": sorted(limits.privileges),
                "kinds": None if limits.kinds is None else sorted(limits.kinds),
                "max_days": max_days,
            },
        )
        revision = append_to_journal(
            head, [JournalEntry("delegation-set", detail=limits.text)], author=author
        )
    return Outcome(True, "the limits of delegation are changed", revision)


def _check_limits(limits: DelegationLimits) -> None:
    upper = DelegationLimits.from_settings()
    if excess := sorted(limits.privileges - upper.privileges):
        raise DelegationError(
            f"{', '.join(excess)}: delegates may not grant more than DELEGATION_PRIVILEGES allows "
            f"({', '.join(settings.DELEGATION_PRIVILEGES) or 'nothing'})",
            field="privileges",
        )
    unknown = sorted((limits.kinds or frozenset()) - set(KINDS))
    if unknown:
        raise DelegationError(f"`{unknown[0]}` is not a kind of entities", field="kinds")
    if upper.kinds is not None and (excess := sorted((limits.kinds or frozenset()) - upper.kinds)):
        raise DelegationError(
            f"{', '.join(excess)}: DELEGATION_KINDS does not allow this kind", field="kinds"
        )
    if limits.kinds is not None and not limits.kinds:
        raise DelegationError("no kind is selected: select at least one, or all", field="kinds")
    if not 0 <= limits.max_days <= (upper.max_days or MAX_DAYS):
        raise DelegationError(
            f"the longest period has at most {upper.max_days or MAX_DAYS:,} days", field="max_days"
        )


def _is_longer(period: Validity, limit: timedelta) -> bool:
    begin: datetime = max(period.valid_from or timezone.now(), timezone.now())
    return period.valid_until is None or period.valid_until - begin > limit
