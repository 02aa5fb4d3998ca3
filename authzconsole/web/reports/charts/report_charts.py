"""Charts of reports: treemap, heat map and bars. Their size does not grow with the report.

Each shape links to its rows. The tables below the chart show the same numbers.
"""

from collections.abc import Callable

from django.urls import reverse

from analytics.analyses import AnalysisName
from analytics.models import AnalysisRun
from analytics.results.query import ResultFilter
from analytics.results.read import result_page
from authzconsole.web.reports.cell_links import detail_url, exactly, rows_url
from authzconsole.web.reports.charts.namespace_treemap import (
    MAX_TILES,
    largest_namespaces,
    readiness_color,
)
from authzconsole.web.reports.charts.treemap_layout import (
    TreemapItem,
    clip,
    color_step,
    shade_of,
    treemap,
)
from authzconsole.web.reports.results import REPORT_ERRORS, cached_by_report
from authzconsole.web.shared.links import entity_url
from entities.address import Address
from entities.vocabulary import KINDS, quantity

MAX_CELLS_READ = 1_000
MAX_USERS, MAX_NAMESPACES = 30, 16
MAX_BARS = 20

# dimensions of the heat map, in pixels
_NAMES_WIDTH = 190
# a map fills the width of a page, unless it has so few columns that they would be too wide
_CHART_WIDTH = 1_180
_MIN_COLUMN_WIDTH, _MAX_COLUMN_WIDTH = 50, 140
_ROW_HEIGHT = 26
_HEAD_HEIGHT = 96
# of the totals, and of the slanted name of the last column
_RIGHT_MARGIN = 90
# percent of the width on either side of the middle, which leaves space for the figure at the end of the
# longest bar
_BAR_SIDE_PERCENT = 40


def report_chart(run: AnalysisRun, user: str) -> dict | None:
    """Return the chart with its `template`; None if the analysis has no chart, or its report is empty or
    cannot be read.

    user: the name of the only user whose rows the page shows; the chart is then about this user, if the analysis has
    such a chart.
    """
    if run.type not in CHARTS:
        return None
    try:
        if user and run.type in CHARTS_OF_USER:
            return _cached_chart_of_user(run, user)
        return _cached_chart(run)
    except REPORT_ERRORS:
        # the tables of the same page show the error
        return None


@cached_by_report(32)
def _cached_chart(run: AnalysisRun) -> dict | None:
    return CHARTS[run.type](run)


@cached_by_report(32)
def _cached_chart_of_user(run: AnalysisRun, user: str) -> dict | None:
    return CHARTS_OF_USER[run.type](run, user)


def _readiness_treemap(run: AnalysisRun) -> dict | None:
    namespaces = largest_namespaces(run)
    items = [
        TreemapItem(
            row["namespace"],
            row["required"],
            f"{row['required']:,} entities",
            f"namespace:{row['namespace']}: requires ADMIN on {row['required']:,}; {color.sentence}",
            rows_url(run, namespace=exactly(row["namespace"])),
            color.meaning,
            color.shade,
        )
        for row, color in ((row, readiness_color(row)) for row in namespaces.rows)
    ]
    more = namespaces.total_rows - len(namespaces.rows)
    return (
        {"template": "reports/charts/_treemap.html", "tiles": treemap(items), "more": more} if items else None
    )


