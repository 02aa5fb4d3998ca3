"""The jobs of this app: one type for each analysis."""

from django.conf import settings

from analytics.analyses import ANALYSES
from grants.jobs import JobContext, JobResult, job_type


def spark_hint() -> str:
    """Return what to check if a run on a cluster takes too long; empty if Spark runs on this machine."""
    master = settings.SPARK_MASTER
    return (
        "" if master.startswith("local") else f"SPARK_MASTER is {master}: check whether it has free workers."
    )


@job_type(*ANALYSES, timeout_hint=spark_hint)
def run_analysis(context: JobContext) -> JobResult:
    # imported here because it loads PySpark, which only the worker needs
    from analytics.runs.execution import execute_run

    return execute_run(context)
