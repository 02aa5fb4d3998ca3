"""Headings and link texts of the tables of reports."""

from analytics.analyses import AnalysisName, analysis_named
from analytics.models import AnalysisRun
from analytics.tables import Table

# by analysis: what the rows of its detail table are
DETAIL_WORDS = {AnalysisName.DELETE_READINESS: "missing grants", AnalysisName.VISIBILITY: "visible entities",
                AnalysisName.POLICY_IMPACT: "changed permissions"}


def table_heading(run: AnalysisRun, table: Table) -> str:
    """Return the heading of a table: the question of its output in the registry of analyses."""
    if table.name == "changes":
        previous = run.summary.get("changes")
        return f"What changed since run {previous['run']}?" if previous else "What changed?"
    analysis = analysis_named(run.analysis)
    output = analysis.output(table.name)
    return output.question if output else analysis.question


def table_words(run: AnalysisRun, table: str) -> str:
    """Return the name of a table for page titles, such as `missing grants` or `changes`."""
    return detail_words(run.analysis) if table == "detail" else table


def detail_words(analysis: str) -> str:
    return DETAIL_WORDS.get(analysis, "detail rows")