def _visibility_heat_map(run: AnalysisRun) -> dict | None:
    """Return the heat map of users by namespaces.

    The largest cells determine the users and namespaces; a second read returns all their cells.
    """
    largest = result_page(run, "namespaces", sort="visible", descending=True, max_rows=MAX_CELLS_READ)
    cells = [row for row in largest.rows if row["namespace"]]
    users, namespaces = (
        _names_by_total(cells, "user")[:MAX_USERS],
        _names_by_total(cells, "namespace")[:MAX_NAMESPACES],
    )
    if not users:
        return None
    where = ResultFilter(among={"user": users, "namespace": namespaces})
    result = result_page(run, "namespaces", where=where, max_rows=len(users) * len(namespaces))
    visible_counts = {(row["user"], row["namespace"]): row["visible"] for row in result.rows}
    largest_count = max(visible_counts.values(), default=1)
    users = _grouped_users(users, namespaces, visible_counts)
    width = max(
        _MIN_COLUMN_WIDTH,
        min(_MAX_COLUMN_WIDTH, (_CHART_WIDTH - _NAMES_WIDTH - _RIGHT_MARGIN) // len(namespaces)),
    )
    return {
        "template": "reports/charts/_heat.html",
        "width": _NAMES_WIDTH + width * len(namespaces) + _RIGHT_MARGIN,
        "cell_width": width - 2,
        "largest": largest_count,
        "total_x": _NAMES_WIDTH + width * len(namespaces) + 50,
        "head_y": _HEAD_HEIGHT - 8,
        "height": _HEAD_HEIGHT + _ROW_HEIGHT * len(users),
        "columns": [
            {
                "name": name,
                "label": clip(name, 14),
                "x": _NAMES_WIDTH + width * column + width // 2,
                "y": _HEAD_HEIGHT - 8,
                "url": entity_url(Address("namespace", name)),
            }
            for column, name in enumerate(namespaces)
        ],
        "rows": [
            {
                "name": user,
                "label": clip(user, 24),
                "y": _HEAD_HEIGHT + _ROW_HEIGHT * row,
                "text_y": _HEAD_HEIGHT + _ROW_HEIGHT * row + 17,
                "url": rows_url(run, user=exactly(user)),
                "total": sum(visible_counts.get((user, name), 0) for name in namespaces),
                "cells": [
                    _heat_cell(
                        run,
                        user,
                        name,
                        visible_counts.get((user, name), 0),
                        largest_count,
                        _NAMES_WIDTH + width * column,
                        width,
                    )
                    for column, name in enumerate(namespaces)
                ],
            }
            for row, user in enumerate(users)
        ],
        "is_cut": largest.total_rows > len(cells)
        or len(users) == MAX_USERS
        or len(namespaces) == MAX_NAMESPACES,
    }


def _names_by_total(cells: list[dict], column: str) -> list[str]:
    sums: dict[str, int] = {}
    for cell in cells:
        sums[cell[column]] = sums.get(cell[column], 0) + cell["visible"]
    return sorted(sums, key=lambda name: (-sums[name], name))


def _grouped_users(
    users: list[str], namespaces: list[str], visible_counts: dict[tuple[str, str], int]
) -> list[str]:
    """Return the users sorted by the namespace in which they see the most entities, then by their total."""

    def sort_key(user: str) -> tuple:
        counts = [visible_counts.get((user, name), 0) for name in namespaces]
        return counts.index(max(counts)), -sum(counts), user

    return sorted(users, key=sort_key)


def _heat_cell(
    run: AnalysisRun, user: str, namespace: str, visible: int, largest_count: int, x: int, width: int
) -> dict:
    entities = quantity(visible, "live entity", "live entities")
    return {
        "x": x,
        "text_x": x + width // 2 - 1,
        "step": color_step(visible, largest_count),
        "title": f"{user} sees {entities} in namespace:{namespace}",
        "label": _short_number(visible) if visible else "",
        "url": rows_url(run, user=exactly(user), namespace=exactly(namespace)) if visible else "",
    }


def _short_number(figure: int) -> str:
    """Return a number of at most four characters, such as `12k`."""
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if figure >= size:
            return f"{figure // size:,}{letter}"
    return str(figure)


def _impact_bars(run: AnalysisRun) -> dict | None:
    rows = {}
    for column in ("gained", "lost"):
        for row in result_page(run, "operations", sort=column, descending=True, max_rows=MAX_BARS).rows:
            rows[row["kind"], row["operation"]] = row
    largest_rows = sorted(
        rows.values(), key=lambda row: (-row["gained"] - row["lost"], row["kind"], row["operation"])
    )[:MAX_BARS]
    if not largest_rows:
        return None
    largest_count = max(max(row["gained"], row["lost"]) for row in largest_rows)
    return {
        "template": "reports/charts/_bars.html",
        "bars": [_bar(run, row, largest_count) for row in largest_rows],
        "ticks": _ticks(largest_count),
    }


def _ticks(largest: int) -> list[dict]:
    """Return the gridlines on both sides of the zero: at a round number and its multiples up to the largest one."""
    step = 10 ** (len(str(largest)) - 1)
    if largest < 2 * step:
        step = max(1, step // 2)
    elif largest >= 5 * step:
        step *= 2
    return [
        {"x": round(50 + side * figure / largest * _BAR_SIDE_PERCENT, 2), "figure": figure}
        for figure in range(step, largest + 1, step)
        for side in (-1, 1)
    ]


def _bar(run: AnalysisRun, row: dict, largest_count: int) -> dict:
    """Return a bar. Its positions and lengths are percentages of the available width."""
    kind = KINDS[row["kind"]].title if row["kind"] in KINDS else row["kind"]
    gained, lost = (round(row[name] / largest_count * _BAR_SIDE_PERCENT, 2) for name in ("gained", "lost"))
    return {
        "name": f"{kind} {row['operation']}",
        "row": row,
        "gained": gained,
        "lost": lost,
        "lost_x": round(50 - lost, 2),
        "gained_text_x": round(51 + gained, 2),
        "lost_text_x": round(49 - lost, 2),
        "url": rows_url(run, kind=row["kind"], operation=row["operation"]),
        "title": f"{row['operation']} on {kind}: {row['gained']:,} gained, {row['lost']:,} lost, {row['users']:,} users",
    }


@cached_by_report(8)
def reach_bars(run: AnalysisRun, max_bars: int = MAX_BARS) -> dict | None:
    """Return bars of the users who can change the most entities, with all the entities that they reach; None if no user
    reaches any. Raise the errors of `result_page`.
    """
    result = result_page(run, "people", sort="changeable", descending=True, max_rows=max_bars)
    if not result.rows:
        return None
    people = sorted(result.rows, key=lambda row: (-row["changeable"], -row["entities"], row["user"]))
    largest = max(row["entities"] for row in people)
    return {
        "template": "reports/charts/_reach_bars.html",
        "label": "Entities that each user can change and reaches",
        "more": result.total_rows - len(people),
        "bars": [
            {
                "row": row,
                "light": round(row["entities"] / largest * 100, 2),
                "dark": round(row["changeable"] / largest * 100, 2),
                "text": f"can change {row['changeable']:,} of {row['entities']:,}",
                # the top of the page, which says what the user reaches
                "url": reverse("analysis", args=[run.pk], query={"user": exactly(row["user"])}),
                "title": f"{row['user']} can change {row['changeable']:,} of {row['entities']:,} live entities "
                f"that the user reaches, in {quantity(row['namespaces'], 'namespace', 'namespaces')}",
            }
            for row in people
        ],
    }


def _outlier_bars(run: AnalysisRun) -> dict | None:
    """Return bars of the users who hold the most that almost no colleague does."""
    result = result_page(run, "people", sort="privileges", descending=True, max_rows=MAX_BARS)
    if not result.rows:
        return None
    people = sorted(result.rows, key=lambda row: (-row["privileges"], row["user"]))
    return {
        "template": "reports/charts/_outlier_bars.html",
        "label": "Unusual privileges of each user",
        "more": result.total_rows - len(people),
        "bars": [
            {
                "row": row,
                "dark": round(row["privileges"] / people[0]["privileges"] * 100, 2),
                "text": f"{quantity(row['privileges'], 'privilege', 'privileges')} on "
                f"{quantity(row['entities'], 'entity', 'entities')}",
                "url": rows_url(run, user=exactly(row["user"])),
                "title": f"{row['user']} holds {quantity(row['privileges'], 'privilege', 'privileges')} on "
                f"{quantity(row['entities'], 'entity', 'entities')} that few other members of "
                f"{quantity(row['groups'], 'group', 'groups')} hold",
            }
            for row in people
        ],
    }


def _reach_treemap(run: AnalysisRun, user: str) -> dict | None:
    """Return the treemap of the namespaces that a user reaches."""
    result = result_page(
        run,
        "namespaces",
        where=ResultFilter(equal={"user": user}),
        sort="entities",
        descending=True,
        max_rows=MAX_TILES,
    )
    if not result.rows:
        return None
    items = [
        TreemapItem(
            row["namespace"] or "outside of namespaces",
            row["entities"],
            f"{row['changeable']:,} of {row['entities']:,}",
            f"{_place(row['namespace'])}: {user} can change {row['changeable']:,} of "
            f"{quantity(row['entities'], 'entity', 'entities')} that the user reaches",
            _contents_url(run, user, row["namespace"]),
            f"heat-{shade_of(row['changeable'], row['entities'])}",
        )
        for row in result.rows
    ]
    return {
        "template": "reports/charts/_reach_treemap.html",
        "tiles": treemap(items),
        "user": user,
        "total": result_page(run, "people", where=ResultFilter(equal={"user": user}), max_rows=1).rows[0],
        "more": result.total_rows - len(result.rows),
        "everybody_url": reverse("analysis", args=[run.pk]),
    }


def _place(namespace: str) -> str:
    return f"namespace:{namespace}" if namespace else "outside of namespaces"


def _contents_url(run: AnalysisRun, user: str, namespace: str) -> str:
    """Return the URL of the privileges of a user inside a namespace; empty if the report has no detail table."""
    return detail_url(run, user=exactly(user), entity=f":{namespace}.") if namespace else ""


# by analysis
CHARTS: dict[str, Callable[[AnalysisRun], dict | None]] = {
    AnalysisName.DELETE_READINESS: _readiness_treemap,
    AnalysisName.VISIBILITY: _visibility_heat_map,
    AnalysisName.POLICY_IMPACT: _impact_bars,
    AnalysisName.BLAST_RADIUS: reach_bars,
    AnalysisName.OUTLIERS: _outlier_bars,
}
# by analysis: the chart about one user
CHARTS_OF_USER: dict[str, Callable[[AnalysisRun, str], dict | None]] = {
    AnalysisName.BLAST_RADIUS: _reach_treemap,
}
