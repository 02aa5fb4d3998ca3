"""Execute jobs in a test, as a worker does."""

from authzconsole.models import Evidence
from grants.effects.large import LargeEffect, large_effect
from grants.jobs import run_job
from grants.models import Job, JobState
from grants.models.reviews import Campaign


def execute_evidence(*, number: int) -> None:
    run_job(Evidence.objects.get(pk=number).job_id)


def execute_preparation(*, number: int) -> None:
    run_job(Campaign.objects.get(pk=number).job_id)


def execute_finish(*, number: int) -> None:
    run_job(Campaign.objects.get(pk=number).job_id)


def execute_effect(job: Job) -> LargeEffect:
    """Compute a large effect, also if a test let its job look as if it were running."""
    Job.objects.filter(pk=job.pk).update(state=JobState.WAITING)
    run_job(job.pk)
    job.refresh_from_db()
    assert job.state == JobState.DONE, job.error
    return large_effect(job)
