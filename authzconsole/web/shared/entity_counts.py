"""Counts for several entities at once: holders of each entity, and live entities of each kind in each
namespace.
"""

from collections.abc import Iterable

from django.db.models import Count, Q

from entities.models import Entity, State
from entities.vocabulary import KINDS, quantity
from grants.models import GroupGrant, UserGrant


def holder_counts(column: str, ids: Iterable[int]) -> dict[int, dict[str, int]]:
    """Count the users and groups that hold a grant, for each id in `column` of the entity table.

    Runs two queries.
    """
    ids, counts = list(ids), {}
    for holder_type, model, principal in (("users", UserGrant, "user"), ("groups", GroupGrant, "group")):
        rows = model.objects.filter(**{f"content_object__{column}__in": ids}).values_list(
            f"content_object__{column}"
        )
        for entity_id, total in rows.annotate(total=Count(principal, distinct=True)).order_by():
            counts.setdefault(entity_id, {})[holder_type] = total
    return counts


def kind_counts_inside(namespace_ids: Iterable[int], is_visible: Q) -> dict[int, list[tuple[str, str, int]]]:
    """Return `(kind, text, number of live entities)` for each kind in each namespace, in vocabulary order.

    Runs one query.
    """
    rows = Entity.objects.filter(is_visible, namespace__in=list(namespace_ids), state=State.LIVE).exclude(
        kind="namespace"
    )
    counts: dict[int, dict[str, int]] = {}
    for namespace_id, kind, total in (
        rows.order_by().values_list("namespace_id", "kind").annotate(total=Count("pk"))
    ):
        counts.setdefault(namespace_id, {})[kind] = total
    return {
        namespace_id: [
            (kind, _count_text(kind, by_kind[kind]), by_kind[kind]) for kind in KINDS if kind in by_kind
        ]
        for namespace_id, by_kind in counts.items()
    }


def _count_text(kind: str, total: int) -> str:
    return quantity(total, KINDS[kind].title, KINDS[kind].plural)
