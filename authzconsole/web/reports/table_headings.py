"""Headings and link texts of the tables of reports."""

from analytics.analyses import AnalysisName, analysis_by_name
from analytics.models import AnalysisRun
from analytics.tables import Table

# by analysis: what the rows of its detail table are
DETAIL_WORDS = {AnalysisName.DELETE_READINESS: "missing grants", AnalysisName.VISIBILITY: "visible entities",
                AnalysisName.POLICY_IMPACT: "changed permissions"}
# by name of a figure, where the name alone is not a good label
FIGURE_LABELS = {
    "answers_gained": "permissions gained", "answers_lost": "permissions lost",
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
    analysis = analysis_by_name(run.analysis)
    output = analysis.output(table.name)
    return output.question if output else analysis.question


def table_words(run: AnalysisRun, table: str) -> str:
    """Return the name of a table for page titles, such as `missing grants` or `changes`."""
    return detail_words(run.analysis) if table == "detail" else table


def detail_words(analysis: str) -> str:
    return DETAIL_WORDS.get(analysis, "detail rows")
