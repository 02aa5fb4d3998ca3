"""Problems that administrators should look at: results of the newest reports, and proposed plans."""

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
    """One problem. level: of its icon. source: the run that found it; None if it was counted now. changes: the number of
    changes after that run. remedy, remedy_url: the label and target of a button that creates a plan; empty if there is none.
    """

    level: str
    words: str
    url: str
    source: AnalysisRun | None = None
    remedy: str = ""
    remedy_url: str = ""
    changes: int = 0


@dataclass(frozen=True, slots=True)
class Attention:
    """unknown: the titles of analyses without a report, which may find more problems."""

    items: list[AttentionItem]
    unknown: list[str]


def attention_section(generation: Generation, readiness: AnalysisRun | None, *, is_large: bool) -> Attention:
    """Return the problems. The number of queries is constant. is_large: leave out what requires a scan of all grants."""
    stranded, ghosts = latest_run(AnalysisName.STRANDED), latest_run(AnalysisName.GHOST_GRANTS)
    runs = {AnalysisName.DELETE_READINESS: readiness, AnalysisName.STRANDED: stranded, AnalysisName.GHOST_GRANTS: ghosts}
    items = [*_readiness(readiness), *_stranded(stranded), *_ghosts(ghosts, generation)]
    items += () if is_large else _waiting_too_long(ghosts)
    return Attention(_with_changes([*items, *_impact(generation), *_plans()]),
                     [ANALYSES[name].title for name, run in runs.items() if run is None])


def _with_changes(items: list[AttentionItem]) -> list[AttentionItem]:
    """Add the number of changes after each run. At most one query for each of four analyses."""
    revisions = {item.source.revision for item in items if item.source}
    changes = {revision: decision_changes_after(revision) for revision in revisions}
    return [replace(item, changes=changes[item.source.revision]) if item.source else item for item in items]


def _readiness(run: AnalysisRun | None) -> Iterator[AttentionItem]:
    if run and (blocked := run.summary.get("namespaces_nobody_can_delete", 0)):
        yield AttentionItem("error", f"{_counted(blocked, 'namespace', 'namespaces')} that no user can delete", _url(run), run)


def _stranded(run: AnalysisRun | None) -> Iterator[AttentionItem]:
    summary = run.summary if run else {}
    if without_admin := summary.get("entities_nobody_administers", 0):
        yield AttentionItem("error", f"{_counted(without_admin, 'live entity', 'live entities')} without an administrator",
                     _url(run, "admins"), run)
    if one := summary.get("entities_one_user_administers", 0):
        yield AttentionItem("warning", f"{_counted(one, 'live entity', 'live entities')} with only one administrator",
                     _url(run, "-admins"), run)


def _ghosts(run: AnalysisRun | None, generation: Generation) -> Iterator[AttentionItem]:
    summary = run.summary if run else {}
    if left := summary.get("grants_on_deleted_addresses", 0):
        # A generation that removes grants with their entity leaves none behind, but inherits those of an earlier one.
        again = "" if generation.deleting_removes_grants else ", which apply again if the entities are recreated"
        words = f"{_counted(left, 'grant', 'grants')} on deleted addresses{again}"
        yield AttentionItem("warning", words, _url(run, "state"), run, "Clean up", reverse("plan-ghosts"))
    if waiting := summary.get("grants_on_planned_addresses", 0):
        yield AttentionItem("planned", f"{_counted(waiting, 'grant', 'grants')} on planned addresses, waiting for their entities",
                     _url(run, "-state"), run)


def _waiting_too_long(run: AnalysisRun | None) -> Iterator[AttentionItem]:
    before = timezone.now() - timedelta(days=PLANNED_TOO_LONG_DAYS)
    waiting = sum(model.objects.filter(content_object__state=State.PLANNED, granted_at__lt=before).count()
                  for model in (UserGrant, GroupGrant))
    if waiting:
        yield AttentionItem("warning", f"{_counted(waiting, 'grant', 'grants')} on planned addresses for more than "
                                f"{PLANNED_TOO_LONG_DAYS} days", _url(run, "-state") if run else reverse("analyses"))


def _impact(generation: Generation) -> Iterator[AttentionItem]:
    run = latest_run(AnalysisName.POLICY_IMPACT, generation=generation.name)
    if run is not None and (other := run.options.get("to_generation")):
        gained, lost = (run.summary.get(name, 0) for name in ("answers_gained", "answers_lost"))
        yield AttentionItem("info", f"Impact report available, from generation {generation.name} to {other}: "
                             f"{_counted(gained, 'permission', 'permissions')} gained, {lost:,} lost",
                     f"{reverse('generation-activate', args=[other])}", run)


def _plans() -> Iterator[AttentionItem]:
    if waiting := Plan.objects.filter(state=PlanState.PROPOSED).count():
        yield AttentionItem("info", f"{_counted(waiting, 'proposed plan', 'proposed plans')} to apply or discard",
                     f"{reverse('plans')}?state={PlanState.PROPOSED}")


def _counted(total: int, singular: str, plural: str) -> str:
    return f"{total:,} {singular if total == 1 else plural}"


def _url(run: AnalysisRun, sort: str = "") -> str:
    return f"{reverse('analysis', args=[run.pk])}{f'?sort={sort}#rows' if sort else ''}"
