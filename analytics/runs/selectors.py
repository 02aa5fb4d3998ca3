"""Find runs, describe the progress of a run, and explain why a run does not start."""

from collections.abc import Iterable

import redis
from django.conf import settings
from django.db.models import Max, Q
from django.utils import timezone

from analytics.analyses import ANALYSES, AnalysisName
from analytics.models import AnalysisRun
from analytics.stages import RunStage
from grants.jobs import is_worker_present, redis_problem
from grants.journal import decision_changes_after
from grants.models import EFFECT_JOBS, JobState
from grants.policies.times import parse_time
from grants.validity import has_change_of_time

# a running run normally has a heartbeat every second
SILENT_AFTER_SECONDS = 5
# by analysis: the actions of journal lines that change no decision, and still its report
_ACTIONS_OF_REPORTS = {
    # what guardrails expect is decided in the active generation
    AnalysisName.GUARDRAILS: ("guardrail-set", "guardrail-delete", "generation-activate"),
    AnalysisName.UNUSED: ("usage-import",),
}
# of runs without a report
_LAST_STAGES = dict.fromkeys(EFFECT_JOBS, "Writing the effect")


def latest_run(
    analysis: str, namespace: str | None = None, *, generation: str | None = None
) -> AnalysisRun | None:
    """Return the newest done run of an analysis.

    namespace: the name of a namespace; runs over this namespace or over all namespaces are considered.
    """
    runs = AnalysisRun.objects.filter(type=analysis, state=JobState.DONE)
    if namespace is not None:
        runs = runs.filter(Q(options__namespace=namespace) | Q(options__namespace=""))
    if generation is not None:
        runs = runs.filter(options__generation=generation)
    return runs.order_by("-requested_at", "-pk").first()


def latest_runs(*analyses: str) -> dict[str, AnalysisRun]:
    """Return the newest done run of each of these analyses, by analysis. Runs one query."""
    done = AnalysisRun.objects.filter(state=JobState.DONE, type__in=analyses)
    newest = done.order_by().values("type").annotate(newest=Max("pk")).values("newest")
    return {run.type: run for run in AnalysisRun.objects.filter(pk__in=newest)}


def latest_finished_runs() -> list[AnalysisRun]:
    """Return the newest finished run of each analysis, whatever its outcome. Runs one query."""
    finished = AnalysisRun.objects.filter(state__in=(JobState.DONE, JobState.FAILED, JobState.CANCELLED))
    newest = finished.order_by().values("type").annotate(newest=Max("pk")).values("newest")
    return list(AnalysisRun.objects.filter(pk__in=newest, type__in=ANALYSES).order_by("type"))


def changes_since(run: AnalysisRun | None) -> int:
    """Return how many changes since the snapshot of a run can change a decision, or the report otherwise; 0 without a run
    or a snapshot.

    Periods that have begun or ended since the snapshot count too. Until the journal has their lines, they
    count as one change. Runs at most two queries, three if there are very many changes.
    """
    if run is None or run.revision is None:
        return 0
    changes = decision_changes_after(run.revision, _ACTIONS_OF_REPORTS.get(run.type, ()))
    at = run.summary.get("at")
    return changes or int(bool(at) and has_change_of_time(parse_time(at), timezone.now()))


def changes_since_each(runs: Iterable[AnalysisRun]) -> dict[int, int]:
    """Return `changes_since` of each run, by its primary key. Runs that share revision, time and actions share their queries."""
    changes: dict[tuple, int] = {}
    of_runs = {}
    for run in runs:
        state = (run.revision, run.summary.get("at"), _ACTIONS_OF_REPORTS.get(run.type))
        if state not in changes:
            changes[state] = changes_since(run)
        of_runs[run.pk] = changes[state]
    return of_runs


def run_silent_seconds(run: AnalysisRun) -> int | None:
    """Return the seconds since the last heartbeat of a running run; None for any other run."""
    if run.state != JobState.RUNNING or run.heartbeat_at is None:
        return None
    return max(0, int((timezone.now() - run.heartbeat_at).total_seconds()))


def run_waiting_reason(run: AnalysisRun) -> str:
    """Return why a waiting run does not run yet; empty for any other run."""
    return waiting_reason("The run", excluded=run.pk) if run.state == JobState.WAITING else ""


def waiting_reason(task: str, *, excluded: int | None = None) -> str:
    """Return why a task of the queue of runs does not start yet. task: in the text. excluded: a run to
    ignore.
    """
    if problem := redis_problem():
        return f"{problem}. {task} is kept and starts when it does."
    if not _has_present_worker():
        return f"No worker is running. {task} is kept and starts with the next worker."
    running = (
        AnalysisRun.objects.filter(state=JobState.RUNNING).exclude(pk=excluded).order_by("started_at").first()
    )
    if running is not None:
        return f"The worker is busy with run {running.pk}. {task} starts after it."
    return "It starts within seconds."


def _has_present_worker() -> bool:
    try:
        return is_worker_present()
    except redis.RedisError:
        return False


def run_progress(run: AnalysisRun) -> dict:
    """Return the context of `reports/_run_progress.html`. Queries Redis while the run waits.

    progress, max_progress: the filled part of the progress bar and its full length.
    """
    stages = list(RunStage)
    current = stages.index(run.stage) if run.stage in stages else -1
    labels = [
        _LAST_STAGES.get(run.type, stage.label) if stage == RunStage.WRITING else stage.label
        for stage in RunStage
    ]
    return {
        "waiting_reason": run_waiting_reason(run),
        "silence_warning": _silence_warning(run),
        "progress": _progress(run, current),
        "max_progress": 100 * len(stages),
        "stages": [
            (label, "past" if i < current else "present" if i == current else "next")
            for i, label in enumerate(labels)
        ],
        "is_cancelling": run.cancel_requested_at is not None and not run.is_finished,
    }


def _silence_warning(run: AnalysisRun) -> str:
    silent = run_silent_seconds(run)
    if silent is None or silent < SILENT_AFTER_SECONDS:
        return ""
    return (
        f"The worker has not responded for {silent:,} s. If it has stopped, the run restarts within "
        f"{settings.RUN_LOST_AFTER_SECONDS:,} s of its last response, or sooner."
    )


def _progress(run: AnalysisRun, stage: int) -> int:
    percent_of_stage = 100 * run.steps_done // run.steps_total if run.steps_total else 0
    return max(stage, 0) * 100 + min(percent_of_stage, 100)
