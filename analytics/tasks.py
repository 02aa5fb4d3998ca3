"""What the worker is asked to do; each task is one call of a service."""

from celery import shared_task

from analytics import presence, services

__all__ = ["presence", "run_execute", "runs_sweep"]


@shared_task(name="analytics.run_execute", ignore_result=True)
def run_execute(run_id):
    services.run_execute(run_id=run_id)


@shared_task(name="analytics.runs_sweep", ignore_result=True)
def runs_sweep():
    services.runs_sweep()
