"""The treemap of the namespaces, sized by their entities and coloured by delete readiness or by number of
viewers.

Coloured by readiness, the tiles of the largest namespaces contain their applications.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from django.db.models import Count

from analytics.analyses import AnalysisName
from analytics.models import AnalysisRun
from analytics.results.query import ResultFilter
from analytics.results.read import ResultPage, result_page, row_counts
from analytics.runs.selectors import changes_since, latest_run
from authzconsole.web.reports.charts.treemap_layout import (
    COLOR_STEPS,
    TreemapItem,
    color_step,
    shade_of,
    treemap,
)
from authzconsole.web.reports.results import (
    REPORT_ERRORS,
    cached_by_report,
    namespace_summaries,
    report_fault,
)
from authzconsole.web.shared.links import entity_url
from entities.address import Address
from entities.frozen import frozen
from entities.models import Entity, State
from entities.vocabulary import quantity
from grants.policies.policy import Generation

MAX_NAMESPACES, MAX_APPLICATIONS = 12, 60
MAX_BLOCKING_ENTITIES = 20_000
MAX_TILES = 60


@frozen
class TileColor:
    """The colour of a tile.

    meaning: see `TreemapItem`. sentence: a sentence about the namespace.
    caption: the line below its name; if empty, the tile shows its size there. shade: see `TreemapItem`.
    """

    meaning: str = ""
    sentence: str = "not analyzed yet"
    caption: str = ""
    shade: int = 0


NOT_ANALYZED = TileColor()


@frozen
class TreemapColoring:
    """The question that the colours answer.

    colors: returns the colour of each of these namespaces that a finished run of `analysis` covers; raises
    AnalysisError or StorageError. scale: the meaning of a stronger colour; empty if the tiles have icons
    instead.
    """

    name: str
    title: str
    question: str
    analysis: str
    colors: Callable[[AnalysisRun, Iterable[str]], Mapping[str, TileColor]]
    scale: str = ""


def namespace_chart(
    coloring: TreemapColoring, generation: Generation, readiness: AnalysisRun | None, *, is_large: bool
) -> dict:
    """Return the context of the chart. Runs at most six queries.

    area_unit: the unit of the areas. more: number of namespaces without a tile. is_unknown: there is no data
    for the chart.
    readiness: the newest report on delete readiness; beyond `row_estimates.MAX_COUNTED` entities it supplies
    the areas.
    """
    is_readiness = coloring.analysis == AnalysisName.DELETE_READINESS
    run = readiness if is_readiness else latest_run(coloring.analysis, generation=generation.name)
    chart = {
        "coloring": coloring,
        "run": run,
        "is_from_report": is_large,
        "changes_since": changes_since(run),
    }
    if is_large and readiness is None:
        return chart | {"is_unknown": True}
    try:
        areas, more, other_area = _areas_from_report(readiness) if is_large else _areas_from_entities()
    except REPORT_ERRORS:
        return chart | {"is_unknown": True}
    colors, fault = _tile_colors(coloring, run, list(areas))
    parts = _namespace_parts(run, list(areas.items())) if colors and is_readiness and not is_large else {}
    unit = ("entities", "entities") if is_large else ("live entity", "live entities")
    items = [
        _item(name, area, quantity(area, *unit), colors.get(name, NOT_ANALYZED), parts.get(name, ()))
        for name, area in areas.items()
    ]
    if other_area:
        size = quantity(other_area, *unit)
        items.append(TreemapItem(f"{more:,} more", other_area, size, f"{more:,} smaller namespaces, {size}"))
    return chart | {
        "tiles": treemap(items),
        "more": more,
        "area_unit": "entities that require ADMIN" if is_large else "live entities",
        "fault": fault,
        "has_unknown_tiles": any(name not in colors for name in areas),
        "has_parts": bool(parts),
    }


# the area of each of the largest namespaces, the number of other namespaces, and their area
Areas = tuple[Mapping[str, int], int, int]


def _areas_from_entities() -> Areas:
    """Return the numbers of live entities. Runs two queries."""
    live = Entity.objects.filter(state=State.LIVE, namespace__state=State.LIVE).order_by()
    rows = live.values_list("namespace__key").annotate(total=Count("pk"))
    areas = dict(rows.order_by("-total", "namespace__key")[:MAX_TILES])
    totals = live.aggregate(entities=Count("pk"), namespaces=Count("namespace", distinct=True))
    return areas, totals["namespaces"] - len(areas), totals["entities"] - sum(areas.values())


def _areas_from_report(run: AnalysisRun) -> Areas:
    """Return the numbers of entities that require ADMIN. The area of the other namespaces is 0: it is not known."""
    result = largest_namespaces(run)
    areas = {row["namespace"]: row["required"] for row in result.rows}
    return areas, result.total_rows - len(areas), 0


def _item(name: str, area: int, size: str, color: TileColor, parts: tuple[TreemapItem, ...]) -> TreemapItem:
    title = f"namespace:{name}: {size}; {color.sentence}"
    return TreemapItem(
        name,
        area,
        color.caption or size,
        title,
        entity_url(Address("namespace", name)),
        color.meaning,
        color.shade,
        parts,
    )


def _tile_colors(
    coloring: TreemapColoring, run: AnalysisRun | None, names: list[str]
) -> tuple[Mapping[str, TileColor], str]:
    """Return the colours and an empty message; if the report cannot be read, no colours and an error message."""
    if run is None:
        return {}, ""
    try:
        return coloring.colors(run, names), ""
    except REPORT_ERRORS as error:
        return {}, report_fault(run, error)


@cached_by_report(8)
def largest_namespaces(run: AnalysisRun) -> ResultPage:
    """Return the largest namespaces of a delete-readiness report. Raise AnalysisError or StorageError.

    The result is cached, because reading it takes longer than the rest of the page.
    """
    return result_page(run, "namespaces", sort="required", descending=True, max_rows=MAX_TILES)


@cached_by_report(8)
def _viewer_counts(run: AnalysisRun, namespaces: tuple[str, ...]) -> Mapping[str, int]:
    """Return how many users see an entity in each of these namespaces, from a visibility report."""
    return row_counts(run, "namespaces", by="namespace", where=ResultFilter(among={"namespace": namespaces}))


def _readiness_colors(run: AnalysisRun, names: Iterable[str]) -> Mapping[str, TileColor]:
    return {name: readiness_color(row) for name, row in namespace_summaries(run, names).items()}


def _exposure_colors(run: AnalysisRun, names: Iterable[str]) -> Mapping[str, TileColor]:
    names = list(names)
    viewers = _viewer_counts(run, tuple(names))
    max_viewers = max(viewers.values(), default=0)
    return {name: _exposure_color(viewers.get(name, 0), max_viewers) for name in names}


def _exposure_color(viewers: int, max_viewers: int) -> TileColor:
    if not viewers:
        return TileColor("heat-0", "no user sees an entity in it", "no users")
    users = quantity(viewers, "user", "users")
    return TileColor(
        f"heat-{color_step(viewers, max_viewers)}",
        f"{users} {'sees' if viewers == 1 else 'see'} an entity in it",
        users,
    )


def readiness_color(row: dict) -> TileColor:
    """Return the colour of a namespace's tile. row: its row in the report of delete readiness."""
    if row["users_ready"]:
        return TileColor("good", f"{quantity(row['users_ready'], 'user', 'users')} can delete it")
    if row["nearest_user"]:
        missing = f"{row['fewest_missing']:,} of {row['required']:,}"
        return TileColor(
            "bad",
            f"no user can delete it; {row['nearest_user']} is missing {missing}",
            f"{missing} missing",
            shade_of(row["fewest_missing"], row["required"]),
        )
    return TileColor("bad", "no user can delete it or holds ADMIN in it", "nobody", COLOR_STEPS)


