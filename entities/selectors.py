"""Select rows of entities: by address, by container, or by a search text.

Lists are sorted by kind and then by key, byte by byte, on every database.
"""

from collections.abc import Iterable
from itertools import islice

from django.db.models import QuerySet

from entities.address import Address
from entities.models import Entity, State
from entities.text import is_storable
from entities.vocabulary import KINDS

BATCH_SIZE = 1_000

# the character that sorts last, byte by byte
_LAST_CHARACTER = "\U0010ffff"


def entity_at(address: Address) -> Entity | None:
    """Return the row of that address; None if it is not registered."""
    return Entity.rows.filter(kind=address.kind, key=address.key).first()


def entities_at(
    addresses: Iterable[Address], queryset: QuerySet[Entity] | None = None
) -> dict[Address, Entity]:
    """Return the rows of the registered addresses. Runs one query for every `BATCH_SIZE` addresses.

    queryset: return only rows of this queryset; by default, all entities and patterns.
    """
    queryset = Entity.rows.all() if queryset is None else queryset
    entities: dict[Address, Entity] = {}
    remaining = iter(set(addresses))
    while batch := set(islice(remaining, BATCH_SIZE)):
        rows = queryset.filter(kind__in={a.kind for a in batch}, key__in={a.key for a in batch})
        # a dataset and a stream can have the same key, so the query also returns rows of other addresses
        entities.update((row.address, row) for row in rows if row.address in batch)
    return entities


def sorted_by_address(rows: QuerySet[Entity]) -> QuerySet[Entity]:
    """Return the rows sorted by kind and key."""
    return rows.order_by("kind", "key")


def children_of(entity: Entity) -> QuerySet[Entity]:
    """Return the entities directly inside `entity`, in any state."""
    return sorted_by_address(Entity.objects.filter(parent=entity))


def subtree_of(entity: Entity) -> QuerySet[Entity]:
    """Return `entity` and everything inside it, at every depth and in any state."""
    match entity.kind:
        case "instance":
            rows = Entity.objects.all()
        case "namespace":
            rows = Entity.objects.filter(namespace=entity)
        case "application":
            rows = Entity.objects.filter(application=entity)
        case _:
            rows = Entity.objects.filter(pk=entity.pk)
    return sorted_by_address(rows)


def live_entities_inside(entity: Entity, kind: str | None = None) -> QuerySet[Entity]:
    """Return the live entities inside `entity`, at every depth; only those of `kind` if it is set."""
    # Exclude the entity by kind: no container contains its own kind, and the index for counting has no column
    # `key`.
    rows = subtree_of(entity).filter(state=State.LIVE).exclude(kind=entity.kind)
    return rows if kind is None else rows.filter(kind=kind)


def matching_entities(text: str) -> QuerySet[Entity]:
    """Return the entities that match a search text.

    A string such as `dataset:sales.o` matches addresses that start with it. Any other string matches any part
    of a key, in any case. An empty string matches nothing.
    """
    text = text.strip()
    if not text or not is_storable(text):
        return sorted_by_address(Entity.objects.none())
    kind, colon, prefix = text.partition(":")
    if colon and kind.lower() in KINDS:
        # a range instead of LIKE: only a range uses the index on every database, and it is case-sensitive
        rows = Entity.objects.filter(kind=kind.lower(), key__gte=prefix, key__lt=prefix + _LAST_CHARACTER)
    else:
        rows = Entity.objects.filter(key__icontains=text)
    return sorted_by_address(rows)
