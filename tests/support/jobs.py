"""Execute jobs in a test, as a worker does."""

from authzconsole.models import Evidence
from grants.jobs import run_job
from grants.models.reviews import Campaign


def execute_evidence(*, number: int) -> None:
    run_job(Evidence.objects.get(pk=number).job_id)


def execute_preparation(*, number: int) -> None:
    run_job(Campaign.objects.get(pk=number).job_id)


def execute_finish(*, number: int) -> None:
    run_job(Campaign.objects.get(pk=number).job_id)
