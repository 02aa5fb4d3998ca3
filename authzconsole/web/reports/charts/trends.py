"""Charts of figures over time: of one report, of the overview, and of the page of trends.

A chart has axes with dates and round numbers, and each line ends with its value, so that it needs no legend. Its positions
are pixels. The table below the charts has the same numbers.
"""

from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta
from itertools import takewhile

from django.urls import reverse

from analytics.analyses import ANALYSES, AnalysisName
from analytics.models import AnalysisRun, Figure
from analytics.runs.figures import daily_figures, daily_figures_by_subject, figures_of_series
from authzconsole.findings.sources import GHOST_FIGURES, REPORT_FIGURES
from authzconsole.web.reports.charts.treemap_layout import clip
from authzconsole.web.shared.times import reader_localtime

MAX_RUNS = 30
WEEK = timedelta(days=7)
# with more points than this, a chart shows only its last one, because each point is a stop of the keyboard
MAX_LINKED_POINTS = 31
# of a chart with a line for each namespace
MAX_LINES = 5
# a chart over more days than this has one point for each week
MAX_DAILY = 100
# by name of a figure: its label, if it differs from the name
FIGURE_LABELS = {
    "answers_gained": "permissions gained",
    "answers_lost": "permissions lost",
    "entities_nobody_administers": "entities without an ADMIN holder",
    "entities_one_user_administers": "entities with only one ADMIN holder",
    "grants_on_deleted_addresses": "leftover grants of active users and groups",
    "grants_on_planned_addresses": "grants on planned addresses",
    "users_who_see_something": "users with visible entities",
    "namespaces_with_something_visible": "namespaces with visible entities",
    "pairs_visible": "pairs of user and visible entity",
    "guardrail_violations": "guardrail violations, with accepted ones",
    "widest_reach": "live entities that one user reaches at most",
    "most_changeable": "live entities that one user can change at most",
    "users_with_admin": "users who hold ADMIN",
    "users_who_can_change_something": "users who can change something, by namespace",
}
# by analysis: the figures that the page of trends shows; the overview shows those of OVERVIEW
TRENDS = {
    AnalysisName.DELETE_READINESS: ["namespaces_nobody_can_delete"],
    AnalysisName.STRANDED: ["entities_nobody_administers", "entities_one_user_administers"],
    AnalysisName.GHOST_GRANTS: ["grants_on_deleted_addresses"],
    AnalysisName.BLAST_RADIUS: ["most_changeable", "users_with_admin"],
    AnalysisName.REDUNDANT: ["redundant_grants", "memberships_without_effect"],
    AnalysisName.UNUSED: ["grants_that_nobody_used"],
    AnalysisName.GUARDRAILS: ["guardrail_violations"],
}
OVERVIEW = (AnalysisName.DELETE_READINESS, AnalysisName.STRANDED, AnalysisName.GHOST_GRANTS)
# the figure of the chart with a line for each namespace
EXPOSURE = AnalysisName.BLAST_RADIUS, "users_who_can_change_something"

# sizes of a chart, with the spaces for the numbers of the axis, the end of the lines and the dates
_WIDTH, _HEIGHT = 340, 156
_LEFT, _RIGHT, _RIGHT_OF_NAMES, _TOP, _BOTTOM = 44, 52, 136, 12, 26
_MAX_INTERVALS = 4
# between the texts at the ends of two lines
_LINE_HEIGHT = 14


def figure_label(name: str) -> str:
    return FIGURE_LABELS.get(name, name.replace("_", " "))


def report_trends(run: AnalysisRun) -> list[dict]:
    """Return the chart of each figure of the analysis: of the newest MAX_RUNS runs with the same options, up to this one;
    none without an earlier run. Runs one query.
    """
    names = ANALYSES[run.type].figures
    if run.finished_at is None:
        return []
    rows = figures_of_series(run, names, runs=MAX_RUNS)
    return _charts({run.type: names}, rows)


def overview_trends() -> list[dict]:
    """Return the charts of the overview, of the last MAX_RUNS days. Runs one query."""
    names = {analysis: TRENDS[analysis] for analysis in OVERVIEW}
    return _charts(names, daily_figures(names, days=MAX_RUNS))


def all_trends(days: int) -> list[dict]:
    """Return the charts of the page of trends. Runs three queries."""
    rows = daily_figures(TRENDS, days=days)
    by_namespace = daily_figures_by_subject(*EXPOSURE, days=days, subjects=MAX_LINES)
    if days > MAX_DAILY:
        rows, by_namespace = _last_of_weeks(rows), _last_of_weeks(by_namespace)
    charts = _charts(TRENDS, rows)
    lines: dict[str, list[Figure]] = {}
    for row in by_namespace:
        lines.setdefault(row.subject, []).append(row)
    if any(len(line) > 1 for line in lines.values()):
        charts.append(_chart(*EXPOSURE, lines))
    return charts


def _last_of_weeks(rows: Iterable[Figure]) -> list[Figure]:
    last = {
        (row.analysis, row.name, row.subject, *row.finished_at.isocalendar()[:2]): row
        for row in sorted(rows, key=lambda row: row.finished_at)
    }
    return list(last.values())


