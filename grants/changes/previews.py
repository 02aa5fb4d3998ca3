"""Show the effect of changes before they are made."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from grants.active_generation import active_generation
from grants.administrators import Strandings
from grants.change_set import ChangeSet, Join
from grants.effects.changes import evaluable_changes
from grants.effects.consequences import Consequences, consequences_of
from grants.effects.effect import TOO_LARGE, effect_of
from grants.effects.known_effect import EffectOfRun, KnownEffect
from grants.errors import EffectTooLarge
from grants.policies.policy import Generation

_effects_of_runs: list[EffectOfRun] = []


def register_effect_of_run(function: EffectOfRun) -> Callable:
    """Register the function that returns the effect that a run computed. Runs belong to the layer above."""
    if function not in _effects_of_runs:
        _effects_of_runs.append(function)
    return function


@dataclass(frozen=True)
class Preview:
    """A change set with its effect in a generation.

    effect: None if it is not known, because it is too large to be computed at once, and no run computed it
    for the current data.
    too_large: why it could not be computed at once; None if it was.
    """

    change_set: ChangeSet
    generation: str
    effect: KnownEffect | None
    too_large: EffectTooLarge | None = None

    @cached_property
    def consequences(self) -> Consequences:
        """The leftover grants, sessions and tokens. Runs the queries of `consequences_of`."""
        return consequences_of(self.change_set)

    @property
    def strandings(self) -> Strandings | None:
        """The entities that the changes leave with fewer than two administrators; None if they are not known."""
        return self.effect.strandings if self.effect else None

    @property
    def digest(self) -> str:
        return self.effect.digest if self.effect else TOO_LARGE

    @property
    def is_obvious(self) -> bool:
        """Whether the changes need no preview: nothing is beyond their purpose, and no new member gains
        anything.
        """
        if self.effect is None or any(effect.tally.beyond for effect in self.effect.times or [self.effect]):
            return False
        return not self.effect.has_effect or not any(isinstance(change, Join) for change in self.change_set)


def preview(change_set: ChangeSet, generation: Generation | None = None) -> Preview:
    """Return changes that are not made yet with their effect. generation: by default, the active one.

    The queries are those of `evaluable_changes` and `effect_of`, and one for the active generation.
    """
    rules = generation or active_generation()
    try:
        return Preview(change_set, rules.name, effect_of(evaluable_changes(change_set), rules))
    except EffectTooLarge as error:
        effects = (effect_of_run(change_set.texts, rules.name) for effect_of_run in _effects_of_runs)
        return Preview(change_set, rules.name, next(filter(None, effects), None), error)
