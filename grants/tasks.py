"""The Celery tasks of jobs: one that executes a job, and the sweep."""

import structlog
from celery import shared_task

# the worker imports `queue` here, because it connects Celery signals
from grants.jobs import queue, run_job, sweep_jobs
from grants.jobs.lifecycle import RUN_TASK

__all__ = ["execute_job", "queue", "sweep"]


@shared_task(name=RUN_TASK, ignore_result=True)
def execute_job(job_id):
    with structlog.contextvars.bound_contextvars(run_id=job_id):
        run_job(job_id)


@shared_task(name="grants.sweep_jobs", ignore_result=True)
def sweep():
    sweep_jobs()


# messages of version 1.1 that are still queued; the number of a run is the number of its job
shared_task(name="analytics.run_execute", ignore_result=True)(run_job)
