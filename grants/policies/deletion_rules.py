"""Define the rules by which a generation deletes a namespace and its content."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from entities.address import ancestor_kinds
from entities.vocabulary import KINDS
from grants.policies.grammar import Expression
from grants.policies.source import Source

# The platform deletes the kinds in this order. Other kinds come last.
NAMED_STEPS = (("application", "program"), ("dataset",), ("dataset_module",), ("stream",), ("artifact",))


class OnUndeletable(StrEnum):
    """The effect on the other entities of a namespace if one of its entities may not be deleted."""

    STOP = "stops"
    SKIP = "passed over"


@dataclass(frozen=True, slots=True)
class NamespaceDeletion:
    """The rules for deleting a namespace.

    namespace_requirement: must be met on the namespace before anything is deleted.
    entity_requirement: must be met on each live entity inside the namespace. requirement_by_kind: other
    requirements for some kinds.
    on_undeletable: whether the deletion stops at the step of an entity that may not be deleted, or skips the
    entity.
    """

    namespace_requirement: Expression
    entity_requirement: Expression
    on_undeletable: OnUndeletable
    source: Source
    requirement_by_kind: Mapping[str, Expression] = field(default_factory=lambda: MappingProxyType({}))

    def requirement_for(self, kind: str) -> Expression:
        """Return the requirement for deleting an entity of `kind` with its namespace."""
        return self.requirement_by_kind.get(kind, self.entity_requirement)


def deletion_steps() -> tuple[tuple[str, ...], ...]:
    """Return the kinds inside a namespace in the order of their deletion.

    The kinds of one step are deleted together.
    """
    named = {kind for step in NAMED_STEPS for kind in step}
    unnamed = tuple(kind for kind in KINDS if "namespace" in ancestor_kinds(kind) and kind not in named)
    return (*NAMED_STEPS, unnamed)
