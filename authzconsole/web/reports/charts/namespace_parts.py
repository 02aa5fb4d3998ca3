"""The applications inside the tiles of the namespaces, coloured by whether they contain what blocks the
deletion.

A namespace that no user can delete is blocked by the entities on which the nearest user lacks ADMIN.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from django.db.models import Count

from analytics.analyses import AnalysisError
from analytics.models import AnalysisRun
from analytics.results.query import ResultFilter
from analytics.results.read import result_page
from analytics.storage import StorageError
from authzconsole.web.reports.charts.treemap_layout import TreemapItem
from authzconsole.web.reports.readiness_report import (
    StoredReport,
    namespace_summaries,
    namespace_url,
    stored_report,
)
from authzconsole.web.shared.links import entity_url
from entities.address import Address
from entities.models import Entity, State
from entities.vocabulary import quantity

MAX_NAMESPACES, MAX_APPLICATIONS = 12, 60
MAX_BLOCKING_ENTITIES = 20_000


def namespace_parts(
    run: AnalysisRun, totals: Sequence[tuple[str, int]]
) -> Mapping[str, tuple[TreemapItem, ...]]:
    """Return the parts of the largest namespaces: MAX_APPLICATIONS in total, and one for the rest of each.
    Runs one query.

    totals: (namespace, live entities), largest first. A namespace is left out if the report does not tell
    what blocks it.
    """
    totals = totals[:MAX_NAMESPACES]
    names = [name for name, _ in totals]
    try:
        summaries = namespace_summaries(run, names)
        blocking = _blocking_counts(run, summaries)
    except (AnalysisError, StorageError):
        return {}
    applications: dict[str, dict[str, int]] = {}
    live = Entity.objects.filter(state=State.LIVE, namespace__key__in=names, application__isnull=False)
    rows = live.order_by().values_list("namespace__key", "application__key").annotate(total=Count("pk"))
    for namespace, application, total in rows.order_by("-total", "application__key")[:MAX_APPLICATIONS]:
        applications.setdefault(namespace, {})[application] = total
    return {
        name: tuple(_parts(name, total, applications.get(name, {}), summaries[name], blocking[name]))
        for name, total in totals
        if name in blocking
    }


def _blocking_counts(run: AnalysisRun, summaries: Mapping[str, dict]) -> dict[str, Counter[str]]:
    """Return by namespace how many entities block its deletion, by application; those in no application under
    an empty name.

    A namespace without a nearest user is left out: everything in it blocks.
    """
    nearest = {
        name: row["nearest_user"]
        for name, row in summaries.items()
        if row["nearest_user"] and not row["users_ready"]
    }
    counts = {
        name: Counter[str]() for name, row in summaries.items() if row["users_ready"] or name in nearest
    }
    if nearest and sum(summaries[name]["fewest_missing"] for name in nearest) <= MAX_BLOCKING_ENTITIES:
        counts |= _counts_of(stored_report(run, "detail"), tuple(sorted(nearest.items())))
        return counts
    return {name: count for name, count in counts.items() if name not in nearest}


@lru_cache(maxsize=8)
def _counts_of(report: StoredReport, nearest: tuple[tuple[str, str], ...]) -> dict[str, Counter[str]]:
    counts = {}
    for namespace, user in nearest:
        where = ResultFilter(equal={"namespace": namespace, "user": user})
        rows = result_page(report.run, "detail", where=where, max_rows=MAX_BLOCKING_ENTITIES).rows
        counts[namespace] = Counter(_application_of(row["entity"]) for row in rows)
    return counts


def _application_of(address: str) -> str:
    kind, _, key = address.partition(":")
    return ".".join(key.split(".", 2)[:2]) if kind in ("application", "program") else ""


def _parts(
    namespace: str, total: int, applications: Mapping[str, int], summary: dict, blocking: Counter[str]
) -> Iterator[TreemapItem]:
    for key, size in applications.items():
        text = quantity(size, "live entity", "live entities")
        yield _part(
            key.partition(".")[2],
            size,
            f"application:{key}: {text}",
            entity_url(Address("application", key)),
            summary,
            blocking[key],
        )
    if rest := total - sum(applications.values()):
        others = sum(count for key, count in blocking.items() if key not in applications)
        text = quantity(rest, "other live entity", "other live entities")
        yield _part(
            "other entities",
            rest,
            f"namespace:{namespace}: {text}",
            namespace_url(namespace),
            summary,
            others,
        )


def _part(name: str, size: int, title: str, url: str, summary: dict, blocking: int) -> TreemapItem:
    if blocking:
        sentence = (
            f"{summary['nearest_user']} is missing ADMIN on {blocking:,} of them, which blocks the deletion"
        )
        return TreemapItem(name, size, f"{blocking:,} of {size:,} block", f"{title}; {sentence}", url, "bad")
    return TreemapItem(name, size, f"{size:,}", f"{title}; nothing in it blocks the deletion", url, "good")
