"""Find runs, and explain why a run does not start."""

import redis
from django.db.models import Max, Q
from django.utils import timezone

from analytics.analyses import ANALYSES
from analytics.models import AnalysisRun, RunState
from analytics.runs.presence import is_worker_present, redis_problem

# a running run normally has a heartbeat every second
SILENT_AFTER_SECONDS = 5


def latest_run(analysis: str, namespace: str | None = None, *, generation: str | None = None) -> AnalysisRun | None:
    """Return the newest done run of an analysis.

    namespace: the name of a namespace; runs over this namespace or over all namespaces are considered.
    """
    runs = AnalysisRun.objects.filter(analysis=analysis, state=RunState.DONE)
    if namespace is not None:
        runs = runs.filter(Q(options__namespace=namespace) | Q(options__namespace=""))
    if generation is not None:
        runs = runs.filter(options__generation=generation)
    return runs.order_by("-requested_at", "-pk").first()


def latest_finished_runs() -> list[AnalysisRun]:
    """Return the newest finished run of each analysis, whatever its outcome. Runs one query."""
    finished = AnalysisRun.objects.filter(state__in=(RunState.DONE, RunState.FAILED, RunState.CANCELLED))
    newest = finished.order_by().values("analysis").annotate(newest=Max("pk")).values("newest")
    return list(AnalysisRun.objects.filter(pk__in=newest, analysis__in=ANALYSES).order_by("analysis"))


def run_silent_seconds(run: AnalysisRun) -> int | None:
    """Return the seconds since the last heartbeat of a running run; None for any other run."""
    if run.state != RunState.RUNNING or run.heartbeat_at is None:
        return None
    return max(0, int((timezone.now() - run.heartbeat_at).total_seconds()))


def run_waiting_reason(run: AnalysisRun) -> str:
    """Return why a waiting run does not run yet; empty for any other run."""
    if run.state != RunState.WAITING:
        return ""
    if problem := redis_problem():
        return f"{problem}. The run is kept and starts when it does."
    if not _has_present_worker():
        return "No worker is running. The run is kept and starts with the next worker."
    running = AnalysisRun.objects.filter(state=RunState.RUNNING).exclude(pk=run.pk).order_by("started_at").first()
    if running is not None:
        return f"The worker is busy with run {running.pk}. This one starts after it."
    return "It starts within seconds."


def _has_present_worker() -> bool:
    try:
        return is_worker_present()
    except redis.RedisError:
        return False
