"""Set the limits of delegation."""

from collections.abc import Iterable

from django.conf import settings

from entities.vocabulary import KINDS, privilege_by_name
from grants.authority.limits import DelegationLimits, stored_limits
from grants.authority.transactions import administrator_transaction
from grants.errors import DelegationError
from grants.journal import Author, JournalEntry, append_to_journal
from grants.models import StoredDelegationLimits
from grants.outcomes import Outcome
from grants.roles.capabilities import Capability

MAX_DAYS = 100_000


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
    _check(limits)
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


def _check(limits: DelegationLimits) -> None:
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
