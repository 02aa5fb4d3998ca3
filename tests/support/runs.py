"""Create runs in different states, directly in the database."""

from django.utils import timezone

from analytics.models import AnalysisRun
from grants.models import JobState


def create_waiting_run(**fields):
    return AnalysisRun.objects.create(
        type="delete-readiness", options={"generation": "final", "namespace": ""}, **fields
    )


def create_running_run(**fields):
    now = timezone.now()
    defaults = {
        "state": JobState.RUNNING,
        "claim": "c1",
        "attempt": 1,
        "started_at": now,
        "heartbeat_at": now,
    }
    return create_waiting_run(**defaults | fields)


def reload_run(run):
    return AnalysisRun.objects.get(pk=run.pk)
