"""What the worker is asked to do; each task is one call of a service."""

from celery import shared_task
from django.conf import settings

from analytics.runs import presence, retention, schedules, services

__all__ = ["presence", "results_clean", "run_execute", "runs_sweep", "schedule_run"]

KILLED_AFTER_SECONDS = 120


# a process that does not even end its run in time is killed, and the run found by the sweep
@shared_task(name="analytics.run_execute", ignore_result=True, time_limit=settings.RUN_TIMEOUT_SECONDS + KILLED_AFTER_SECONDS)
def run_execute(run_id):
    # imported here because it loads PySpark, which only the worker needs
    from analytics.runs.execution import run_execute as execute

    execute(run_id=run_id)


@shared_task(name="analytics.runs_sweep", ignore_result=True)
def runs_sweep():
    services.runs_sweep()


@shared_task(name="analytics.results_clean", ignore_result=True)
def results_clean():
    retention.results_clean()


@shared_task(name=schedules.TASK, ignore_result=True)
def schedule_run(analysis):
    schedules.schedule_run(analysis=analysis)
