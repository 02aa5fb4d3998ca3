"""How the deletion of a namespace goes through what lies in it: of a generation, as data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from entities.address import ancestor_kinds
from entities.vocabulary import KINDS
from grants.policies.grammar import Expression
from grants.policies.source import Source

# the platform's own order, one type after the other; what it does not name comes last
NAMED_STEPS = (("application", "program"), ("dataset",), ("dataset_module",), ("stream",), ("artifact",))


class OnUndeletable(StrEnum):
    """What becomes of the rest where one entity of a type may not be deleted."""

    STOP = "stops"
    SKIP = "passed over"


@dataclass(frozen=True, slots=True)
class NamespaceDeletion:
    """begins: what is asked of the namespace before anything goes. asks: of each live entity in it; asks_of: of some kinds
    something else. on_undeletable: the deletion stops at the type of an entity that may not be deleted, or passes over it.
    """

    namespace_requirement: Expression
    entity_requirement: Expression
    on_undeletable: OnUndeletable
    source: Source
    requirement_by_kind: Mapping[str, Expression] = field(default_factory=lambda: MappingProxyType({}))

    def requirement_for(self, kind: str) -> Expression:
        return self.requirement_by_kind.get(kind, self.entity_requirement)


def deletion_steps() -> tuple[tuple[str, ...], ...]:
    """The kinds that go together, in order."""
    named = {kind for step in NAMED_STEPS for kind in step}
    rest = tuple(kind for kind in KINDS if "namespace" in ancestor_kinds(kind) and kind not in named)
    return (*NAMED_STEPS, rest)