def _charts(names: Mapping[str, Iterable[str]], rows: Iterable[Figure]) -> list[dict]:
    """Return a chart for each figure with at least two values. rows: the oldest first."""
    found: dict[tuple[str, str], list[Figure]] = {}
    for row in rows:
        found.setdefault((row.analysis, row.name), []).append(row)
    return [
        _chart(analysis, name, {"": found[analysis, name]})
        for analysis, some in names.items()
        for name in some
        if len(found.get((analysis, name), ())) > 1
    ]


def _chart(analysis: str, name: str, lines: Mapping[str, list[Figure]]) -> dict:
    """Return a chart of a figure. lines: the rows by the name at the end of the line; empty for the only line.

    ticks, dates: of the axes. since, change: of a chart with one line: the time to which the change refers, which is that
    of the last run before the week of the newest one, or of the first run; without a change, the first run with this figure.
    """
    has_names = "" not in lines
    right, bottom = _WIDTH - (_RIGHT_OF_NAMES if has_names else _RIGHT), _HEIGHT - _BOTTOM
    first = min(rows[0].finished_at for rows in lines.values())
    last = max(rows[-1].finished_at for rows in lines.values())
    ticks = axis_ticks(max(row.value for rows in lines.values() for row in rows))
    seconds = (last - first).total_seconds() or 1

    def x_of(at: datetime) -> float:
        return round(_LEFT + (right - _LEFT) * (at - first).total_seconds() / seconds, 1)

    def y_of(value: int) -> float:
        return round(bottom - (bottom - _TOP) * value / ticks[-1], 1)

    chart_lines = [
        {
            "label": label,
            "short_label": clip(label, 14),
            "title": label or figure_label(name),
            "number": number,
            "points": [{"x": x_of(row.finished_at), "y": y_of(row.value), "row": row} for row in rows],
            "line": " ".join(f"{x_of(row.finished_at)},{y_of(row.value)}" for row in rows),
            "figure": rows[-1].value,
        }
        for number, (label, rows) in enumerate(sorted(lines.items(), key=lambda line: -line[1][-1].value))
    ]
    _place_texts(chart_lines, bottom)
    chart = {
        "analysis": ANALYSES[analysis],
        "name": name,
        "title": figure_label(name),
        "url": _findings_url(analysis, name),
        "width": _WIDTH,
        "height": _HEIGHT,
        "left": _LEFT,
        "right": right,
        "bottom": bottom,
        "has_names": has_names,
        "ticks": [{"figure": tick, "y": y_of(tick)} for tick in ticks],
        "dates": [
            {"at": at, "x": x_of(at), "anchor": anchor}
            for at, anchor in ((first, "start"), (first + (last - first) / 2, "middle"), (last, "end"))
        ],
        "lines": chart_lines,
        "has_links": sum(len(rows) for rows in lines.values()) <= MAX_LINKED_POINTS,
        "first": first,
        "last": last,
        "time_format": "j M" if last - first >= timedelta(days=1) else "H:i",
    }
    if not has_names:
        rows = lines[""]
        before = [row for row in rows if row.finished_at <= last - WEEK] or rows[:1]
        figure, change = rows[-1].value, rows[-1].value - before[-1].value
        same = takewhile(lambda row: row.value == figure, reversed(rows))
        chart |= {
            "figure": figure,
            "change": change,
            "since": before[-1].finished_at if change else list(same)[-1].finished_at,
        }
    return chart


def _findings_url(analysis: str, name: str) -> str:
    """Return the list of findings about the same as this figure; empty if there are none."""
    kinds = (
        row.kind
        for row in (*REPORT_FIGURES, *GHOST_FIGURES)
        if (row.analysis, row.figure) == (analysis, name)
    )
    kind = next(kinds, "")
    return reverse("findings", query={"kind": kind}) if kind else ""


def axis_ticks(largest: int) -> list[int]:
    """Return round numbers from 0 to the largest one or more, with at most _MAX_INTERVALS intervals."""
    step = 1
    while step * _MAX_INTERVALS < largest:
        digits = 10 ** (len(str(step)) - 1)
        step = {1: 2, 2: 5, 5: 10}[step // digits] * digits
    return list(range(0, max(largest, 1) + step, step))[: -(-max(largest, 1) // step) + 1]


def _place_texts(lines: list[dict], bottom: int) -> None:
    """Set `text_y`: beside the end of the line, without overlap. lines: by their last value, the largest first."""
    y = float(_TOP)
    for line in lines:
        line["text_y"] = y = max(y, line["points"][-1]["y"])
        y += _LINE_HEIGHT
    limit = float(bottom)
    for line in reversed(lines):
        line["text_y"] = min(line["text_y"], limit)
        limit = line["text_y"] - _LINE_HEIGHT


def trend_days(trends: list[dict]) -> list[dict]:
    """Return the days of the points, newest first, in the time zone of the reader. points: the last one of the day in each
    line; None if it has none.
    """
    lines = [line for trend in trends for line in trend["lines"]]
    days: dict[date, list] = {}
    for index, line in enumerate(lines):
        for point in line["points"]:
            day = reader_localtime(point["row"].finished_at).date()
            days.setdefault(day, [None] * len(lines))[index] = point
    return [{"day": day, "points": points} for day, points in sorted(days.items(), reverse=True)]
