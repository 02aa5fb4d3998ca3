"""Show the effect of changes before they are made, and make them only if their effect is the one that was
shown.
"""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from django.db import transaction

from grants.active_generation import active_generation
from grants.administrators import Strandings
from grants.effects.changes import MembershipChange
from grants.effects.consequences import Consequences, consequences_of
from grants.effects.effect import TOO_LARGE, effect_of
from grants.effects.known_effect import EffectOfRun, KnownEffect
from grants.effects.single_changes import SingleChange, change_as_text, evaluable_changes
from grants.errors import EffectChanged, EffectNotShown, EffectTooLarge
from grants.journal import lock_journal
from grants.policies.policy import Generation

T = TypeVar("T")


@dataclass(frozen=True)
class ChangePreview:
    """Changes with their effect in a generation.

    effect: None if it is not known, because it is too large to be computed at once, and no run computed it
    for the current data.
    too_large: why it could not be computed at once; None if it was.
    """

    changes: tuple[SingleChange, ...]
    generation: str
    effect: KnownEffect | None
    too_large: EffectTooLarge | None = None

    @cached_property
    def consequences(self) -> Consequences:
        """The leftover grants, sessions and tokens. Runs the queries of `consequences_of`."""
        return consequences_of(self.changes)

    @property
    def strandings(self) -> Strandings | None:
        """The entities that the changes leave with fewer than two administrators; None if they are not known."""
        return self.effect.strandings if self.effect else None

    @property
    def digest(self) -> str:
        return self.effect.digest if self.effect else TOO_LARGE

    @property
    def texts(self) -> list[str]:
        """The changes as texts, as in URLs."""
        return [change_as_text(change) for change in self.changes]

    @property
    def identity(self) -> str:
        """A hash of the changes, so that a form can tell whether the shown effect was that of the same
        changes.
        """
        return hashlib.sha256("\n".join(self.texts).encode()).hexdigest()[:16]

    @property
    def is_obvious(self) -> bool:
        """Whether the changes need no preview: nothing is beyond their purpose, and no new member gains
        anything.
        """
        if self.effect is None or any(effect.tally.beyond for effect in self.effect.times or [self.effect]):
            return False
        return not self.effect.has_effect or not any(
            isinstance(change, MembershipChange) and change.is_join for change in self.changes
        )


def preview_changes(
    changes: Iterable[SingleChange],
    generation: Generation | None = None,
    effect_of_run: EffectOfRun | None = None,
) -> ChangePreview:
    """Return changes that are not made yet with their effect. generation: by default, the active one.

    effect_of_run: is called for an effect above the limits.
    The queries are those of `evaluable_changes` and `effect_of`, and one for the active generation.
    """
    changes, rules = tuple(changes), generation or active_generation()
    try:
        return ChangePreview(changes, rules.name, effect_of(evaluable_changes(changes), rules))
    except EffectTooLarge as error:
        effect = (
            effect_of_run([change_as_text(change) for change in changes], rules.name)
            if effect_of_run
            else None
        )
        return ChangePreview(changes, rules.name, effect, error)


def make_previewed_change(
    changes: Iterable[SingleChange],
    make: Callable[[], T],
    *,
    digest: str = "",
    shown_changes: str | None = None,
    requires_preview: bool = True,
    effect_of_run: EffectOfRun | None = None,
) -> T:
    """Call `make` in a transaction in which the effect of the changes is computed again. Return its result.

    digest: of the effect that was shown; empty if none was shown. shown_changes: the identity of the changes
    for which it was shown; by default, these. requires_preview: without a shown effect, refuse changes with
    an effect that is not obvious.
    effect_of_run: see `preview_changes`. Raise EffectChanged if the effect is another one now, EffectNotShown
    if it must be shown first. Both carry the preview.
    """
    with transaction.atomic():
        lock_journal()
        if digest or requires_preview:
            preview = preview_changes(changes, effect_of_run=effect_of_run)
            is_shown = bool(digest) and shown_changes in (None, preview.identity)
            if is_shown and preview.digest != digest:
                raise EffectChanged("this change", preview)
            if not is_shown and requires_preview and not preview.is_obvious:
                _check_possible(make)
                raise EffectNotShown(preview)
        return make()


def _check_possible(make: Callable[[], object]) -> None:
    """Make a change and roll it back, so that a change that would be refused raises its own error."""
    with transaction.atomic():
        make()
        transaction.set_rollback(True)
