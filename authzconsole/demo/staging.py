"""What a page shows that a tenant document does not bring: reports, a plan, a token."""

from collections.abc import Callable

from analytics.analyses import ANALYSES, AnalysisName
from analytics.models import AnalysisRun
from analytics.runs.services import cancel_run, request_run
from authzconsole.common.tokens import create_token
from authzconsole.demo.pages import EXAMPLES
from authzconsole.models import TokenScope
from entities.address import parse_address
from grants.journal import Author
from grants.models import Plan, User
from grants.plans.apply import apply_plan
from grants.plans.sources.readiness import create_readiness_plan

OPTIONS = {AnalysisName.POLICY_IMPACT: {"generation": "final", "to_generation": "existing"}}


def demo_staged(administrator: User, run_finish: Callable[[AnalysisRun], None]) -> dict[str, str]:
    """The examples of the demo tenant, and the numbers of what was made. run_finish: returns when the run has ended."""
    author = Author(administrator.username, reason="quarterly review", user_id=administrator.pk)
    report_staged(AnalysisName.DELETE_READINESS, administrator, run_finish)
    applied = _plan(author, "namespace:marketing", "diego.morales")
    apply_plan(author=author, plan_id=applied.pk)
    reports = reports_staged(administrator, run_finish)
    plan = _plan(author, EXAMPLES["namespace"], EXAMPLES["user"])
    issued = create_token(author=author, owner=administrator.username, name="nightly export", scopes=[TokenScope.READ], days=90)
    return EXAMPLES | reports | {"plan": str(plan.pk), "applied": str(applied.pk), "token": str(issued.token.pk),
                                 "changed": reports[AnalysisName.DELETE_READINESS]}


def _plan(author: Author, namespace: str, user: str) -> Plan:
    return create_readiness_plan(author=author, namespace=parse_address(namespace), user=user)


def reports_staged(administrator: User, run_finish: Callable[[AnalysisRun], None]) -> dict[str, str]:
    """The run of each analysis by its name, and one that was cancelled."""
    made = {name: report_staged(name, administrator, run_finish) for name in ANALYSES}
    given_up = request_run(analysis=AnalysisName.VISIBILITY, options={"generation": "core"}, requested_by=administrator)
    cancel_run(run=given_up)
    return made | {"cancelled": str(given_up.pk)}


def report_staged(name: str, administrator: User, run_finish: Callable[[AnalysisRun], None]) -> str:
    run = request_run(analysis=name, options=OPTIONS.get(name, {"generation": "final"}), requested_by=administrator)
    run_finish(run)
    return str(run.pk)
