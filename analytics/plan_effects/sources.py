"""What a run evaluates: a proposed plan, or single changes that are described as texts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from analytics.analyses import AnalysisError
from grants.active_generation import active_generation
from grants.change_set import UnknownChange, change_from_text
from grants.effects.changes import EffectChange, evaluable_changes
from grants.effects.purposes import NamedChanges, Purpose
from grants.models import Plan
from grants.plans.items import changes_of_plan
from grants.plans.permission_effect import purpose_of_plan


class EffectSource(Protocol):
    """Changes with a purpose.

    generation: the name of the generation in which they are evaluated. identity: identifies the changes; a
    JSON value.
    counts_strandings: whether the report names the entities that the changes strand. A plan stores them
    already.
    """

    counts_strandings: ClassVar[bool]

    @property
    def generation(self) -> str: ...

    @property
    def identity(self) -> int | list[str]: ...

    def changes(self) -> list[EffectChange]:
        """Read the changes. Raise AnalysisError if they cannot be made any more."""

    def purpose(self, changes: Sequence[EffectChange]) -> Purpose:
        """Return the purpose of these changes."""


@dataclass(frozen=True, slots=True)
class PlanSource:
    """The changes of a plan that is proposed."""

    counts_strandings: ClassVar[bool] = False
    plan_id: int
    generation: str

    @property
    def identity(self) -> int:
        return self.plan_id

    def changes(self) -> list[EffectChange]:
        return list(changes_of_plan(self._plan()))

    def purpose(self, changes: Sequence[EffectChange]) -> Purpose:
        return purpose_of_plan(self._plan()) or NamedChanges(changes)

    def _plan(self) -> Plan:
        plan = Plan.objects.filter(pk=self.plan_id).first()
        if plan is None or not plan.is_proposed:
            raise AnalysisError(f"plan {self.plan_id} was applied or discarded in the meantime")
        return plan


@dataclass(frozen=True, slots=True)
class SingleChangesSource:
    """Changes that are not made yet. texts: see `grants.change_set.as_text`. active: the active generation when the
    effect was requested.

    The active generation decides whether a deletion removes grants, and what a creator receives.
    """

    counts_strandings: ClassVar[bool] = True
    texts: tuple[str, ...]
    generation: str
    active: str

    @property
    def identity(self) -> list[str]:
        return [*self.texts, self.active]

    def changes(self) -> list[EffectChange]:
        if active_generation().name != self.active:
            raise AnalysisError("another generation was activated in the meantime")
        try:
            return evaluable_changes(map(change_from_text, self.texts), is_limited=False)
        except UnknownChange as error:
            raise AnalysisError(str(error)) from error

    def purpose(self, changes: Sequence[EffectChange]) -> Purpose:
        return NamedChanges(changes)
