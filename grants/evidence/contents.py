"""List the addresses that the evidence about a container with its contents covers."""

from collections.abc import Iterator

from django.db.models import QuerySet

from entities.address import Address
from entities.models import State
from entities.vocabulary import CONTAINER_KINDS
from grants.evidence.grant_periods import periods_in
from grants.evidence.revision_ranges import Range
from grants.models.history import EntityPeriod, HistoryAddress

# the kinds of entities that can be asked about with their contents
CONTAINERS = tuple(kind for kind in CONTAINER_KINDS if kind != "instance")
ROWS_PER_READ = 2_000


def content_count(container: Address, kind: str, bounds: Range) -> int:
    """Return the number of addresses that `contents_of` yields. Runs two queries."""
    return _inside(container, kind, bounds).count() + (kind in ("", container.kind))


def contents_of(container: Address, kind: str, bounds: Range) -> Iterator[Address]:
    """Yield the container, and the addresses inside it that were live in these revisions, by kind and key.

    kind: only addresses of this kind; empty for all. Runs two queries.
    """
    if kind in ("", container.kind):
        yield container
    for row in _inside(container, kind, bounds).iterator(chunk_size=ROWS_PER_READ):
        yield Address(*row)


def _inside(container: Address, kind: str, bounds: Range) -> QuerySet:
    row = (
        HistoryAddress.objects.filter(kind=container.kind, key=container.key)
        .values_list("pk", flat=True)
        .first()
    )
    live = EntityPeriod.objects.filter(periods_in(bounds), state=State.LIVE)
    inside = live.filter(**{container.kind: row or 0}).exclude(entity=row or 0)
    return (
        (inside.filter(kind=kind) if kind else inside)
        .order_by("kind", "key")
        .values_list("kind", "key")
        .distinct()
    )
