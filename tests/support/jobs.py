"""Execute jobs in a test, as a worker does."""

from authzconsole.models import Evidence
from grants.jobs import run_job


def execute_evidence(*, number: int) -> None:
    run_job(Evidence.objects.get(pk=number).job_id)
