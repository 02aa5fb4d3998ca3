"""Create rows of entities and change their state.

The public interface is `grants.changes.entities`, which also updates the grants and the journal. The caller
must hold the write lock of the console; otherwise two callers could create the same address.

INVARIANT: `parent` is the row of the parent of the address. `namespace` and `application` are the rows of its
containers of these kinds, or the row itself.
"""

from collections.abc import Iterable, Mapping

from django.db.models import F
from django.utils import timezone

from entities.address import Address, instance_address
from entities.errors import Refusal
from entities.frozen import frozen
from entities.models import PATTERN, Entity, State
from entities.selectors import entities_at
from entities.vocabulary import INNER_CONTAINER_KINDS, clip

BATCH_SIZE = 1_000


class EntityError(Refusal, ValueError):
    """The console cannot register the address. The message gives the reason."""


@frozen
class EnsureResult:
    """rows: the rows of the requested addresses and of their containers. created: the new addresses,
    containers first, without patterns.
    """

    rows: dict[Address, Entity]
    created: tuple[Address, ...]


def ensure_entities(*, states: Mapping[Address, str]) -> EnsureResult:
    """Create a row for each address or pattern that has none, in its state. Raise EntityError for another instance.

    states: the state of each address, if it is created. An existing row keeps its state. Missing containers
    are created too: live if a new address inside is live, otherwise planned. Runs a fixed number of
    statements for every `BATCH_SIZE` addresses.
    """
    for address in states:
        if fault := instance_fault(address):
            raise EntityError(fault)
    rows = entities_at({needed for address in states for needed in (*address.ancestors, address)})
    missing = _missing_states(states, rows)
    for depth in sorted({len(address.ancestors) for address in missing}):
        level = [address for address in missing if len(address.ancestors) == depth]
        rows.update(_create_rows({address: missing[address] for address in level}, rows))
    created = [address for address in missing if not address.is_pattern]
    return EnsureResult(rows, tuple(sorted(created, key=lambda address: len(address.ancestors))))


def instance_fault(address: Address) -> str:
    """Return why the address is refused: it is an instance other than this console's.

    Empty for every other address.
    """
    if address.kind != "instance" or address.is_pattern or address == instance_address():
        return ""
    return (
        f"`{clip(address)}` is not the instance of this console, which is `{instance_address()}` "
        f"(the setting INSTANCE_NAME)"
    )


def _missing_states(states: Mapping[Address, str], rows: Mapping[Address, Entity]) -> dict[Address, str]:
    """Return the addresses without a row, including containers, with the states to create them in."""
    missing = {address: state for address, state in states.items() if address not in rows}
    for address, state in list(missing.items()):
        inherited = State.LIVE if state == State.LIVE else State.PLANNED
        for container in address.ancestors:
            if container in rows or container in states:
                continue
            if missing.get(container) != State.LIVE:
                missing[container] = inherited
    return missing


def _create_rows(
    states: Mapping[Address, str], rows: Mapping[Address, Entity]
) -> Iterable[tuple[Address, Entity]]:
    """Create the rows of one level; `rows` already contains the rows of all levels above."""
    created = [_row(address, state, rows) for address, state in states.items()]
    Entity.objects.bulk_create(created, batch_size=BATCH_SIZE)
    for kind in INNER_CONTAINER_KINDS:
        containers = [row for row in created if row.kind == kind and row.state != PATTERN]
        _refer_to_itself(containers, f"{kind}_id")
    return zip(states, created, strict=True)


def _row(address: Address, state: str, rows: Mapping[Address, Entity]) -> Entity:
    def row_of(container: Address | None) -> Entity | None:
        return rows.get(container) if container else None

    return Entity(
        kind=address.kind,
        key=address.key,
        state=PATTERN if address.is_pattern else state,
        parent=row_of(address.parent),
        namespace=row_of(address.namespace),
        application=row_of(address.application),
    )


def _refer_to_itself(containers: list[Entity], column: str) -> None:
    """Set `column` of each container to its own id. The rows must be saved first."""
    for start in range(0, len(containers), BATCH_SIZE):
        batch = containers[start : start + BATCH_SIZE]
        Entity.objects.filter(pk__in=[row.pk for row in batch]).update(**{column: F("pk")})
    for row in containers:
        setattr(row, column, row.pk)


def delete_planned_entity(*, entity: Entity) -> None:
    """Delete the row of a planned address. Raise ProtectedError if other rows refer to it."""
    assert entity.state == State.PLANNED, "only planned addresses can be deleted"
    Entity.objects.filter(pk=entity.pk).update(namespace=None, application=None)
    entity.delete()


def set_entity_description(*, entity: Entity, description: str) -> bool:
    """Set the description of the entity. Return whether the row changed."""
    return _set_column(entity, "description", description)


def _set_column(entity: Entity, column: str, value: str) -> bool:
    if getattr(entity, column) == value:
        return False
    setattr(entity, column, value)
    entity.changed_at = timezone.now()
    entity.save(update_fields=[column, "changed_at"])
    return True
