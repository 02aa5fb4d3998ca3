"""Count the faults of each kind, and choose the next one."""

import random
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from .faults import InjectedFault

NEVER_HIT_FACTOR = 3


@dataclass
class FaultCounts:
    """attempts: how often each kind was chosen. hits: how often it found something to damage."""

    faults: Sequence[InjectedFault]
    attempts: Counter[str] = field(default_factory=Counter)
    hits: Counter[str] = field(default_factory=Counter)

    def choose(
        self, choose: random.Random, ongoing: Collection[str], *, is_heavy_phase: bool
    ) -> InjectedFault | None:
        """Return the next fault, or None. ongoing: the names of the faults that last.

        Outside heavy phases, at most one fault waits for a run: the kind with the fewest attempts. All other
        faults are light.
        """
        waiting = [fault for fault in self.faults if fault.needs_run]
        if waiting and not is_heavy_phase and not any(fault.name in ongoing for fault in waiting):
            return min(waiting, key=lambda fault: (self.hits[fault.name], self.attempts[fault.name]))
        choices = [
            fault
            for fault in self.faults
            if fault.name not in ongoing and not fault.needs_run and (fault.is_light or is_heavy_phase)
        ]
        return choose.choices(choices, [self._weight(fault) for fault in choices])[0] if choices else None

    def is_waiting(self, ongoing: Collection[str]) -> bool:
        """Return whether a fault waits for a run."""
        return any(fault.needs_run and fault.name in ongoing for fault in self.faults)

    def never_hit(self) -> list[str]:
        return [fault.name for fault in self.faults if not self.hits[fault.name]]

    def _weight(self, fault: InjectedFault) -> float:
        return fault.weight * (1 if self.hits[fault.name] else NEVER_HIT_FACTOR)
