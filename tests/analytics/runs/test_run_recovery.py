"""Recovery of runs after their worker or Spark process died."""

import subprocess
import sys
from datetime import timedelta

import pytest
from django.utils import timezone

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


def test_a_silent_run_is_requeued_and_sent(silent_run, sent_tasks):
    run = silent_run()
    sweep_jobs()
    assert (reload_run(run).state, reload_run(run).claim) == (JobState.WAITING, "")
    assert sent_tasks == [("grants.run_job", run.pk)]


def test_a_heartbeat_from_the_future_does_not_count(sent_tasks):
    """The clock was set back after the process had died on another machine."""
    run = create_running_run(heartbeat_at=timezone.now() + timedelta(hours=1))
    sweep_jobs()
    assert reload_run(run).state == JobState.WAITING


def test_a_run_with_a_recent_heartbeat_is_left_alone(sent_tasks):
    run = create_running_run()
    sweep_jobs()
    assert reload_run(run).state == JobState.RUNNING and sent_tasks == []


def test_a_run_fails_with_the_reason_after_three_silent_attempts(silent_run, sent_tasks):
    run = silent_run(attempt=3)
    sweep_jobs()
    assert (
        reload_run(run).state == JobState.FAILED and "ended during the run, 3 times" in reload_run(run).error
    )


def test_a_silent_run_with_a_requested_cancellation_is_cancelled(silent_run, sent_tasks):
    run = silent_run(cancel_requested_at=timezone.now())
    sweep_jobs()
    assert reload_run(run).state == JobState.CANCELLED


def test_a_run_killed_for_exceeding_its_time_is_not_tried_again(settings, silent_run, sent_tasks):
    run = silent_run(started_at=timezone.now() - timedelta(seconds=settings.RUN_TIMEOUT_SECONDS + 130))
    sweep_jobs()
    assert reload_run(run).state == JobState.FAILED and "The run took longer than" in reload_run(run).error


def test_a_heartbeat_after_the_run_was_read_keeps_the_run_running(silent_run):
    run = silent_run()
    AnalysisRun.objects.filter(pk=run.pk).update(heartbeat_at=timezone.now())
    requeue_job(run, silent_since=run.heartbeat_at)
    assert reload_run(run).state == JobState.RUNNING


def test_a_recently_sent_run_is_not_sent_again(sent_tasks):
    create_waiting_run(sent_at=timezone.now())
    create_waiting_run(sent_at=timezone.now() - 2 * sweep.RESEND_AFTER)
    sweep_jobs()
    assert len(sent_tasks) == 1


def test_a_run_that_was_sent_before_the_clock_was_set_back_is_sent_again(sent_tasks):
    create_waiting_run(sent_at=timezone.now() + 2 * sweep.RESEND_AFTER)
    sweep_jobs()
    assert len(sent_tasks) == 1


def test_a_run_whose_java_process_dies_is_tried_again_and_then_fails(
    replace_computation, monkeypatch, settings
):
    def fail(progress):
        raise ConnectionRefusedError

    replace_computation(fail)
    monkeypatch.setattr("analytics.runs.failure.has_session_died", lambda: True)
    run = create_waiting_run()
    for attempt in range(1, settings.RUN_ATTEMPTS_MOST + 1):
        assert reload_run(run).state == JobState.WAITING
        run_job(run.pk)
        assert reload_run(run).attempt == attempt
    assert reload_run(run).state == JobState.FAILED
    assert "Java process ended during the run, 3 times" in reload_run(run).error


def test_a_run_whose_java_process_is_killed_at_the_start_is_tried_again_and_then_fails(
    replace_computation, settings
):
    def fail(progress):
        raise SparkKilled("killed")

    replace_computation(fail)
    run = create_waiting_run()
    for attempt in range(1, settings.RUN_ATTEMPTS_MOST + 1):
        assert reload_run(run).state == JobState.WAITING
        run_job(run.pk)
        assert reload_run(run).attempt == attempt
    assert reload_run(run).state == JobState.FAILED
    assert (
        "Java process ended while Spark started, 3 times in a row; the usual reason is that the machine ran out of memory"
        in (reload_run(run).error)
    )


def test_a_run_whose_java_process_ends_at_once_is_tried_again_and_then_fails_with_its_message(
    replace_computation, settings
):
    def fail(progress):
        raise SparkExited("Java ended at once")

    replace_computation(fail)
    settings.RUN_ATTEMPTS_MOST = 2
    run = create_waiting_run()
    run_job(run.pk)
    assert reload_run(run).state == JobState.WAITING
    run_job(run.pk)
    assert (reload_run(run).state, reload_run(run).error) == (JobState.FAILED, "Java ended at once")


def test_a_run_that_cannot_start_spark_for_another_reason_is_not_tried_again(replace_computation):
    def fail(progress):
        raise SparkUnavailable("Spark did not start with SPARK_MASTER local[2]: no such file")

    replace_computation(fail)
    run = create_waiting_run()
    run_job(run.pk)
    assert (reload_run(run).state, reload_run(run).attempt) == (JobState.FAILED, 1)


@pytest.mark.parametrize(
    ("master", "remedy"),
    [
        (
            "local[*]",
            "allow fewer parallel tasks with SPARK_MASTER (local[1]; now local[*]), lower SPARK_DRIVER_MEMORY (now 2g)",
        ),
        ("yarn", "Raise spark.executor.memoryOverhead"),
    ],
)
def test_a_run_whose_python_worker_dies_is_tried_again_and_then_fails(
    replace_computation, settings, master, remedy
):
    def fail(progress):
        raise RuntimeError(
            "Job aborted: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)"
        )

    replace_computation(fail)
    settings.SPARK_MASTER = master
    run = create_waiting_run()
    for attempt in range(1, settings.RUN_ATTEMPTS_MOST + 1):
        assert reload_run(run).state == JobState.WAITING
        run_job(run.pk)
        assert reload_run(run).attempt == attempt
    run = reload_run(run)
    assert run.state == JobState.FAILED and "was killed during the run, 3 times in a row" in run.error
    assert "ran out of memory" in run.error and remedy in run.error


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
