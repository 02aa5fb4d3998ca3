"""Show the effect of changes before they are made."""

from dataclasses import dataclass
from functools import cached_property

from grants.active_generation import active_generation
from grants.administrators import Strandings
from grants.change_set import (
    ChangeSet,
    Join,
    UnknownChange,
    change_from_text,
)
from grants.effects.changes import EffectChange, evaluable_changes
from grants.effects.consequences import Consequences, consequences_of
from grants.effects.effect import TOO_LARGE, KnownEffect, effect_of
from grants.effects.large import (
    CHANGE_EFFECT,
    compute_effect,
    newest_effect_job,
    stored_effect,
)
from grants.errors import EffectTooLarge
from grants.jobs import JobContext, JobFailed, JobResult
from grants.models import Job
from grants.policies.policy import Generation


@dataclass(frozen=True)
class Preview:
    """A change set with its effect in a generation.

    effect: None if it is not known, because it is too large to be computed at once, and no job computed it
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
        return Preview(
            change_set, rules.name, stored_effect(newest_change_job(change_set, rules.name)), error
        )


def newest_change_job(change_set: ChangeSet, generation: str) -> Job | None:
    """Return the newest job for the effect of changes in a generation. Runs two queries."""
    return newest_effect_job(CHANGE_EFFECT, effect_job_options(change_set, generation))


def compute_change_effect(context: JobContext) -> JobResult:
    """Compute the effect of the changes that a job names."""
    options = context.job.options

    def read_changes() -> list[EffectChange]:
        if active_generation().name != options["active"]:
            raise JobFailed("another generation was activated in the meantime")
        texts = options["changes"].split("\n")
        try:
            return evaluable_changes(map(change_from_text, texts), is_limited=False)
        except UnknownChange as error:
            raise JobFailed(str(error)) from error

    return compute_effect(context, read_changes, counts_strandings=True)


def effect_job_options(change_set: ChangeSet, generation: str) -> dict[str, str]:
    """Return the options of the job. The active generation decides whether a deletion removes grants, and what
    a creator receives. Runs one query.
    """
    return {
        "changes": "\n".join(change_set.texts),
        "generation": generation,
        "active": active_generation().name,
    }
