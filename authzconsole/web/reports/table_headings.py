"""Headings, column heads and link texts of the tables of reports."""

from django.http import HttpRequest

from analytics.analyses import AnalysisName, analysis_by_name
from analytics.models import AnalysisRun
from analytics.tables import Table
from authzconsole.web.shared.paging import url_with

# by analysis: the name of the rows of its detail table
DETAIL_NAMES = {
    AnalysisName.DELETE_READINESS: "missing grants",
    AnalysisName.VISIBILITY: "visible entities",
    AnalysisName.POLICY_IMPACT: "changed permissions",
}
# by name of a figure: its label, if it differs from the name
FIGURE_LABELS = {
    "answers_gained": "permissions gained",
    "answers_lost": "permissions lost",
    "entities_nobody_administers": "entities without an administrator",
    "entities_one_user_administers": "entities with only one administrator",
    "users_who_see_something": "users with visible entities",
    "namespaces_with_something_visible": "namespaces with visible entities",
    "pairs_visible": "pairs of user and visible entity",
}


def figure_label(name: str) -> str:
    return FIGURE_LABELS.get(name, name.replace("_", " "))


def table_heading(run: AnalysisRun, table: Table) -> str:
    """Return the heading of a table: the question of its output in the registry of analyses."""
    if table.name == "changes":
        previous = run.summary.get("changes")
        return f"What changed since run {previous['run']}?" if previous else "What changed?"
    analysis = analysis_by_name(run.type)
    output = analysis.output(table.name)
    return output.question if output else analysis.question


def table_title(run: AnalysisRun, table: str) -> str:
    """Return the name of a table for page titles, such as `missing grants` or `changes`."""
    return detail_name(run.type) if table == "detail" else table


def detail_name(analysis: str) -> str:
    return DETAIL_NAMES.get(analysis, "detail rows")


def column_head(request: HttpRequest, name: str, title: str, *, is_number: bool, order: str) -> dict:
    """Return a column head with the URL that sorts by the column, or reverses the order if the column already
    sorts.

    order: the name of the sorting column, after a minus for descending order.
    """
    is_sorting = order.removeprefix("-") == name
    direction = "descending" if order.startswith("-") else "ascending"
    return {
        "name": name,
        "title": title,
        "is_number": is_number,
        "order": direction if is_sorting else "",
        "url": url_with(request, sort=f"-{name}" if order == name else name, page=None),
    }
