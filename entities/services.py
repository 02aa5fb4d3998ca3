"""Making rows and moving their state. Nothing here knows of grants: `grants.lifecycle.services` is what people call.

INVARIANT: `parent` is the row of the address's parent; `namespace` and `application` are the rows of the containers of that
kind which the address is or lies in. Whoever calls holds the lock of the console's writes, or two of them could make the
same address.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.db.models import F
from django.utils import timezone

from entities.address import Address, instance_address
from entities.models import Entity, State
from entities.selectors import entities_at
from entities.vocabulary import clip

BATCH_SIZE = 1_000


class EntityError(ValueError):
    """An address that this console cannot register; the message says why."""


@dataclass(frozen=True, slots=True)
class EnsureResult:
    """rows: of every address asked for and of what contains it. created: the new addresses, containers first."""

    rows: dict[Address, Entity]
    created: tuple[Address, ...]


def ensure_entity(*, address: Address, state: str) -> tuple[Entity, bool]:
    """The row of `address`, and whether it was made now; a row that exists keeps its state. Raises EntityError."""
    ensured = ensure_entities(states={address: state})
    return ensured.rows[address], address in ensured.created


def ensure_entities(*, states: Mapping[Address, str]) -> EnsureResult:
    """A row for each address, in that state where it is new. Raises EntityError.

    A missing container is made too: live where a new address in it is live, else planned. A fixed number of statements for
    every `ROWS_AT_ONCE` addresses.
    """
    for address in states:
        if fault := instance_fault(address):
            raise EntityError(fault)
    rows = entities_at({place for address in states for place in (*address.ancestors, address)})
    missing = _missing(states, rows)
    for depth in sorted({len(address.ancestors) for address in missing}):
        level = [address for address in missing if len(address.ancestors) == depth]
        rows.update(_made({address: missing[address] for address in level}, rows))
    return EnsureResult(rows, tuple(sorted(missing, key=lambda address: len(address.ancestors))))


def instance_fault(address: Address) -> str:
    """Why this is not the console's own instance; empty where it is, and for every other kind."""
    if address.kind != "instance" or address == instance_address():
        return ""
    return (f"`{clip(address)}` is not the instance of this console, which is `{instance_address()}` "
            f"(the setting INSTANCE_NAME)")


def _missing(states: Mapping[Address, str], rows: Mapping[Address, Entity]) -> dict[Address, str]:
    missing = {address: state for address, state in states.items() if address not in rows}
    for address, state in list(missing.items()):
        inherited = State.LIVE if state == State.LIVE else State.PLANNED
        for container in address.ancestors:
            if container in rows or container in states:
                continue
            if missing.get(container) != State.LIVE:
                missing[container] = inherited
    return missing


def _made(states: Mapping[Address, str], rows: Mapping[Address, Entity]) -> Iterable[tuple[Address, Entity]]:
    """New rows of one depth; `rows` holds everything above."""
    made = [_row(address, state, rows) for address, state in states.items()]
    Entity.objects.bulk_create(made, batch_size=BATCH_SIZE)
    for kind in ("namespace", "application"):
        own = [row for row in made if row.kind == kind]
        _point_at_itself(own, f"{kind}_id")
    return zip(states, made, strict=True)


def _row(address: Address, state: str, rows: Mapping[Address, Entity]) -> Entity:
    def row_of(container: Address | None) -> Entity | None:
        return rows.get(container) if container else None

    return Entity(kind=address.kind, key=address.key, state=state, parent=row_of(address.parent),
                  namespace=row_of(address.namespace), application=row_of(address.application))


def _point_at_itself(containers: list[Entity], column: str) -> None:
    """A container is its own: its id is known only once the row is there."""
    for start in range(0, len(containers), BATCH_SIZE):
        batch = containers[start : start + BATCH_SIZE]
        Entity.objects.filter(pk__in=[row.pk for row in batch]).update(**{column: F("pk")})
    for row in containers:
        setattr(row, column, row.pk)


def set_entity_state(*, entity: Entity, state: str) -> bool:
    """Returns whether that changed anything."""
    return _column_set(entity, "state", state)


def delete_planned_entity(*, entity: Entity) -> None:
    """Take the row of a planned address away. Raises ProtectedError where something hangs on it."""
    assert entity.state == State.PLANNED, "what existed stays registered"
    Entity.objects.filter(pk=entity.pk).update(namespace=None, application=None)
    entity.delete()


def set_entity_description(*, entity: Entity, description: str) -> bool:
    """Returns whether that changed anything."""
    return _column_set(entity, "description", description)


def _column_set(entity: Entity, column: str, value: str) -> bool:
    if getattr(entity, column) == value:
        return False
    setattr(entity, column, value)
    entity.changed_at = timezone.now()
    entity.save(update_fields=[column, "changed_at"])
    return True
