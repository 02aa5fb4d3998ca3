"""Counting for many entities at once: what is in them, and who holds something there."""

from collections.abc import Iterable

from django.db.models import Count, Q

from entities.models import Entity, State
from entities.vocabulary import KINDS
from grants.models import GroupGrant, UserGrant


def holder_counts(column: str, ids: Iterable[int]) -> dict[int, dict[str, int]]:
    """How many users and groups hold something, for each id in that column of the entities. Two queries."""
    ids, found = list(ids), {}
    for word, model, principal in (("users", UserGrant, "user"), ("groups", GroupGrant, "group")):
        rows = model.objects.filter(**{f"content_object__{column}__in": ids}).values_list(f"content_object__{column}")
        for pk, total in rows.annotate(total=Count(principal, distinct=True)).order_by():
            found.setdefault(pk, {})[word] = total
    return found


def kind_counts_inside(namespace_ids: Iterable[int], shown: Q) -> dict[int, list[tuple[str, str, int]]]:
    """(kind, its words, live entities) in each namespace, in the order of the vocabulary. One query."""
    rows = Entity.objects.filter(shown, namespace__in=list(namespace_ids), state=State.LIVE).exclude(kind="namespace")
    found: dict[int, dict[str, int]] = {}
    for namespace_id, kind, total in rows.order_by().values_list("namespace_id", "kind").annotate(total=Count("pk")):
        found.setdefault(namespace_id, {})[kind] = total
    return {pk: [(kind, _words(kind, kinds[kind]), kinds[kind]) for kind in KINDS if kind in kinds]
            for pk, kinds in found.items()}


def _words(kind: str, total: int) -> str:
    return f"{total:,} {KINDS[kind].title if total == 1 else KINDS[kind].plural}"
