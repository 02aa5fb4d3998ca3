"""Charts of reports: treemap, heat map and bars. Their size does not grow with the report.

Each shape links to its rows. The tables below the chart show the same numbers.
"""

from collections.abc import Callable

from analytics.analyses import AnalysisName
from analytics.models import AnalysisRun
from analytics.results.query import ResultFilter
from analytics.results.read import result_page
from authzconsole.web.reports.cell_links import exactly, rows_url
from authzconsole.web.reports.charts.namespace_treemap import largest_namespaces, readiness_color
from authzconsole.web.reports.charts.treemap_layout import TreemapItem, clip, color_step, treemap
from authzconsole.web.reports.results import REPORT_ERRORS, cached_by_report
from authzconsole.web.shared.links import entity_url
from entities.address import Address
from entities.vocabulary import KINDS, quantity

MAX_CELLS_READ = 1_000
MAX_USERS, MAX_NAMESPACES = 30, 16
MAX_BARS = 20

# dimensions of the heat map, in pixels
_NAMES_WIDTH = 190
_COLUMN_WIDTH = 50
_ROW_HEIGHT = 26
_HEAD_HEIGHT = 96
_RIGHT_MARGIN = 60
# percent of the width on either side of the middle, which leaves space for the figure at the end of the
# longest bar
_BAR_SIDE_PERCENT = 38


def report_chart(run: AnalysisRun) -> dict | None:
    """Return the chart with its `template`; None if the analysis has no chart, or its report is empty or
    cannot be read.
    """
    if run.type not in CHARTS:
        return None
    try:
        return _cached_chart(run)
    except REPORT_ERRORS:
        # the tables of the same page show the error
        return None


@cached_by_report(32)
def _cached_chart(run: AnalysisRun) -> dict | None:
    return CHARTS[run.type](run)


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
    return {
        "template": "reports/charts/_heat.html",
        "width": _NAMES_WIDTH + _COLUMN_WIDTH * len(namespaces) + _RIGHT_MARGIN,
        "height": _HEAD_HEIGHT + _ROW_HEIGHT * len(users),
        "columns": [
            {
                "name": name,
                "label": clip(name, 14),
                "x": _NAMES_WIDTH + _COLUMN_WIDTH * column + _COLUMN_WIDTH // 2,
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
                "cells": [
                    _heat_cell(run, user, name, visible_counts.get((user, name), 0), largest_count, column)
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
    run: AnalysisRun, user: str, namespace: str, visible: int, largest_count: int, column: int
) -> dict:
    entities = quantity(visible, "live entity", "live entities")
    x = _NAMES_WIDTH + _COLUMN_WIDTH * column
    return {
        "x": x,
        "text_x": x + _COLUMN_WIDTH // 2 - 1,
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
    }


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


# by analysis
CHARTS: dict[str, Callable[[AnalysisRun], dict | None]] = {
    AnalysisName.DELETE_READINESS: _readiness_treemap,
    AnalysisName.VISIBILITY: _visibility_heat_map,
    AnalysisName.POLICY_IMPACT: _impact_bars,
}
