"""The question that each table of a report answers, as its heading."""

from analytics.analyses import analysis_named
from analytics.models import AnalysisRun
from analytics.tables import Table

WORDS = {"detail": "the pairs behind the rows"}


def table_heading(run: AnalysisRun, table: Table) -> str:
    """Return the heading of a table: the question of its output in the registry of analyses."""
    if table.name == "changes":
        before = run.summary.get("changes")
        return f"What changed since run {before['run']}?" if before else "What changed?"
    analysis = analysis_named(run.analysis)
    output = analysis.output(table.name)
    return output.question if output else analysis.question


def table_words(table: str) -> str:
    """What stands in a table, after the title of its analysis."""
    return WORDS.get(table, table)
