"""Count the faults of each kind, and prefer kinds that have not hit yet."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from .faults import Fault

NEVER_HIT_FACTOR = 3


@dataclass
class FaultCounts:
    """names: all kinds. attempts: how often each was chosen. hits: how often it found something to damage."""

    names: Sequence[str]
    attempts: Counter[str] = field(default_factory=Counter)
    hits: Counter[str] = field(default_factory=Counter)

    def weight(self, fault: Fault) -> float:
        """Return the weight with which a fault is chosen."""
        return fault.weight * (1 if self.hits[fault.name] else NEVER_HIT_FACTOR)

    def never_hit(self) -> list[str]:
        return [name for name in self.names if not self.hits[name]]
