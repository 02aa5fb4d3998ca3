"""The treemap of the namespaces, sized by their entities and coloured by delete readiness or by number of
viewers.

Coloured by readiness, the tiles of the largest namespaces contain their applications.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from django.db.models import Count

from analytics.analyses import AnalysisError, AnalysisName
from analytics.models import AnalysisRun
from analytics.results.query import ResultFilter
from analytics.results.read import ResultPage, result_page, row_counts
from analytics.runs.selectors import changes_since, latest_run
from analytics.storage import StorageError
from authzconsole.web.reports.charts.color_scale import color_step
from authzconsole.web.reports.charts.namespace_parts import namespace_parts
from authzconsole.web.reports.charts.treemap_layout import TreemapItem, treemap
from authzconsole.web.reports.readiness_report import (
    StoredReport,
    namespace_summaries,
    namespace_url,
    report_fault,
    stored_report,
)
from entities.models import Entity, State
from entities.vocabulary import quantity
from grants.policies.policy import Generation

MAX_TILES = 60


@dataclass(frozen=True, slots=True)
class TileColor:
    """The colour of a tile.

    meaning: see `TreemapItem`. sentence: a sentence about the namespace.
    caption: the line below its name; if empty, the tile shows its size there.
    """

    meaning: str = ""
    sentence: str = "not analysed yet"
    caption: str = ""


NOT_ANALYSED = TileColor()


@dataclass(frozen=True, slots=True)
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
        "tiles": [],
        "more": 0,
        "is_from_report": is_large,
        "fault": "",
        # for readiness, the page head shows it
        "changes_since": 0 if run is readiness else changes_since(run),
    }
    if not is_large:
        return chart | _chart_from_entities(coloring, run)
    try:
        return chart | (_chart_from_report(coloring, run, readiness) if readiness else {"is_unknown": True})
    except (AnalysisError, StorageError):
        return chart | {"is_unknown": True}


def _chart_from_entities(coloring: TreemapColoring, run: AnalysisRun | None) -> dict:
    live = Entity.objects.filter(state=State.LIVE, namespace__state=State.LIVE).order_by()
    rows = list(
        live.values_list("namespace__key")
        .annotate(total=Count("pk"))
        .order_by("-total", "namespace__key")[:MAX_TILES]
    )
    totals = live.aggregate(entities=Count("pk"), namespaces=Count("namespace", distinct=True))
    colors, fault = _tile_colors(coloring, run, [name for name, _ in rows])
    parts = (
        namespace_parts(run, rows) if colors and coloring.analysis == AnalysisName.DELETE_READINESS else {}
    )
    items = [
        _item(
            name,
            total,
            quantity(total, "live entity", "live entities"),
            colors.get(name, NOT_ANALYSED),
            parts.get(name, ()),
        )
        for name, total in rows
    ]
    more, other_entities = (
        totals["namespaces"] - len(rows),
        totals["entities"] - sum(total for _, total in rows),
    )
    if more:
        size = quantity(other_entities, "live entity", "live entities")
        items.append(
            TreemapItem(f"{more:,} more", other_entities, size, f"{more:,} smaller namespaces, {size}")
        )
    return {
        "tiles": treemap(items),
        "more": more,
        "area_unit": "live entities",
        "fault": fault,
        "has_unknown_tiles": any(name not in colors for name, _ in rows),
        "has_parts": bool(parts),
    }


def _chart_from_report(coloring: TreemapColoring, run: AnalysisRun | None, readiness: AnalysisRun) -> dict:
    result = largest_namespaces(readiness)
    names = [row["namespace"] for row in result.rows]
    colors, fault = _tile_colors(coloring, run, names)
    items = [
        _item(
            row["namespace"],
            row["required"],
            f"{row['required']:,} entities",
            colors.get(row["namespace"], NOT_ANALYSED),
        )
        for row in result.rows
    ]
    return {
        "tiles": treemap(items),
        "more": result.total_rows - len(result.rows),
        "fault": fault,
        "area_unit": "entities that require ADMIN",
        "has_unknown_tiles": any(name not in colors for name in names),
    }


def _item(
    name: str, area: int, size: str, color: TileColor, parts: tuple[TreemapItem, ...] = ()
) -> TreemapItem:
    title = f"namespace:{name}: {size}; {color.sentence}"
    return TreemapItem(name, area, color.caption or size, title, namespace_url(name), color.meaning, parts)


def _tile_colors(
    coloring: TreemapColoring, run: AnalysisRun | None, names: list[str]
) -> tuple[Mapping[str, TileColor], str]:
    """Return the colours and an empty message; if the report cannot be read, no colours and an error message."""
    if run is None:
        return {}, ""
    try:
        return coloring.colors(run, names), ""
    except (AnalysisError, StorageError) as error:
        return {}, report_fault(run, error)


def largest_namespaces(run: AnalysisRun) -> ResultPage:
    """Return the largest namespaces of a delete-readiness report. Raise AnalysisError or StorageError.

    The result is cached, because reading it takes longer than the rest of the page.
    """
    return _largest(stored_report(run, "namespaces"))


@lru_cache(maxsize=8)
def _largest(report: StoredReport) -> ResultPage:
    return result_page(report.run, "namespaces", sort="required", descending=True, max_rows=MAX_TILES)


def viewer_counts(run: AnalysisRun, namespaces: Iterable[str]) -> Mapping[str, int]:
    """Return how many users see an entity in each of these namespaces, from a visibility report. Cached."""
    return _viewer_counts(stored_report(run, "namespaces"), tuple(namespaces))


@lru_cache(maxsize=8)
def _viewer_counts(report: StoredReport, namespaces: tuple[str, ...]) -> Mapping[str, int]:
    return row_counts(
        report.run, "namespaces", by="namespace", where=ResultFilter(among={"namespace": namespaces})
    )


def _readiness_colors(run: AnalysisRun, names: Iterable[str]) -> Mapping[str, TileColor]:
    return {name: TileColor(*readiness_color(row)) for name, row in namespace_summaries(run, names).items()}


def _exposure_colors(run: AnalysisRun, names: Iterable[str]) -> Mapping[str, TileColor]:
    names = list(names)
    viewers = viewer_counts(run, names)
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


def readiness_color(row: dict) -> tuple[str, str]:
    """Return the meaning of a namespace's tile and a sentence about the namespace. row: its row in the
    report.
    """
    if row["users_ready"]:
        return "good", f"{quantity(row['users_ready'], 'user', 'users')} can delete it"
    if row["nearest_user"]:
        return "bad", (
            f"no user can delete it; {row['nearest_user']} is missing {row['fewest_missing']:,} of "
            f"{row['required']:,}"
        )
    return "bad", "no user can delete it or holds ADMIN in it"


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
