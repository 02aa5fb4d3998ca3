"""Create runs in different states, directly in the database."""

from django.utils import timezone

from analytics.models import AnalysisRun, RunState


def create_waiting_run(**fields):
    return AnalysisRun.objects.create(
        analysis="delete-readiness", options={"generation": "final", "namespace": ""}, **fields
    )


def create_running_run(**fields):
    now = timezone.now()
    defaults = {
        "state": RunState.RUNNING,
        "claim": "c1",
        "attempt": 1,
        "started_at": now,
        "heartbeat_at": now,
    }
    return create_waiting_run(**defaults | fields)


def reload_run(run):
    return AnalysisRun.objects.get(pk=run.pk)
