"""A Python worker of Spark is killed, as the kernel does when the memory is full."""

import os
import signal

import pytest

from grants.jobs import run_job
from grants.models import JobState
from tests.support.runs import create_waiting_run, reload_run

pytestmark = [
    pytest.mark.spark,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("storage_folder"),
]


def test_a_run_whose_python_worker_is_killed_is_tried_again(spark, replace_computation):
    def use_a_python_worker(progress):
        is_first_attempt = reload_run(run).attempt == 1

        def kill_or_copy(batches):
            if is_first_attempt:
                os.kill(os.getpid(), signal.SIGKILL)
            yield from batches

        assert spark.range(3).mapInArrow(kill_or_copy, "id long").count() == 3

    replace_computation(use_a_python_worker)
    run = create_waiting_run()
    run_job(run.pk)
    assert reload_run(run).state == JobState.WAITING
    run_job(run.pk)
    assert (reload_run(run).state, reload_run(run).attempt) == (JobState.DONE, 2)


def test_a_run_whose_python_worker_is_always_killed_fails_with_a_message(
    spark, replace_computation, settings
):
    def use_a_python_worker(progress):
        def kill(batches):
            os.kill(os.getpid(), signal.SIGKILL)
            yield from batches

        spark.range(3).mapInArrow(kill, "id long").count()

    replace_computation(use_a_python_worker)
    run = create_waiting_run()
    for attempt in range(1, settings.RUN_ATTEMPTS_MOST + 1):
        assert reload_run(run).state == JobState.WAITING
        run_job(run.pk)
        assert reload_run(run).attempt == attempt
    run = reload_run(run)
    assert run.state == JobState.FAILED
    assert f"was killed during the run, {settings.RUN_ATTEMPTS_MOST} times in a row" in run.error
