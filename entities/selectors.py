"""Which rows there are: one address, what lies in it, what a text finds.

Lists are sorted by kind and then by key, byte by byte, on every database.
"""

from collections.abc import Iterable
from itertools import islice

from django.db.models import QuerySet

from entities.address import Address
from entities.models import Entity, State
from entities.text import is_storable
from entities.vocabulary import KINDS

ADDRESSES_AT_ONCE = 1_000

# no text sorts after it, byte by byte
_LAST = "\U0010ffff"


def entity_at(address: Address) -> Entity | None:
    """The row of that address; None where it is not registered."""
    return Entity.objects.filter(kind=address.kind, key=address.key).first()


def entities_at(addresses: Iterable[Address], among: QuerySet[Entity] | None = None) -> dict[Address, Entity]:
    """The rows of those addresses that are registered, or that stand in `among`. One query for every `ADDRESSES_AT_ONCE`."""
    among = Entity.objects.all() if among is None else among
    found: dict[Address, Entity] = {}
    waiting = iter(set(addresses))
    while batch := set(islice(waiting, ADDRESSES_AT_ONCE)):
        rows = among.filter(kind__in={a.kind for a in batch}, key__in={a.key for a in batch})
        # a dataset and a stream may share a key: what was not asked for is left out
        found.update((row.address, row) for row in rows if row.address in batch)
    return found


def sorted_by_address(rows: QuerySet[Entity]) -> QuerySet[Entity]:
    return rows.order_by("kind", "key")


def children_of(entity: Entity) -> QuerySet[Entity]:
    """What lies directly in it, in any state."""
    return sorted_by_address(Entity.objects.filter(parent=entity))


def subtree_of(entity: Entity) -> QuerySet[Entity]:
    """The entity and everything in it, at every depth and in any state."""
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
    """The live entities in it, itself left out; of one kind where that is given."""
    # nothing of its own kind lies in it; the index by which its content is counted tells the kind, and not the key
    rows = subtree_of(entity).filter(state=State.LIVE).exclude(kind=entity.kind)
    return rows if kind is None else rows.filter(kind=kind)


def matching_entities(text: str) -> QuerySet[Entity]:
    """What a text finds: `kind:` and the beginning of a key, or any part of a key in any case. Nothing for an empty text."""
    text = text.strip()
    if not text or not is_storable(text):
        return sorted_by_address(Entity.objects.none())
    kind, colon, beginning = text.partition(":")
    if colon and kind.lower() in KINDS:
        # a range and not LIKE: only a range uses the index on every database, and minds the case
        rows = Entity.objects.filter(kind=kind.lower(), key__gte=beginning, key__lt=beginning + _LAST)
    else:
        rows = Entity.objects.filter(key__icontains=text)
    return sorted_by_address(rows)
