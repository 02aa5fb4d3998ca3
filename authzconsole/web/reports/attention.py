"""What needs attention. For every account: what waits for it, decisions about its requests, and its access that ends soon.
For the overview also problems of the console itself, findings of the newest reports, and plans to decide on.

The most severe items come first.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from django.db.models import Count, Q
from django.urls import reverse
from django.utils import timezone

from analytics.analyses import ANALYSES, AnalysisName
from analytics.models import AnalysisRun
from analytics.runs.schedules import first_runs_progress
from analytics.runs.selectors import changes_since, latest_finished_runs, latest_run
from authzconsole.common.monitoring.maintenance import maintenance_records
from authzconsole.models import MaintenanceTask
from authzconsole.web.reports.cell_links import rows_url
from authzconsole.web.reports.charts.report_charts import figure_trends, trend_days
from authzconsole.web.shared.limited_lists import MAX_COUNTED, counted_rows
from authzconsole.web.shared.times import SOON
from entities.models import State
from entities.vocabulary import quantity
from grants.journal import read_only_reason
from grants.models import GroupGrant, JobState, Plan, PlanState, RequestState, User, UserGrant
from grants.plans.sources.expired import PeriodScope
from grants.plans.staleness import invalidating_line
from grants.policies.policy import Generation
from grants.requests.approvers import own_requests, requests_to_answer, requests_to_decide
from grants.reviews.shares import waiting_items

PLANNED_TOO_LONG_DAYS = 90
MAX_PLANS_CHECKED = 10
# the levels of the icons, most severe first
SEVERITIES = ("error", "warning", "planned", "info")

DECIDED = (RequestState.APPROVED, RequestState.DENIED, RequestState.EXPIRED)
# by analysis: the figures that the overview shows over time
TRENDS = {
    AnalysisName.DELETE_READINESS: ["namespaces_nobody_can_delete"],
    AnalysisName.STRANDED: ["entities_nobody_administers", "entities_one_user_administers"],
    AnalysisName.GHOST_GRANTS: ["grants_on_deleted_addresses"],
}


@dataclass(frozen=True, slots=True)
class AttentionItem:
    """One problem.

    level: the level of its icon. run: the run that reported the problem; None if it was counted for this
    request.
    changes: number of changes after that run.
    fix_label, fix_url, fix_fields: label, target and fields of a button that solves the problem, or creates a plan that does;
    empty if there is none.
    """

    level: str
    text: str
    url: str
    run: AnalysisRun | None = None
    fix_label: str = ""
    fix_url: str = ""
    fix_fields: Mapping[str, str] = field(default_factory=dict)
    changes: int = 0

    @property
    def figure(self) -> str:
        """The number with which the text begins; empty if it begins with a word."""
        number = self.text.partition(" ")[0]
        return number if number.replace(",", "").isdigit() else ""

    @property
    def words(self) -> str:
        """The text after the figure."""
        return self.text.removeprefix(self.figure).strip()


def attention_section(
    account: User, generation: Generation, readiness: AnalysisRun | None, *, is_large: bool
) -> dict:
    """Return the context of the problems that the overview lists first, by severity. The number of queries is limited.

    missing_reports: titles of analyses without a report, which may find further problems. first_runs: the progress of the
    first runs; None after them. trends: see `figure_trends`.
    readiness: the newest report on delete readiness. is_large: skip counts that scan all grants.
    """
    stranded, ghosts = latest_run(AnalysisName.STRANDED), latest_run(AnalysisName.GHOST_GRANTS)
    runs = {
        AnalysisName.DELETE_READINESS: readiness,
        AnalysisName.STRANDED: stranded,
        AnalysisName.GHOST_GRANTS: ghosts,
    }
    items = [
        *_console_items(),
        *_readiness_items(readiness),
        *_stranded_items(stranded),
        *_ghost_items(ghosts, generation, is_large=is_large),
        *_failed_run_items(),
        *own_items(account),
        *_plan_items(),
        *_period_items(),
        *_impact_items(generation),
    ]
    trends = [trend for name, figures in TRENDS.items() for trend in figure_trends(runs[name], figures)]
    return {
        "problems": _by_severity(_with_changes(items)),
        "missing_reports": [ANALYSES[name].title for name, run in runs.items() if run is None],
        "first_runs": first_runs_progress(),
        "trends": trends,
        "trend_days": trend_days(trends),
    }


def _by_severity(items: Iterable[AttentionItem]) -> list[AttentionItem]:
    return sorted(items, key=lambda item: SEVERITIES.index(item.level))


def _with_changes(items: list[AttentionItem]) -> list[AttentionItem]:
    """Add the number of changes after each run. Runs at most two queries for each of four analyses."""
    # runs at the same revision share a query
    states = {(item.run.revision, item.run.summary.get("at")): item.run for item in items if item.run}
    changes = {state: changes_since(run) for state, run in states.items()}
    return [
        replace(item, changes=changes[item.run.revision, item.run.summary.get("at")]) if item.run else item
        for item in items
    ]


def _readiness_items(run: AnalysisRun | None) -> Iterator[AttentionItem]:
    if run and (blocked := run.summary.get("namespaces_nobody_can_delete", 0)):
        yield AttentionItem(
            "error", f"{quantity(blocked, 'namespace', 'namespaces')} that no user can delete", _url(run), run
        )


def _stranded_items(run: AnalysisRun | None) -> Iterator[AttentionItem]:
    summary = run.summary if run else {}
    if without_admin := summary.get("entities_nobody_administers", 0):
        yield AttentionItem(
            "error",
            f"{quantity(without_admin, 'live entity', 'live entities')} without an ADMIN holder",
            rows_url(run, admins="0"),
            run,
        )
    if with_one_admin := summary.get("entities_one_user_administers", 0):
        yield AttentionItem(
            "warning",
            f"{quantity(with_one_admin, 'live entity', 'live entities')} with only one ADMIN holder",
            rows_url(run, admins="1"),
            run,
        )


def _ghost_items(
    run: AnalysisRun | None, generation: Generation, *, is_large: bool
) -> Iterator[AttentionItem]:
    """Yield the numbers of grants on addresses without a live entity: those of the report, which leaves out inactive
    users, in a large tenant; otherwise the current numbers, which are also those of the plan that cleans up.
    """
    totals = _reported_ghosts(run) if is_large else _counted_ghosts()
    # of the report in a large tenant
    source = run if is_large else None
    if leftover := totals["leftover"]:
        text = f"{quantity(leftover, 'grant', 'grants')} on deleted addresses"
        if inactive := totals["inactive"]:
            text = f"{text}, {inactive:,} of inactive users"
        if not generation.deleting_removes_grants:
            # If the generation removes grants with their entity, these grants remain from an earlier generation.
            text = f"{text}, which apply again if the entities are recreated"
        url = _url(run, "state") if run else reverse("plans")
        yield AttentionItem("warning", text, url, source, "Clean up", reverse("plan-ghosts"))
    url = _url(run, "-state") if run else reverse("analyses")
    if old := totals["old"]:
        text = f"{quantity(old, 'grant', 'grants')} on planned addresses for more than {PLANNED_TOO_LONG_DAYS} days"
        yield AttentionItem("warning", text, url)
    if recent := totals["planned"] - old:
        text = f"{quantity(recent, 'grant', 'grants')} on planned addresses, waiting for their entities"
        yield AttentionItem("planned", text, url, source)


def _reported_ghosts(run: AnalysisRun | None) -> Counter[str]:
    summary = run.summary if run else {}
    return Counter(
        leftover=summary.get("grants_on_deleted_addresses", 0),
        planned=summary.get("grants_on_planned_addresses", 0),
    )


def _counted_ghosts() -> Counter[str]:
    """Return the current numbers; inactive and old are parts of leftover and planned. Runs two queries."""
    is_leftover, is_planned = Q(content_object__state=State.DELETED), Q(content_object__state=State.PLANNED)
    is_old = Q(granted_at__lt=timezone.now() - timedelta(days=PLANNED_TOO_LONG_DAYS))
    totals = Counter[str]()
    for model, is_inactive in ((UserGrant, Q(user__is_active=False)), (GroupGrant, Q(pk__isnull=True))):
        totals.update(
            model.objects.filter(is_leftover | is_planned).aggregate(
                leftover=Count("pk", filter=is_leftover),
                inactive=Count("pk", filter=is_leftover & is_inactive),
                planned=Count("pk", filter=is_planned),
                old=Count("pk", filter=is_planned & is_old),
            )
        )
    return totals


def _impact_items(generation: Generation) -> Iterator[AttentionItem]:
    run = latest_run(AnalysisName.POLICY_IMPACT, generation=generation.name)
    if run is not None and (other := run.options.get("to_generation")):
        gained, lost = (run.summary.get(name, 0) for name in ("answers_gained", "answers_lost"))
        text = (
            f"Impact report available, from generation {generation.name} to {other}: "
            f"{quantity(gained, 'permission', 'permissions')} gained, {lost:,} lost"
        )
        yield AttentionItem("info", text, reverse("generation-activate", args=[other]), run)


def own_items(account: User) -> list[AttentionItem]:
    """Return what waits for the account, what was decided about its requests, and its access that ends soon.

    Runs the queries of `requests_to_decide` and seven more.
    """
    return _by_severity(_own_items(account))


def _own_items(account: User) -> Iterator[AttentionItem]:
    decided = own_requests(account).filter(state__in=DECIDED, decided_at__gt=timezone.now() - SOON)
    to_decide, mine = (reverse("requests", query={"show": show}) for show in ("to-decide", "mine"))
    waits = ("request waits for your decision", "requests wait for your decision")
    asks = ("question about your requests to answer", "questions about your requests to answer")
    ended = ("request of yours decided in the last 7 days", "requests of yours decided in the last 7 days")
    for level, rows, texts, url in (
        ("warning", requests_to_decide(account), waits, to_decide),
        ("warning", requests_to_answer(account), asks, mine),
        ("info", decided, ended, mine),
    ):
        if total := rows.order_by()[: MAX_COUNTED + 1].count():
            yield AttentionItem(level, _count_text(total, *texts), url)
    if waiting := waiting_items(account):
        text = quantity(waiting, "review item waits for you", "review items wait for you")
        yield AttentionItem("warning", text, reverse("reviews"))
    if account.is_principal and (ending := counted_rows("soon", PeriodScope(f"user:{account.username}"))):
        text = _count_text(
            ending,
            "of your grants and memberships ends within 7 days",
            "of your grants and memberships end within 7 days",
        )
        yield AttentionItem("warning", text, reverse("my-access"))


def _plan_items() -> Iterator[AttentionItem]:
    """Yield the number of proposed plans, and how many of the newest ones are stale.

    Runs up to 12 queries.
    """
    url = reverse("plans", query={"state": PlanState.PROPOSED})
    proposed = Plan.objects.filter(state=PlanState.PROPOSED)
    newest = list(proposed.order_by("-pk")[: MAX_PLANS_CHECKED + 1])
    if not newest:
        return
    stale = sum(invalidating_line(plan) is not None for plan in newest[:MAX_PLANS_CHECKED])
    if stale:
        yield AttentionItem(
            "warning", f"{quantity(stale, 'stale plan', 'stale plans')} to renew or discard", url
        )
    total = len(newest) if len(newest) <= MAX_PLANS_CHECKED else proposed.count()
    if total > stale:
        yield AttentionItem(
            "info", f"{quantity(total - stale, 'proposed plan', 'proposed plans')} to apply or discard", url
        )


def _period_items() -> Iterator[AttentionItem]:
    """Yield what ends soon, and what has expired. Runs two queries."""
    url = reverse("limited-access")
    if soon := counted_rows("soon"):
        text = _count_text(
            soon, "grant or membership ends within 7 days", "grants and memberships end within 7 days"
        )
        yield AttentionItem("info", text, f"{url}?show=soon")
    if expired := counted_rows("expired"):
        yield AttentionItem(
            "info",
            _count_text(expired, "grant or membership has expired", "grants and memberships have expired"),
            f"{url}?show=expired",
            fix_label="Revoke expired",
            fix_url=reverse("plan-expired"),
        )


def _count_text(total: int, singular: str, plural: str) -> str:
    """Return a sentence about a number, such as `Over 1,000 requests wait` above MAX_COUNTED."""
    return f"Over {MAX_COUNTED:,} {plural}" if total > MAX_COUNTED else quantity(total, singular, plural)


def _console_items() -> Iterator[AttentionItem]:
    """Yield the problems of the console itself, which the page Status explains. Runs two queries."""
    url, records = reverse("status"), maintenance_records()
    if reason := read_only_reason():
        yield AttentionItem("error", f"The console is read-only: {reason}", url)
    if MaintenanceTask.BACKUP not in records:
        yield AttentionItem("warning", "No backup was written", url)
    for record in records.values():
        if not record.is_ok:
            yield AttentionItem("error", f"{record.get_task_display()} failed: {record.text}", url)


def _failed_run_items() -> Iterator[AttentionItem]:
    """Yield the analyses if their newest finished run failed. Runs one query."""
    for run in latest_finished_runs():
        if run.state == JobState.FAILED:
            yield AttentionItem(
                "warning",
                f"The last run of {ANALYSES[run.type].title} failed",
                _url(run),
                fix_label="Run again",
                fix_url=reverse("analysis-start"),
                fix_fields={"analysis": run.type},
            )


def _url(run: AnalysisRun, sort: str = "") -> str:
    return rows_url(run, sort=sort) if sort else reverse("analysis", args=[run.pk])
