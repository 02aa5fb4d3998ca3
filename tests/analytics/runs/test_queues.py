"""Runs and all other tasks have separate queues, and `make run` starts a worker for each."""

import configparser

import pytest
from django.conf import settings

from authzconsole.celery import app
from authzconsole.ops import ROOT
from grants.jobs.lifecycle import RUN_TASK

LONG_TASKS = {
    "authzconsole.journal_verify",
    "analytics.warm_up_spark",
}


@pytest.fixture(scope="module")
def programs():
    """The programs of supervisord.conf, without interpolation."""
    configuration = configparser.RawConfigParser()
    configuration.read(ROOT / "authzconsole" / "ops" / "supervisord.conf")
    return configuration


def queue_of(task):
    return app.amqp.router.route({}, task)["queue"].name


def test_only_runs_and_other_long_tasks_use_the_queue_of_the_runs():
    app.loader.import_default_modules()
    own_tasks = [name for name in app.tasks if not name.startswith("celery.")]
    assert {name: queue_of(name) for name in own_tasks} == {
        name: settings.RUN_QUEUE if name in LONG_TASKS else settings.LIGHT_QUEUE for name in own_tasks
    }
    assert {"grants.sweep_jobs", RUN_TASK} <= set(own_tasks) and queue_of(
        "authzconsole.a_future_task"
    ) == settings.LIGHT_QUEUE


def test_each_queue_has_a_worker_in_the_console(programs):
    commands = {name: programs[f"program:{name}"]["command"] for name in ("worker", "light")}
    assert f"--queues {settings.RUN_QUEUE} " in commands["worker"]
    # threads share the memory of one process
    assert f"--queues {settings.LIGHT_QUEUE} " in commands["light"] and "--pool threads" in commands["light"]
    assert {"worker", "light"} <= set(programs["group:console"]["programs"].split(","))


def test_a_worker_without_queues_executes_the_tasks_of_all_queues():
    assert set(app.amqp.queues.consume_from) == {settings.RUN_QUEUE, settings.LIGHT_QUEUE}
    for name, queue in app.amqp.queues.items():
        # a shared routing key would send each message to both queues
        assert (queue.exchange.name, queue.routing_key) == (name, name)
