"""Problems that need an administrator: findings of the newest reports, and plans that wait for a decision."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

from django.urls import reverse
from django.utils import timezone

from analytics.analyses import ANALYSES, AnalysisName
from analytics.models import AnalysisRun
from analytics.runs.selectors import latest_run
from entities.models import State
from entities.vocabulary import quantity
from grants.journal import decision_changes_after
from grants.models import GroupGrant, Plan, PlanState, UserGrant
from grants.policies.policy import Generation

PLANNED_TOO_LONG_DAYS = 90


@dataclass(frozen=True, slots=True)
class AttentionItem:
    """One problem.

    level: the level of its icon. run: the run that reported the problem; None if it was counted for this request.
    changes: number of changes after that run.
    plan_label, plan_url: label and target of a button that creates a plan to solve the problem; empty if there is none.
    """

    level: str
    text: str
    url: str
    run: AnalysisRun | None = None
    plan_label: str = ""
    plan_url: str = ""
    changes: int = 0


@dataclass(frozen=True, slots=True)
class Attention:
    """The problems. missing_reports: titles of analyses without a report, which may find further problems."""

    items: list[AttentionItem]
    missing_reports: list[str]


def attention_section(generation: Generation, readiness: AnalysisRun | None, *, is_large: bool) -> Attention:
    """Return the problems. The number of queries is constant.

    readiness: the newest report on delete readiness. is_large: skip counts that scan all grants.
    """
    stranded, ghosts = latest_run(AnalysisName.STRANDED), latest_run(AnalysisName.GHOST_GRANTS)
    runs = {AnalysisName.DELETE_READINESS: readiness, AnalysisName.STRANDED: stranded, AnalysisName.GHOST_GRANTS: ghosts}
    items = [*_readiness_items(readiness), *_stranded_items(stranded), *_ghost_grant_items(ghosts, generation)]
    items += () if is_large else _long_planned_items(ghosts)
    return Attention(_with_changes([*items, *_impact_items(generation), *_plan_items()]),
                     [ANALYSES[name].title for name, run in runs.items() if run is None])


def _with_changes(items: list[AttentionItem]) -> list[AttentionItem]:
    """Add the number of changes after each run. Runs at most one query for each of four analyses."""
    revisions = {item.run.revision for item in items if item.run}
    changes = {revision: decision_changes_after(revision) for revision in revisions}
    return [replace(item, changes=changes[item.run.revision]) if item.run else item for item in items]


def _readiness_items(run: AnalysisRun | None) -> Iterator[AttentionItem]:
    if run and (blocked := run.summary.get("namespaces_nobody_can_delete", 0)):
        yield AttentionItem("error", f"{quantity(blocked, 'namespace', 'namespaces')} that no user can delete", _url(run), run)


def _stranded_items(run: AnalysisRun | None) -> Iterator[AttentionItem]:
    summary = run.summary if run else {}
    if without_admin := summary.get("entities_nobody_administers", 0):
        yield AttentionItem("error", f"{quantity(without_admin, 'live entity', 'live entities')} without an administrator",
                            _url(run, "admins"), run)
    if with_one_admin := summary.get("entities_one_user_administers", 0):
        yield AttentionItem("warning", f"{quantity(with_one_admin, 'live entity', 'live entities')} with only one administrator",
                            _url(run, "-admins"), run)


def _ghost_grant_items(run: AnalysisRun | None, generation: Generation) -> Iterator[AttentionItem]:
    summary = run.summary if run else {}
    if leftover := summary.get("grants_on_deleted_addresses", 0):
        # If the generation removes grants with their entity, these grants remain from an earlier generation.
        again = "" if generation.deleting_removes_grants else ", which apply again if the entities are recreated"
        text = f"{quantity(leftover, 'grant', 'grants')} on deleted addresses{again}"
        yield AttentionItem("warning", text, _url(run, "state"), run, "Clean up", reverse("plan-ghosts"))
    if planned := summary.get("grants_on_planned_addresses", 0):
        yield AttentionItem("planned", f"{quantity(planned, 'grant', 'grants')} on planned addresses, waiting for their entities",
                            _url(run, "-state"), run)


def _long_planned_items(run: AnalysisRun | None) -> Iterator[AttentionItem]:
    before = timezone.now() - timedelta(days=PLANNED_TOO_LONG_DAYS)
    long_planned = sum(model.objects.filter(content_object__state=State.PLANNED, granted_at__lt=before).count()
                       for model in (UserGrant, GroupGrant))
    if long_planned:
        text = f"{quantity(long_planned, 'grant', 'grants')} on planned addresses for more than {PLANNED_TOO_LONG_DAYS} days"
        yield AttentionItem("warning", text, _url(run, "-state") if run else reverse("analyses"))


def _impact_items(generation: Generation) -> Iterator[AttentionItem]:
    run = latest_run(AnalysisName.POLICY_IMPACT, generation=generation.name)
    if run is not None and (other := run.options.get("to_generation")):
        gained, lost = (run.summary.get(name, 0) for name in ("answers_gained", "answers_lost"))
        text = (f"Impact report available, from generation {generation.name} to {other}: "
                f"{quantity(gained, 'permission', 'permissions')} gained, {lost:,} lost")
        yield AttentionItem("info", text, reverse("generation-activate", args=[other]), run)


def _plan_items() -> Iterator[AttentionItem]:
    if proposed := Plan.objects.filter(state=PlanState.PROPOSED).count():
        yield AttentionItem("info", f"{quantity(proposed, 'proposed plan', 'proposed plans')} to apply or discard",
                            f"{reverse('plans')}?state={PlanState.PROPOSED}")


def _url(run: AnalysisRun, sort: str = "") -> str:
    return f"{reverse('analysis', args=[run.pk])}{f'?sort={sort}#rows' if sort else ''}"