def _namespace_parts(
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
    except REPORT_ERRORS:
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
        counts |= _counts_of(run, tuple(sorted(nearest.items())))
        return counts
    return {name: count for name, count in counts.items() if name not in nearest}


@cached_by_report(8)
def _counts_of(run: AnalysisRun, nearest: tuple[tuple[str, str], ...]) -> dict[str, Counter[str]]:
    counts = {}
    for namespace, user in nearest:
        where = ResultFilter(equal={"namespace": namespace, "user": user})
        rows = result_page(run, "detail", where=where, max_rows=MAX_BLOCKING_ENTITIES).rows
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
            entity_url(Address("namespace", namespace)),
            summary,
            others,
        )


def _part(name: str, size: int, title: str, url: str, summary: dict, blocking: int) -> TreemapItem:
    if blocking:
        sentence = (
            f"{summary['nearest_user']} is missing ADMIN on {blocking:,} of them, which blocks the deletion"
        )
        return TreemapItem(
            name,
            size,
            f"{blocking:,} of {size:,} block",
            f"{title}; {sentence}",
            url,
            "bad",
            shade_of(blocking, size),
        )
    return TreemapItem(name, size, f"{size:,}", f"{title}; nothing in it blocks the deletion", url, "good")


COLORINGS = {
    coloring.name: coloring
    for coloring in (
        TreemapColoring(
            "readiness",
            "Who can delete it",
            "Which namespace can be deleted?",
            AnalysisName.DELETE_READINESS,
            _readiness_colors,
        ),
        TreemapColoring(
            "exposure",
            "Who sees it",
            "How many users see which namespace?",
            AnalysisName.VISIBILITY,
            _exposure_colors,
            scale="stronger colour: visible to more users",
        ),
    )
}
