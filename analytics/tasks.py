"""The Celery tasks that clean results, request runs and start Spark. Each calls one service; `grants.tasks` executes
runs.

The task names are stored in queued messages, so they must not change.
"""

from celery import shared_task

from analytics.runs import retention, schedules


@shared_task(name="analytics.results_clean", ignore_result=True)
def clean_results():
    retention.clean_results()


@shared_task(name="analytics.scheduled_runs", ignore_result=True)
def request_scheduled_runs(*arguments, **options):
    schedules.request_scheduled_runs()
    schedules.request_first_runs()


@shared_task(name="analytics.warm_up_spark", ignore_result=True)
def warm_up_spark():
    # PySpark is imported in the worker of the runs only
    from analytics.runs import execution

    execution.warm_up_spark()


# Messages of version 1.1 that are still queued. The argument is the analysis.
for name in ("analytics.schedule_run", "analytics.first_runs"):
    shared_task(name=name, ignore_result=True)(request_scheduled_runs.run)
