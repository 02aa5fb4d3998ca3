"""What a page shows that a tenant document does not bring: reports, a plan, a token."""

from collections.abc import Callable

from analytics.analyses import ANALYSES
from analytics.models import AnalysisRun
from analytics.services import run_cancel, run_request
from authzconsole.demo.pages import EXAMPLES
from authzconsole.models import TokenScope
from authzconsole.tokens import token_create
from entities.address import parse_address
from grants.journal import Author
from grants.models import Plan, User
from grants.plans.applying import plan_apply
from grants.plans.origins import plan_of_readiness

OPTIONS = {"policy-impact": {"generation": "final", "to_generation": "existing"}}


def demo_staged(administrator: User, run_finish: Callable[[AnalysisRun], None]) -> dict[str, str]:
    """The examples of the demo tenant, and the numbers of what was made. run_finish: returns when the run has ended."""
    author = Author(administrator.username, reason="quarterly review", user_id=administrator.pk)
    report_staged("delete-readiness", administrator, run_finish)
    applied = _plan(author, "namespace:marketing", "diego.morales")
    plan_apply(author=author, plan_id=applied.pk)
    reports = reports_staged(administrator, run_finish)
    plan = _plan(author, EXAMPLES["namespace"], EXAMPLES["user"])
    issued = token_create(author=author, owner=administrator.username, name="nightly export", scopes=[TokenScope.READ], days=90)
    return EXAMPLES | reports | {"plan": str(plan.pk), "applied": str(applied.pk), "token": str(issued.token.pk),
                                 "changed": reports["delete-readiness"]}


def _plan(author: Author, namespace: str, user: str) -> Plan:
    return plan_of_readiness(author=author, namespace=parse_address(namespace), user=user)


def reports_staged(administrator: User, run_finish: Callable[[AnalysisRun], None]) -> dict[str, str]:
    """The run of each analysis by its name, and one that was cancelled."""
    made = {name: report_staged(name, administrator, run_finish) for name in ANALYSES}
    given_up = run_request(analysis="visibility", options={"generation": "core"}, requested_by=administrator)
    run_cancel(run=given_up)
    return made | {"cancelled": str(given_up.pk)}


def report_staged(name: str, administrator: User, run_finish: Callable[[AnalysisRun], None]) -> str:
    run = run_request(analysis=name, options=OPTIONS.get(name, {"generation": "final"}), requested_by=administrator)
    run_finish(run)
    return str(run.pk)
