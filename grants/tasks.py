"""The Celery tasks of jobs: one that executes a job, and the sweep."""

import structlog
from celery import shared_task

from grants.jobs import RUN_TASK, run_job, sweep_jobs


@shared_task(name=RUN_TASK, ignore_result=True)
def execute_job(job_id):
    with structlog.contextvars.bound_contextvars(run_id=job_id):
        run_job(job_id)


@shared_task(name="grants.sweep_jobs", ignore_result=True)
def sweep():
    sweep_jobs()


def sweep_instead(*numbers):
    """Do the work of a message of version 1.1: the sweep sends what the message asked for."""
    sweep_jobs()


# Messages of version 1.1 that are still queued. The number of a run is the number of its job.
shared_task(name="analytics.run_execute", ignore_result=True)(run_job)
for name in (
    "analytics.runs_sweep",
    "authzconsole.evidence_write",
    "authzconsole.webhook_deliver",
    "authzconsole.review_prepare",
    "authzconsole.review_finish",
):
    shared_task(name=name, ignore_result=True)(sweep_instead)
