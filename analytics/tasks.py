"""The Celery tasks of the worker. Each task calls one service.

The task names are stored in the schedule table and in queued messages, so they must not change.
"""

import structlog
from celery import shared_task
from django.conf import settings

# the worker imports `presence` here, because it connects Celery signals
from analytics.runs import first_runs, presence, recovery, retention, schedules

__all__ = [
    "clean_results",
    "execute_run",
    "presence",
    "request_first_runs",
    "request_scheduled_run",
    "sweep_runs",
]

KILL_GRACE_SECONDS = 120


# Celery kills a process that does not end its run in time; `sweep_runs` then finds the run
@shared_task(
    name="analytics.run_execute",
    ignore_result=True,
    time_limit=settings.RUN_TIMEOUT_SECONDS + KILL_GRACE_SECONDS,
)
def execute_run(run_id):
    # imported here because it loads PySpark, which only the worker needs
    from analytics.runs import execution

    with structlog.contextvars.bound_contextvars(run_id=run_id):
        execution.execute_run(run_id=run_id)


@shared_task(name="analytics.runs_sweep", ignore_result=True)
def sweep_runs():
    recovery.sweep_runs()


@shared_task(name="analytics.results_clean", ignore_result=True)
def clean_results():
    retention.clean_results()


@shared_task(name=schedules.TASK, ignore_result=True)
def request_scheduled_run(analysis):
    schedules.request_scheduled_run(analysis=analysis)


@shared_task(name="analytics.first_runs", ignore_result=True)
def request_first_runs():
    first_runs.request_first_runs()
