"""The namespaces as a picture: as large as what lies in each, coloured by who can delete it or by how many people see it."""

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
from authzconsole.web.reports.charts.color_scale import step_of
from authzconsole.web.reports.charts.treemap_layout import TreemapItem, treemap
from authzconsole.web.reports.readiness_report import StoredReport, namespace_summaries, namespace_url, stored_report, unreadable
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
    """What the colours of the picture answer. paints: of a finished run of `analysis` the paint of each of these namespaces,
    without those that the run does not know. Raises AnalysisError, StorageError. scale: what more of the colour means; empty
    where a mark and a word say it."""

    name: str
    title: str
    question: str
    analysis: str
    paints: Callable[[AnalysisRun, Iterable[str]], Mapping[str, TileColor]]
    scale: str = ""


def namespaces_picture(colour: TreemapColoring, generation: Generation, readiness: AnalysisRun | None, *, is_large: bool) -> dict:
    """words: what the areas are. more: namespaces that are not drawn one by one. is_unknown: there is nothing to draw it from.

    readiness: the newest report on it; past `row_estimates.MAX_COUNTED` entities the areas are what it says.
    Runs at most five queries.
    """
    is_readiness = colour.analysis == AnalysisName.DELETE_READINESS
    run = readiness if is_readiness else latest_run(colour.analysis, generation=generation.name)
    picture = {"colour": colour, "run": run, "tiles": [], "more": 0, "is_reported": is_large, "fault": "",
               # of readiness the head of the page says it
               "changes_since": decision_changes_after(run.revision) if run and run is not readiness else 0}
    if not is_large:
        return picture | _counted(colour, run)
    try:
        return picture | (_reported(colour, run, readiness) if readiness else {"is_unknown": True})
    except (AnalysisError, StorageError):
        return picture | {"is_unknown": True}


def _counted(colour: TreemapColoring, run: AnalysisRun | None) -> dict:
    live = Entity.objects.filter(state=State.LIVE, namespace__state=State.LIVE).order_by()
    rows = list(live.values_list("namespace__key").annotate(total=Count("pk")).order_by("-total", "namespace__key")[:MAX_TILES])
    whole = live.aggregate(entities=Count("pk"), namespaces=Count("namespace", distinct=True))
    paints, fault = _paints(colour, run, [name for name, _ in rows])
    items = [_item(name, total, "live entity" if total == 1 else "live entities", paints.get(name, NOT_ANALYSED))
             for name, total in rows]
    more, rest = whole["namespaces"] - len(rows), whole["entities"] - sum(total for _, total in rows)
    if more:
        inside = f"{rest:,} live entities"
        items.append(TreemapItem(f"{more:,} more", rest, inside, f"{more:,} smaller namespaces, {inside}"))
    return {"tiles": treemap(items), "more": more, "words": "live entities", "fault": fault,
            "has_unchecked": any(name not in paints for name, _ in rows)}


def _reported(colour: TreemapColoring, run: AnalysisRun | None, readiness: AnalysisRun) -> dict:
    found = largest_namespaces(readiness)
    names = [row["namespace"] for row in found.rows]
    paints, fault = _paints(colour, run, names)
    items = [_item(row["namespace"], row["required"], "to administer", paints.get(row["namespace"], NOT_ANALYSED))
             for row in found.rows]
    return {"tiles": treemap(items), "more": found.total_rows - len(found.rows), "fault": fault,
            "words": "entities that must be administered to delete it",
            "has_unchecked": any(name not in paints for name in names)}


def _item(name: str, area: int, unit: str, paint: TileColor) -> TreemapItem:
    return TreemapItem(name, area, paint.words or f"{area:,} {unit}", f"namespace:{name}: {area:,} {unit}; {paint.said}",
                namespace_url(name), paint.meaning)


def _paints(colour: TreemapColoring, run: AnalysisRun | None, names: list[str]) -> tuple[Mapping[str, TileColor], str]:
    """None, and why, where the report cannot be read."""
    if run is None:
        return {}, ""
    try:
        return colour.paints(run, names), ""
    except (AnalysisError, StorageError) as error:
        return {}, unreadable(run, error)


def largest_namespaces(run: AnalysisRun) -> ResultPage:
    """The rows of a report on readiness that a picture has room for. Raises AnalysisError, StorageError.

    Kept for the next look: reading it takes longer than the rest of the page.
    """
    return _largest(stored_report(run, "namespaces"))


@lru_cache(maxsize=8)
def _largest(report: StoredReport) -> ResultPage:
    return result_page(report.run, "namespaces", sort="required", descending=True, most_rows=MAX_TILES)


def people_seeing(run: AnalysisRun, namespaces: Iterable[str]) -> Mapping[str, int]:
    """How many users see anything in each of these namespaces by a report on visibility. Kept as `largest_namespaces` is."""
    return _seeing(stored_report(run, "namespaces"), tuple(namespaces))


@lru_cache(maxsize=8)
def _seeing(report: StoredReport, namespaces: tuple[str, ...]) -> Mapping[str, int]:
    return row_counts(report.run, "namespaces", by="namespace", where=ResultFilter(among={"namespace": namespaces}))


def _by_readiness(run: AnalysisRun, names: Iterable[str]) -> Mapping[str, TileColor]:
    return {name: TileColor(*readiness_words(row)) for name, row in namespace_summaries(run, names).items()}


def _by_exposure(run: AnalysisRun, names: Iterable[str]) -> Mapping[str, TileColor]:
    names = list(names)
    seeing = people_seeing(run, names)
    most = max(seeing.values(), default=0)
    return {name: _exposed(seeing.get(name, 0), most) for name in names}


def _exposed(people: int, most: int) -> TileColor:
    if not people:
        return TileColor("heat-0", "nobody sees anything in it", "nobody")
    counted = f"{people:,} {'person' if people == 1 else 'people'}"
    return TileColor(f"heat-{step_of(people, most)}", f"{counted} {'sees' if people == 1 else 'see'} something in it", counted)


def readiness_words(report: dict) -> tuple[str, str]:
    """The meaning of a tile, and what a report says of its namespace."""
    if report["users_ready"]:
        return "good", f"{report['users_ready']:,} {'person' if report['users_ready'] == 1 else 'people'} can delete it"
    if report["nearest_user"]:
        return "bad", (f"nobody can delete it; {report['nearest_user']} lacks {report['fewest_missing']:,} of "
                       f"{report['required']:,}")
    return "bad", "nobody can delete it, and nobody holds ADMIN in it"


COLORINGS = {colour.name: colour for colour in (
    TreemapColoring("readiness", "Who can delete it", "Which namespace can be deleted?", AnalysisName.DELETE_READINESS,
                 _by_readiness),
    TreemapColoring("exposure", "Who sees it", "How many people see which namespace?", AnalysisName.VISIBILITY, _by_exposure,
           scale="the stronger the colour, the more people see something in it"),
)}
