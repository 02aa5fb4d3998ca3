"""The Celery application. Tasks are defined in the `tasks.py` of each package and only call a service."""

import atexit
import logging.config
import os
import tempfile

import structlog
from celery import Celery, Task
from celery.signals import (
    beat_init,
    before_task_publish,
    setup_logging,
    task_postrun,
    task_prerun,
    worker_init,
    worker_ready,
)

from authzconsole.common.monitoring.reports import start_task_span
from authzconsole.consumer_check import ConsumerCheck
from authzconsole.ops.processes import keep_files_private

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "authzconsole.settings")

app = Celery("authzconsole")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.steps["consumer"].add(ConsumerCheck)


@setup_logging.connect
def configure_logging(**kwargs: object) -> None:
    """Log as the web process does. Because of this handler, Celery does not configure logging itself."""
    from django.conf import settings

    logging.config.dictConfig(settings.LOGGING)


@worker_init.connect
@beat_init.connect
def restrict_files(**kwargs: object) -> None:
    """Keep snapshots, reports and temporary files private, also those of the Java and Python processes of
    Spark.
    """
    keep_files_private()


# the context of a request that its tasks also log
REQUEST_CONTEXT = ("request_id", "account", "token")


@before_task_publish.connect
def add_request_to_message(headers: dict, **kwargs: object) -> None:
    """Send the ids of the request with the task that it causes."""
    context = structlog.contextvars.get_contextvars()
    headers["log_context"] = {name: context[name] for name in REQUEST_CONTEXT if name in context}


@worker_init.connect
def set_temporary_folder(**kwargs: object) -> None:
    """Let Celery and PySpark write temporary files to a folder that another process removes if this worker is
    killed.
    """
    from django.conf import settings

    from analytics.folders import ScratchError, create_scratch_folder, remove_scratch_folder

    try:
        folder, worker = create_scratch_folder(settings.TEMP_DIR), os.getpid()
    except ScratchError as error:
        logging.getLogger(__name__).warning(
            "temporary files are written to %s: %s", tempfile.gettempdir(), error
        )
        return
    tempfile.tempdir = folder
    # not when a process of its pool ends
    atexit.register(lambda: remove_scratch_folder(folder) if os.getpid() == worker else None)


@worker_ready.connect
def warm_up_spark(**kwargs: object) -> None:
    """Let the worker of the runs start Spark before the first run."""
    from django.conf import settings

    if settings.SPARK_STARTS_EARLY and settings.RUN_QUEUE in app.amqp.queues.consume_from:
        app.send_task("analytics.warm_up_spark", expires=settings.SPARK_START_SECONDS)


@task_prerun.connect
def bind_task(task_id: str, task: Task, **kwargs: object) -> None:
    """Add the name and the id of the task, and the ids of the request that caused it, to every log line until
    it ends.
    """
    context = getattr(task.request, "log_context", None) or {}
    structlog.contextvars.bind_contextvars(
        task=task.name,
        task_id=task_id,
        **{name: context[name] for name in REQUEST_CONTEXT if name in context},
    )
    if (span := start_task_span(task.name)) is not None:
        task.request.trace_span = span


@task_postrun.connect
def unbind_task(task: Task | None = None, **kwargs: object) -> None:
    if task is not None and (span := getattr(task.request, "trace_span", None)) is not None:
        span.end()
    structlog.contextvars.unbind_contextvars("task", "task_id", *REQUEST_CONTEXT)
