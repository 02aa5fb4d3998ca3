"""Show the effect of a single change before it is made, and make the change only if its effect is the one that was shown."""

from collections.abc import Iterable, Mapping
from typing import Any

from grants.active_generation import active_generation
from grants.changes.authority import administrator_transaction
from grants.changes.outcomes import ChangeOutcome
from grants.changes.services import GrantSpec, change_grants
from grants.effects.changes import EffectChange, GrantChange
from grants.effects.effect import Effect, effect_of
from grants.errors import EffectChanged, EffectTooLarge
from grants.journal import Author
from grants.principal_names import format_principal

# the digest of an effect that is too large to be computed
TOO_LARGE = "too-large"


def effect_of_change(changes: Iterable[EffectChange]) -> Effect | None:
    """Return the effect of changes in the active generation; None if it is too large to be computed."""
    try:
        return effect_of(changes, active_generation())
    except EffectTooLarge:
        return None


def digest_of(effect: Effect | None) -> str:
    """Return the digest that a form carries. effect: None if it is too large."""
    return effect.digest if effect else TOO_LARGE


def change_grants_as_shown(*, author: Author, digest: str, grant: Iterable[GrantSpec] = (), revoke: Iterable[GrantSpec] = (),
                           attributes: Mapping[str, Any] | None = None) -> ChangeOutcome:
    """Change grants like `change_grants`, in a transaction in which the effect is computed again.

    digest: of the effect that was shown; empty if none was shown. Raise EffectChanged if the effect is another one now.
    """
    grant, revoke = list(grant), list(revoke)
    with administrator_transaction(author):
        if digest:
            changes = [GrantChange(format_principal(principal), address, privilege, is_grant)
                       for items, is_grant in ((grant, True), (revoke, False)) for principal, address, privilege in items]
            if digest_of(effect_of_change(changes)) != digest:
                raise EffectChanged("this change")
        return change_grants(author=author, grant=grant, revoke=revoke, attributes=attributes)
