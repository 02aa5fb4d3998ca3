"""Create example data that a tenant document cannot contain: reports, plans and a token."""

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

OPTIONS = {"generation": "final", "to_generation": "existing"}


def create_demo_examples(administrator: User, finish_run: Callable[[AnalysisRun], None]) -> dict[str, str]:
    """Create the example data. Return EXAMPLES with the numbers of the created objects. `finish_run` waits for a run."""
    author = Author(administrator.username, reason="quarterly review", user_id=administrator.pk)
    create_report(AnalysisName.DELETE_READINESS, administrator, finish_run)
    applied = _create_plan(author, "namespace:marketing", "diego.morales")
    apply_plan(author=author, plan_id=applied.pk)
    reports = create_reports(administrator, finish_run)
    plan = _create_plan(author, EXAMPLES["namespace"], EXAMPLES["user"])
    issued = create_token(author=author, owner=administrator.username, name="nightly export", scopes=[TokenScope.READ], days=90)
    return EXAMPLES | reports | {"plan": str(plan.pk), "applied": str(applied.pk), "token": str(issued.token.pk),
                                 "changed": reports[AnalysisName.DELETE_READINESS]}


def _create_plan(author: Author, namespace: str, user: str) -> Plan:
    return create_readiness_plan(author=author, namespace=parse_address(namespace), user=user)


def create_reports(administrator: User, finish_run: Callable[[AnalysisRun], None]) -> dict[str, str]:
    """Run each analysis, and cancel another run. Return the numbers of the runs, by the name of the analysis or `cancelled`."""
    run_numbers = {name: create_report(name, administrator, finish_run) for name in ANALYSES}
    cancelled = request_run(analysis=AnalysisName.VISIBILITY, options={"generation": "core"}, requested_by=administrator)
    cancel_run(run=cancelled)
    return run_numbers | {"cancelled": str(cancelled.pk)}


def create_report(name: str, administrator: User, finish_run: Callable[[AnalysisRun], None]) -> str:
    """Run an analysis and return the number of the run."""
    options = {option: OPTIONS[option] for option in ANALYSES[name].options if option in OPTIONS}
    run = request_run(analysis=name, options=options, requested_by=administrator)
    finish_run(run)
    return str(run.pk)
