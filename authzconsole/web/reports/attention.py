"""What an administrator should look at: what the newest reports found, and what waits for a decision."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

from django.urls import reverse
from django.utils import timezone

from analytics.analyses import ANALYSES, AnalysisName
from analytics.models import AnalysisRun
from analytics.runs.selectors import latest_run
from entities.models import State
from grants.journal import decision_changes_after
from grants.models import GroupGrant, Plan, PlanState, UserGrant
from grants.policies.policy import Generation

PLANNED_TOO_LONG_DAYS = 90


@dataclass(frozen=True, slots=True)
class AttentionItem:
    """level: of its mark. source: the run that says so, None where it was counted now. changes: how many changes came after
    that run. remedy: the words of a button that makes a plan against it, and where that is sent; empty where there is no such
    plan."""

    level: str
    words: str
    url: str
    source: AnalysisRun | None = None
    remedy: str = ""
    remedy_url: str = ""
    changes: int = 0


@dataclass(frozen=True, slots=True)
class Attention:
    """unknown: the titles of analyses without which there may be more to say."""

    matters: list[AttentionItem]
    unknown: list[str]


def attention(generation: Generation, readiness: AnalysisRun | None, *, is_large: bool) -> Attention:
    """The same few queries whatever there is. is_large: then nothing is said that would take a walk through all grants."""
    stranded, ghosts = latest_run(AnalysisName.STRANDED), latest_run(AnalysisName.GHOST_GRANTS)
    runs = {AnalysisName.DELETE_READINESS: readiness, AnalysisName.STRANDED: stranded, AnalysisName.GHOST_GRANTS: ghosts}
    matters = [*_readiness(readiness), *_stranded(stranded), *_ghosts(ghosts, generation)]
    matters += () if is_large else _waiting_too_long(ghosts)
    return Attention(_dated([*matters, *_impact(generation), *_plans()]),
                     [ANALYSES[name].title for name, run in runs.items() if run is None])


def _dated(matters: list[AttentionItem]) -> list[AttentionItem]:
    """With the changes that came after each run. At most a query for each of four analyses."""
    revisions = {matter.source.revision for matter in matters if matter.source}
    changes = {revision: decision_changes_after(revision) for revision in revisions}
    return [replace(matter, changes=changes[matter.source.revision]) if matter.source else matter for matter in matters]


def _readiness(run: AnalysisRun | None) -> Iterator[AttentionItem]:
    if run and (blocked := run.summary.get("namespaces_nobody_can_delete", 0)):
        yield AttentionItem("error", f"{_many(blocked, 'namespace', 'namespaces')} that nobody can delete", _url(run), run)


def _stranded(run: AnalysisRun | None) -> Iterator[AttentionItem]:
    summary = run.summary if run else {}
    if nobody := summary.get("entities_nobody_administers", 0):
        yield AttentionItem("error", f"{_many(nobody, 'live entity', 'live entities')} that nobody administers",
                     _url(run, "admins"), run)
    if one := summary.get("entities_one_user_administers", 0):
        yield AttentionItem("warning", f"{_many(one, 'live entity', 'live entities')} that one user alone administers",
                     _url(run, "-admins"), run)


def _ghosts(run: AnalysisRun | None, generation: Generation) -> Iterator[AttentionItem]:
    summary = run.summary if run else {}
    if left := summary.get("grants_on_deleted_addresses", 0):
        # a generation that removes grants with their entity leaves none behind, but takes over those that another one left
        again = "" if generation.deleting_removes_grants else ", which apply again if the entities are recreated"
        yield AttentionItem("warning", f"{_many(left, 'grant', 'grants')} on deleted addresses{again}", _url(run, "state"), run,
                     "Plan to take them back", reverse("plan-ghosts"))
    if waiting := summary.get("grants_on_planned_addresses", 0):
        yield AttentionItem("planned", f"{_many(waiting, 'grant', 'grants')} on planned addresses, waiting for their entities",
                     _url(run, "-state"), run)


def _waiting_too_long(run: AnalysisRun | None) -> Iterator[AttentionItem]:
    before = timezone.now() - timedelta(days=PLANNED_TOO_LONG_DAYS)
    waiting = sum(model.objects.filter(content_object__state=State.PLANNED, granted_at__lt=before).count()
                  for model in (UserGrant, GroupGrant))
    if waiting:
        yield AttentionItem("warning", f"{_many(waiting, 'grant', 'grants')} on planned addresses for more than "
                                f"{PLANNED_TOO_LONG_DAYS} days", _url(run, "-state") if run else reverse("analyses"))


def _impact(generation: Generation) -> Iterator[AttentionItem]:
    run = latest_run(AnalysisName.POLICY_IMPACT, generation=generation.name)
    if run is not None and (other := run.options.get("to_generation")):
        gained, lost = (run.summary.get(name, 0) for name in ("answers_gained", "answers_lost"))
        yield AttentionItem("info", f"A change of generation from {generation.name} to {other} is being considered: "
                             f"{_many(gained, 'answer', 'answers')} gained, {lost:,} lost",
                     f"{reverse('generation-activate', args=[other])}", run)


def _plans() -> Iterator[AttentionItem]:
    if waiting := Plan.objects.filter(state=PlanState.PROPOSED).count():
        yield AttentionItem("info", f"{_many(waiting, 'plan waits', 'plans wait')} for a decision",
                     f"{reverse('plans')}?state={PlanState.PROPOSED}")


def _many(total: int, one: str, many: str) -> str:
    return f"{total:,} {one if total == 1 else many}"


def _url(run: AnalysisRun, sort: str = "") -> str:
    return f"{reverse('analysis', args=[run.pk])}{f'?sort={sort}#rows' if sort else ''}"
