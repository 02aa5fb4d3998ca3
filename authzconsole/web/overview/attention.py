"""The section of the overview with what needs attention: the top of the inbox."""

from analytics.analyses import ANALYSES, AnalysisName
from analytics.runs.schedules import first_runs_progress
from authzconsole.findings.refresh import refresh_findings
from authzconsole.findings.sources import Situation
from authzconsole.models import FindingState
from authzconsole.web.findings.items import by_severity, open_items, own_items
from authzconsole.web.reports.charts.trends import OVERVIEW
from authzconsole.web.reports.check_again import age_of_reports
from grants.models import User


def attention_section(account: User, situation: Situation) -> dict:
    """Return the context of the problems that the overview lists first, by severity. The number of queries is limited.

    open_total: the number of open findings, of which a line counts all of its kind. missing_reports: titles of analyses without a report, which may find further problems.
    first_runs: the progress of the first runs; None after them. The others are those of `age_of_reports`.
    """
    findings = refresh_findings(situation, is_page=True)
    runs = {name: situation.reports.get(name) for name in OVERVIEW}
    problems = open_items(findings, situation.reports.get(AnalysisName.GHOST_GRANTS))
    return {
        "problems": by_severity([*own_items(account), *problems]),
        "open_total": sum(row.state == FindingState.OPEN for row in findings),
        "missing_reports": [ANALYSES[name].title for name, run in runs.items() if run is None],
        "first_runs": first_runs_progress(),
        **age_of_reports(situation.reports),
    }
