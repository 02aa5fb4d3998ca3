"""List what a principal can do: the live entities with the operations that are permitted on them."""

from collections.abc import Iterator, Sequence
from itertools import islice

from entities.address import Address
from entities.models import Entity, State
from entities.vocabulary import KINDS
from grants.access.requirements import any_of_requirements, operations_by_requirement
from grants.evaluation.effective_grants import GrantTable, grant_tables
from grants.evaluation.entity_filters import EntityConditions
from grants.evaluation.facts import gather_facts
from grants.policies.decide import is_permitted
from grants.policies.grammar import AnyOf, fold
from grants.policies.policy import Generation
from grants.policies.question import Question

# Entities on which the operations are decided together.
ENTITIES_PER_BATCH = 500


def kinds_in_byte_order() -> list[str]:
    """Return all kinds in the order of the addresses of their entities, which is by code points."""
    return sorted(KINDS, key=lambda kind: f"{kind}:")


def all_permissions(
    subject_type: str, subject: str, generation: Generation, kinds: Sequence[str] | None = None
) -> Iterator[tuple[str, str]]:
    """Yield (entity, operation) for everything that is permitted to a principal, sorted by code points.

    Only live entities and operations of their kind count. An unknown or inactive principal is permitted
    nothing. The entities are read in batches, so memory does not grow with their number.
    """
    tables = grant_tables(subject_type, subject)
    for kind in kinds_in_byte_order() if tables else ():
        if kinds is None or kind in kinds:
            yield from _permissions_on_kind(subject_type, subject, kind, generation, tables)


def _permissions_on_kind(
    subject_type: str, subject: str, kind: str, generation: Generation, tables: tuple[GrantTable, ...]
) -> Iterator[tuple[str, str]]:
    grouped = operations_by_requirement(generation, kind)
    combined = any_of_requirements(grouped, kind)
    if combined == AnyOf(()):
        return
    condition = fold(combined, EntityConditions(tables, [kind]))
    rows = (
        Entity.objects.filter(condition, kind=kind, state=State.LIVE)
        .order_by("key")
        .values_list("key", flat=True)
    )
    keys = iter(rows.iterator(chunk_size=ENTITIES_PER_BATCH))
    while batch := list(islice(keys, ENTITIES_PER_BATCH)):
        questions = [
            Question(subject_type, subject, same[0], Address(kind, key), generation.name)
            for key in batch
            for same in grouped.values()
        ]
        decisions = map(is_permitted, questions, gather_facts(questions))
        for key in batch:
            permitted = [operation for same in grouped.values() if next(decisions) for operation in same]
            for operation in sorted(permitted):
                yield f"{kind}:{key}", operation
