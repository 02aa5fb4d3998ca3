"""The treemap of the namespaces, sized by their entities and coloured by delete readiness or by number of viewers."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from django.db.models import Count

from analytics.analyses import AnalysisError, AnalysisName
from analytics.models import AnalysisRun
from analytics.results.query import ResultFilter
from analytics.results.read import ResultPage, result_page, row_counts
from analytics.runs.selectors import latest_run
from analytics.storage import StorageError
from authzconsole.web.reports.charts.color_scale import color_step
from authzconsole.web.reports.charts.treemap_layout import TreemapItem, treemap
from authzconsole.web.reports.readiness_report import (
    StoredReport,
    namespace_summaries,
    namespace_url,
    report_fault,
    stored_report,
)
from entities.models import Entity, State
from grants.journal import decision_changes_after
from grants.policies.policy import Generation

MAX_TILES = 60


@dataclass(frozen=True, slots=True)
class TileColor:
    """The colour of a tile. meaning: see `TreemapItem`. said: a sentence about the namespace. words: the line on the tile;
    where it is empty, the tile shows the size."""

    meaning: str = ""
    said: str = "not analysed yet"
    words: str = ""


NOT_ANALYSED = TileColor()


@dataclass(frozen=True, slots=True)
class TreemapColoring:
    """The question that the colours answer.

    colors: returns the colour of each of these namespaces from a finished run of `analysis`, as far as the run knows them;
    raises AnalysisError or StorageError. scale: what a stronger colour means; empty if icons and words say it.
    """

    name: str
    title: str
    question: str
    analysis: str
    colors: Callable[[AnalysisRun, Iterable[str]], Mapping[str, TileColor]]
    scale: str = ""


def namespaces_picture(coloring: TreemapColoring, generation: Generation, readiness: AnalysisRun | None, *,
                       is_large: bool) -> dict:
    """Return the chart. words: the unit of the areas. more: the number of namespaces without their own tile.
    is_unknown: there is no data for the chart.

    readiness: the newest report on delete readiness; beyond `row_estimates.MAX_COUNTED` entities it supplies the areas.
    Runs at most five queries.
    """
    is_readiness = coloring.analysis == AnalysisName.DELETE_READINESS
    run = readiness if is_readiness else latest_run(coloring.analysis, generation=generation.name)
    picture = {"coloring": coloring, "run": run, "tiles": [], "more": 0, "is_reported": is_large, "fault": "",
               # for readiness, the page head shows it
               "changes_since": decision_changes_after(run.revision) if run and run is not readiness else 0}
    if not is_large:
        return picture | _counted_chart(coloring, run)
    try:
        return picture | (_reported_chart(coloring, run, readiness) if readiness else {"is_unknown": True})
    except (AnalysisError, StorageError):
        return picture | {"is_unknown": True}


def _counted_chart(coloring: TreemapColoring, run: AnalysisRun | None) -> dict:
    live = Entity.objects.filter(state=State.LIVE, namespace__state=State.LIVE).order_by()
    rows = list(live.values_list("namespace__key").annotate(total=Count("pk")).order_by("-total", "namespace__key")[:MAX_TILES])
    whole = live.aggregate(entities=Count("pk"), namespaces=Count("namespace", distinct=True))
    colors, fault = _tile_colors(coloring, run, [name for name, _ in rows])
    items = [_item(name, total, "live entity" if total == 1 else "live entities", colors.get(name, NOT_ANALYSED))
             for name, total in rows]
    more, rest = whole["namespaces"] - len(rows), whole["entities"] - sum(total for _, total in rows)
    if more:
        inside = f"{rest:,} live entities"
        items.append(TreemapItem(f"{more:,} more", rest, inside, f"{more:,} smaller namespaces, {inside}"))
    return {"tiles": treemap(items), "more": more, "words": "live entities", "fault": fault,
            "has_unchecked": any(name not in colors for name, _ in rows)}


def _reported_chart(coloring: TreemapColoring, run: AnalysisRun | None, readiness: AnalysisRun) -> dict:
    result = largest_namespaces(readiness)
    names = [row["namespace"] for row in result.rows]
    colors, fault = _tile_colors(coloring, run, names)
    items = [_item(row["namespace"], row["required"], "entities", colors.get(row["namespace"], NOT_ANALYSED))
             for row in result.rows]
    return {"tiles": treemap(items), "more": result.total_rows - len(result.rows), "fault": fault,
            "words": "entities that require ADMIN",
            "has_unchecked": any(name not in colors for name in names)}


def _item(name: str, area: int, unit: str, color: TileColor) -> TreemapItem:
    return TreemapItem(name, area, color.words or f"{area:,} {unit}", f"namespace:{name}: {area:,} {unit}; {color.said}",
                namespace_url(name), color.meaning)


def _tile_colors(coloring: TreemapColoring, run: AnalysisRun | None, names: list[str]) -> tuple[Mapping[str, TileColor], str]:
    """Return the colours, or none and a notice if the report cannot be read."""
    if run is None:
        return {}, ""
    try:
        return coloring.colors(run, names), ""
    except (AnalysisError, StorageError) as error:
        return {}, report_fault(run, error)


def largest_namespaces(run: AnalysisRun) -> ResultPage:
    """Return the largest namespaces of a delete-readiness report. Raises AnalysisError, StorageError.

    Cached, because reading them takes longer than the rest of the page.
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
    return row_counts(report.run, "namespaces", by="namespace", where=ResultFilter(among={"namespace": namespaces}))


def _by_readiness(run: AnalysisRun, names: Iterable[str]) -> Mapping[str, TileColor]:
    return {name: TileColor(*readiness_words(row)) for name, row in namespace_summaries(run, names).items()}


def _by_exposure(run: AnalysisRun, names: Iterable[str]) -> Mapping[str, TileColor]:
    names = list(names)
    viewers = viewer_counts(run, names)
    most = max(viewers.values(), default=0)
    return {name: _exposed(viewers.get(name, 0), most) for name in names}


def _exposed(people: int, most: int) -> TileColor:
    if not people:
        return TileColor("heat-0", "no user sees an entity in it", "no users")
    counted = f"{people:,} {'person' if people == 1 else 'people'}"
    return TileColor(f"heat-{color_step(people, most)}", f"{counted} {'sees' if people == 1 else 'see'} an entity in it", counted)


def readiness_words(report: dict) -> tuple[str, str]:
    """Return the meaning of a tile and a sentence about its namespace."""
    if report["users_ready"]:
        return "good", f"{report['users_ready']:,} {'person' if report['users_ready'] == 1 else 'people'} can delete it"
    if report["nearest_user"]:
        return "bad", (f"no user can delete it; {report['nearest_user']} is missing {report['fewest_missing']:,} of "
                       f"{report['required']:,}")
    return "bad", "no user can delete it or holds ADMIN in it"


COLORINGS = {colour.name: colour for colour in (
    TreemapColoring("readiness", "Who can delete it", "Which namespace can be deleted?", AnalysisName.DELETE_READINESS,
                 _by_readiness),
    TreemapColoring("exposure", "Who sees it", "How many people see which namespace?", AnalysisName.VISIBILITY, _by_exposure,
           scale="stronger colour: visible to more people"),
)}
