"""Create example data that a tenant document cannot contain: reports, plans, reviews, evidence and a token."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from types import MappingProxyType

from django.utils import timezone

from analytics.analyses import ANALYSES, AnalysisName
from analytics.models import AnalysisRun
from analytics.runs.services import cancel_run, request_run
from authzconsole.common.tokens import create_token
from authzconsole.demo.history import create_pending_requests
from authzconsole.demo.pages import EXAMPLES
from authzconsole.evidence.services import request_evidence
from authzconsole.findings.refresh import refresh_findings
from authzconsole.models import Evidence, Finding, TokenScope
from entities.address import parse_address
from grants.jobs import run_job
from grants.journal import Author, current_revision
from grants.models import AccessRequest, BreakGlassUse, Plan, RequestState, User
from grants.models.reviews import Answer, Campaign, Recurrence, ReviewerRule
from grants.plans.apply import apply_plan
from grants.plans.sources.readiness import readiness_plan
from grants.reviews.answers import ItemSelection, answer_items
from grants.reviews.campaigns import CampaignOptions, create_campaign
from grants.reviews.finishing import request_finish
from grants.reviews.preparation import prepare_campaign

OPTIONS = {"generation": "final", "to_generation": "existing"}


def create_demo_examples(administrator: User, finish_run: Callable[[AnalysisRun], None]) -> dict[str, str]:
    """Create the example data.

    Return EXAMPLES with the numbers of the created objects. `finish_run` waits for a run.
    """
    author = Author(administrator.username, reason="quarterly review", user_id=administrator.pk)
    create_report(AnalysisName.DELETE_READINESS, administrator, finish_run)
    applied = _create_plan(author, "namespace:marketing", "diego.morales")
    apply_plan(author=author, plan_id=applied.pk)
    reports = create_reports(administrator, finish_run)
    plan = _create_plan(author, EXAMPLES["namespace"], EXAMPLES["user"])
    review, finished = (_create_review(author, namespace) for namespace in ("logistics", "marketing"))
    _finish_review(author, finished)
    request = _pending_request()
    issued = create_token(
        author=author, owner=administrator.username, name="nightly export", scopes=[TokenScope.READ], days=90
    )
    refresh_findings()
    return (
        EXAMPLES
        | reports
        | {
            "plan": str(plan.pk),
            "finding": str(Finding.objects.order_by("severity", "-figure", "pk")[0].pk),
            "applied": str(applied.pk),
            "review": str(review.pk),
            "finished": str(finished.pk),
            "evidence": str(_create_evidence(administrator).pk),
            "request": str(request.pk),
            "use": str(_create_break_glass_use(administrator).pk),
            "token": str(issued.token.pk),
            "changed": reports[AnalysisName.DELETE_READINESS],
        }
    )


def _create_review(author: Author, namespace: str) -> Campaign:
    """Create a review of a namespace, by the holders of ADMIN on its entities."""
    campaign = create_campaign(
        author=author,
        options=CampaignOptions(
            title=f"Quarterly review of {namespace}",
            deadline=timezone.now() + timedelta(days=14),
            scope={"namespace": namespace},
            reviewer_rule=ReviewerRule.ADMIN_HOLDERS,
            recurrence=Recurrence.QUARTERLY,
        ),
    )
    return prepare_campaign(campaign)


def _finish_review(author: Author, campaign: Campaign) -> None:
    """Answer items of a review, and finish it."""
    for answer, count in ((Answer.REVOKE, 3), (Answer.KEEP, 20)):
        numbers = (
            campaign.items.filter(answer=Answer.OPEN).order_by("pk").values_list("pk", flat=True)[:count]
        )
        answer_items(
            author=author, campaign=campaign, selection=ItemSelection(numbers=list(numbers)), answer=answer
        )
    run_job(request_finish(author=author, number=campaign.pk).job_id)


def _create_evidence(administrator: User) -> Evidence:
    """Create evidence about a dataset, since the first line of the journal."""
    evidence = request_evidence(
        entity=parse_address(EXAMPLES["dataset"]),
        from_revision=1,
        to_revision=current_revision(),
        requested_by=administrator,
    )
    run_job(evidence.job_id)
    return evidence


def _pending_request() -> AccessRequest:
    """Return a pending access request: one from the history of the demo tenant, or a new one if the tenant
    was imported.
    """
    pending = AccessRequest.objects.filter(state=RequestState.PENDING).order_by("pk").first()
    return pending or create_pending_requests()[0]


def _create_break_glass_use(administrator: User) -> BreakGlassUse:
    """Create a use that has ended and waits for its review.

    The console has no BREAK_GLASS_ACCOUNTS, so no page announces it.
    """
    started = timezone.now() - timedelta(hours=2)
    return BreakGlassUse.objects.create(
        account=administrator,
        account_name=administrator.username,
        reason="the nightly load failed",
        started_at=started,
        ends_at=started + timedelta(hours=1),
        first_revision=current_revision(),
    )


def _create_plan(author: Author, namespace: str, user: str) -> Plan:
    return readiness_plan.create(author, namespace=parse_address(namespace), user=user)


def create_reports(
    administrator: User,
    finish_run: Callable[[AnalysisRun], None],
    options: Mapping[str, Mapping] = MappingProxyType({}),
) -> dict[str, str]:
    """Run each analysis, and cancel another run.

    options: by the name of an analysis, further ones than OPTIONS.
    Return the numbers of the runs, by the name of the analysis or `cancelled`.
    """
    run_numbers = {
        name: create_report(name, administrator, finish_run, **options.get(name, {})) for name in ANALYSES
    }
    cancelled = request_run(
        analysis=AnalysisName.VISIBILITY, options={"generation": "core"}, requested_by=administrator
    )
    cancel_run(run=cancelled)
    return run_numbers | {"cancelled": str(cancelled.pk)}


def create_report(
    name: str, administrator: User, finish_run: Callable[[AnalysisRun], None], **options: str
) -> str:
    """Run an analysis and return the number of the run."""
    defaults = {option: OPTIONS[option] for option in ANALYSES[name].options if option in OPTIONS}
    run = request_run(analysis=name, options=defaults | options, requested_by=administrator)
    finish_run(run)
    return str(run.pk)
