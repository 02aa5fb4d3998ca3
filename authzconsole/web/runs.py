"""A run as the pages show it."""

from django.http import Http404
from django.shortcuts import get_object_or_404
from django.utils import timezone

from analytics.analyses import ANALYSES
from analytics.models import AnalysisRun, RunStage
from analytics.selectors import run_waiting_reason
from grants.journal import current_revision


def run_or_404(pk: int) -> AnalysisRun:
    run = get_object_or_404(AnalysisRun.objects.select_related("requested_by"), pk=pk)
    if run.analysis not in ANALYSES:
        raise Http404("this console does not know the analysis of that run")
    return run


def listed_run(run: AnalysisRun) -> dict:
    """A run in a list of runs."""
    known = ANALYSES.get(run.analysis)
    return {
        "run": run, "title": known.title if known else run.analysis, "question": known.question if known else "",
        "scope": f"namespace:{run.options['namespace']}" if run.options.get("namespace") else "every namespace",
        "generation": " to ".join(filter(None, (run.options.get(name) for name in ("generation", "to_generation")))),
        "elapsed_seconds": _elapsed_seconds(run),
    }


def shown_run(run: AnalysisRun) -> dict:
    """A run on its own page. value of max: how much of its bar is full. Asks Redis while the run waits."""
    stages = list(RunStage.values)
    at = stages.index(run.stage) if run.stage in stages else -1
    return listed_run(run) | {
        "waiting_reason": run_waiting_reason(run), "value": _value(run, at), "max": 100 * len(stages),
        "stages": [(label, "past" if i < at else "present" if i == at else "next") for i, label in enumerate(RunStage.labels)],
        "changes_since": max(0, current_revision() - run.revision) if run.revision is not None else 0,
        "is_cancelling": run.cancel_requested_at is not None and not run.is_over,
    }


def _value(run: AnalysisRun, at: int) -> int:
    within = 100 * run.tasks_done // run.tasks_total if run.tasks_total else 0
    return max(at, 0) * 100 + min(within, 100)


def _elapsed_seconds(run: AnalysisRun) -> float | None:
    if run.started_at is None:
        return None
    return ((run.finished_at or timezone.now()) - run.started_at).total_seconds()
