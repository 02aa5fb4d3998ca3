"""The section of the overview with what needs attention: the top of the inbox, and figures over time."""

from analytics.analyses import ANALYSES, AnalysisName
from analytics.runs.schedules import first_runs_progress
from authzconsole.findings.refresh import refresh_findings
from authzconsole.findings.sources import Situation
from authzconsole.web.findings.items import by_severity, open_items, own_items
from authzconsole.web.reports.charts.report_charts import figure_trends, trend_days
from grants.models import User

# by analysis: the figures that the overview shows over time
TRENDS = {
    AnalysisName.DELETE_READINESS: ["namespaces_nobody_can_delete"],
    AnalysisName.STRANDED: ["entities_nobody_administers", "entities_one_user_administers"],
    AnalysisName.GHOST_GRANTS: ["grants_on_deleted_addresses"],
}


def attention_section(account: User, situation: Situation) -> dict:
    """Return the context of the problems that the overview lists first, by severity. The number of queries is limited.

    missing_reports: titles of analyses without a report, which may find further problems.
    first_runs: the progress of the first runs; None after them. trends: see `figure_trends`.
    """
    findings = refresh_findings(situation, is_page=True)
    runs = {name: situation.reports.get(name) for name in TRENDS}
    trends = [trend for name, figures in TRENDS.items() for trend in figure_trends(runs[name], figures)]
    problems = open_items(findings, situation.reports.get(AnalysisName.GHOST_GRANTS))
    return {
        "problems": by_severity([*own_items(account), *problems]),
        "missing_reports": [ANALYSES[name].title for name, run in runs.items() if run is None],
        "first_runs": first_runs_progress(),
        "trends": trends,
        "trend_days": trend_days(trends),
    }
