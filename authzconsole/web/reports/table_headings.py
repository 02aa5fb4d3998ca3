"""The question that each table of a report answers, as its heading."""

from analytics.analyses import analysis_named
from analytics.models import AnalysisRun
from analytics.tables import Table

QUESTIONS = {
    ("delete-readiness", "rows"): "How far is each person from deleting a namespace?",
    ("delete-readiness", "namespaces"): "Who can delete which namespace?",
    ("delete-readiness", "detail"): "What does each person lack, and where?",
    ("visibility", "rows"): "How many entities of each kind does each person see?",
    ("visibility", "namespaces"): "How much does each person see of each namespace?",
    ("visibility", "detail"): "Which entities does each person see?",
    ("policy-impact", "rows"): "Who gains and who loses which operation?",
    ("policy-impact", "operations"): "How many people gain and lose each operation?",
    ("policy-impact", "detail"): "Which answers change?",
    ("ghost-grants", "rows"): "Who holds what where nothing lives?",
    ("ghost-grants", "kinds"): "Of which kinds are the addresses where nothing lives?",
    ("stranded", "rows"): "Which entities need another administrator?",
    ("stranded", "kinds"): "How many entities of each kind need another administrator?",
}
WORDS = {"detail": "the pairs behind the rows"}


def question_from_input(run: AnalysisRun, table: Table) -> str:
    """Of an analysis that is not named here its own question."""
    if table.name == "changes":
        before = run.summary.get("changes")
        return f"What changed since run {before['run']}?" if before else "What changed?"
    return QUESTIONS.get((run.analysis, table.name)) or analysis_named(run.analysis).question


def table_words(table: str) -> str:
    """What stands in a table, after the title of its analysis."""
    return WORDS.get(table, table)
