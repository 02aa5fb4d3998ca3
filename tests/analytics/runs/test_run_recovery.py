"""Recovery of runs after their worker or Spark process died."""

import subprocess
import sys
from datetime import timedelta

import pytest
from django.utils import timezone

from analytics.failures import interruption_message
from analytics.models import AnalysisRun
from analytics.spark.session import SparkExited, SparkKilled, SparkUnavailable
from grants.jobs import run_job, sweep, sweep_jobs
from grants.jobs.lifecycle import requeue_job
from grants.jobs.processes import has_process_ended, this_process
from grants.models import JobState
from tests.support.runs import create_running_run, create_waiting_run, reload_run

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("storage_folder")]


@pytest.fixture(autouse=True)
def confirm_at_once(monkeypatch):
    """Remove the time for which the sweep waits for heartbeats of living processes."""
    monkeypatch.setattr(sweep, "CONFIRM_SECONDS", 0)


@pytest.fixture
def silent_run(settings):
    """Create a running run whose heartbeat is too old."""

    def create(**fields):
        return create_running_run(
            heartbeat_at=timezone.now() - timedelta(seconds=settings.RUN_LOST_AFTER_SECONDS + 1), **fields
        )

    return create


def ended_process():
    """Return the identity of a process that has ended."""
    code = "import runpy; print(runpy.run_path('grants/jobs/processes.py')['this_process']())"
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_a_run_whose_process_on_this_machine_has_ended_is_requeued_at_once(sent_tasks):
    runs = {
        "ended": create_running_run(process=ended_process()),
        "alive": create_running_run(process=this_process()),
        "unknown": create_running_run(),
        "other machine": create_running_run(process="another-boot/4026531836/1/1"),
        "unreadable": create_running_run(process="x"),
    }
    sweep_jobs()
    assert {name: str(reload_run(run).state) for name, run in runs.items()} == {
        "ended": "waiting",
        "alive": "running",
        "unknown": "running",
        "other machine": "running",
        "unreadable": "running",
    }
    assert sent_tasks == [("grants.run_job", runs["ended"].pk)]


def test_a_reused_process_id_is_not_mistaken_for_the_earlier_process():
    process = this_process()
    assert not has_process_ended(process) and has_process_ended(f"{process}1")


def test_a_run_fails_with_the_reason_after_three_silent_attempts(silent_run, sent_tasks):
    run = silent_run(attempt=3)
    sweep_jobs()
    assert (
        reload_run(run).state == JobState.FAILED and "ended during the run, 3 times" in reload_run(run).error
    )


def test_a_run_killed_for_exceeding_its_time_is_not_tried_again(settings, silent_run, sent_tasks):
    run = silent_run(started_at=timezone.now() - timedelta(seconds=settings.RUN_TIMEOUT_SECONDS + 130))
    sweep_jobs()
    assert reload_run(run).state == JobState.FAILED and "The run took longer than" in reload_run(run).error


def test_a_heartbeat_after_the_run_was_read_keeps_the_run_running(silent_run):
    run = silent_run()
    AnalysisRun.objects.filter(pk=run.pk).update(heartbeat_at=timezone.now())
    requeue_job(run, silent_since=run.heartbeat_at)
    assert reload_run(run).state == JobState.RUNNING


def test_a_process_whose_run_was_taken_over_changes_nothing(replace_computation):
    def lose_the_claim(progress):
        AnalysisRun.objects.filter(pk=run.pk).update(claim="another", attempt=2)
        progress.context._poll()
        progress.check()

    replace_computation(lose_the_claim)
    run = create_waiting_run()
    run_job(run.pk)
    run = reload_run(run)
    assert (run.state, run.claim, run.summary) == (JobState.RUNNING, "another", {})


@pytest.mark.parametrize(
    ("heartbeat_age", "fields", "state"),
    [
        (3_600, {}, JobState.WAITING),
        (3_600, {"cancel_requested_at": timezone.now()}, JobState.CANCELLED),
        # the clock was set back after the process had died on another machine
        (-3_600, {}, JobState.WAITING),
        (0, {}, JobState.RUNNING),
    ],
)
def test_a_silent_run_is_requeued_and_sent_or_cancelled(sent_tasks, heartbeat_age, fields, state):
    run = create_running_run(heartbeat_at=timezone.now() - timedelta(seconds=heartbeat_age), **fields)
    sweep_jobs()
    assert reload_run(run).state == state
    assert sent_tasks == ([("grants.run_job", run.pk)] if state == JobState.WAITING else [])


@pytest.mark.parametrize(
    ("sent_before", "is_sent"),
    [(timedelta(0), False), (2 * sweep.RESEND_AFTER, True), (-2 * sweep.RESEND_AFTER, True)],
)
def test_a_run_is_sent_again_unless_it_was_sent_recently(sent_tasks, sent_before, is_sent):
    create_waiting_run(sent_at=timezone.now() - sent_before)
    sweep_jobs()
    assert bool(sent_tasks) is is_sent


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (SparkKilled("killed"), "Java process ended while Spark started, 3 times in a row"),
        (SparkExited("Java ended at once"), "Java ended at once"),
        (
            RuntimeError(
                "Job aborted: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)"
            ),
            "allow fewer parallel tasks with SPARK_MASTER (local[1]; now local[*]), lower SPARK_DRIVER_MEMORY (now 2g)",
        ),
        (ConnectionRefusedError(), "Java process ended during the run, 3 times in a row"),
    ],
)
def test_a_run_whose_spark_dies_is_tried_again_and_then_fails(
    replace_computation, monkeypatch, settings, error, message
):
    def fail(progress):
        raise error

    replace_computation(fail)
    settings.SPARK_MASTER = "local[*]"
    monkeypatch.setattr(
        "analytics.failures.has_session_died", lambda: isinstance(error, ConnectionRefusedError)
    )
    run = create_waiting_run()
    for attempt in range(1, settings.RUN_ATTEMPTS_MOST + 1):
        assert reload_run(run).state == JobState.WAITING
        run_job(run.pk)
        assert reload_run(run).attempt == attempt
    assert reload_run(run).state == JobState.FAILED and message in reload_run(run).error


def test_on_a_cluster_the_message_about_a_python_worker_names_the_settings_of_executors(settings):
    settings.SPARK_MASTER = "yarn"
    message = interruption_message(RuntimeError("Python worker exited unexpectedly (crashed)"), 1)
    assert "ran out of memory" in message and "Raise spark.executor.memoryOverhead" in message


def test_a_run_that_cannot_start_spark_for_another_reason_is_not_tried_again(replace_computation):
    def fail(progress):
        raise SparkUnavailable("Spark did not start with SPARK_MASTER local[2]: no such file")

    replace_computation(fail)
    run = create_waiting_run()
    run_job(run.pk)
    assert (reload_run(run).state, reload_run(run).attempt) == (JobState.FAILED, 1)
