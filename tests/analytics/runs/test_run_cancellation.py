"""Cancelled runs, runs that exceed their time, and the watch thread that ends them. Spark is replaced."""

import threading
from datetime import timedelta

import pytest
from django.db import connections
from django.utils import timezone

from analytics.interrupts import interrupt_queries, interruptible_database
from analytics.models import AnalysisRun
from analytics.results.database import translate_read_errors
from analytics.runs import services
from grants.jobs import JobCancelled, JobContext, JobLost, run_job
from grants.jobs.lifecycle import requeue_job, timeout_message
from grants.models import JobState
from tests.support.runs import create_running_run, create_waiting_run, reload_run

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("storage_folder")]


def test_a_waiting_run_is_cancelled_at_once(replace_computation):
    computed_folders = replace_computation()
    run = create_waiting_run()
    assert services.cancel_run(run=run)
    run_job(run.pk)
    assert reload_run(run).state == JobState.CANCELLED and computed_folders == []
    assert not services.cancel_run(run=reload_run(run))


@pytest.mark.parametrize("error", [None, RuntimeError("Job 3 cancelled part of cancelled job group")])
def test_a_running_run_is_cancelled_at_its_next_step_whatever_error_spark_raises(replace_computation, error):
    def cancel_during_computation(progress):
        assert services.cancel_run(run=run)
        progress.context._poll()
        if error:
            raise error
        progress.check()

    replace_computation(cancel_during_computation)
    run = create_waiting_run()
    run_job(run.pk)
    assert reload_run(run).state == JobState.CANCELLED and reload_run(run).error == ""


@pytest.mark.slow
def test_a_run_that_is_cancelled_while_it_is_requeued_ends_cancelled(sent_tasks):
    """Try 25 interleavings. A run that is claimed at the same time ends at its first step."""
    for _ in range(25):
        run, ready = create_running_run(), threading.Barrier(2)

        def requeue(run=run, ready=ready):
            ready.wait()
            requeue_job(run)
            connections.close_all()

        thread = threading.Thread(target=requeue)
        thread.start()
        ready.wait()
        assert services.cancel_run(run=run)
        thread.join()
        run_job(run.pk)
        assert reload_run(run).state == JobState.CANCELLED


def test_a_run_that_exceeds_its_time_is_stopped_and_fails_with_a_message(replace_computation, settings):
    settings.RUN_TIMEOUT_SECONDS = 0

    def exceed_the_timeout(progress):
        progress.context._poll()
        progress.check()

    replace_computation(exceed_the_timeout)
    run = create_waiting_run()
    run_job(run.pk)
    assert (reload_run(run).state, reload_run(run).error) == (
        JobState.FAILED,
        "The run took longer than 0 s and was stopped. Set RUN_TIMEOUT_SECONDS to allow more time.",
    )


def test_on_a_cluster_the_timeout_message_names_the_master(settings):
    settings.SPARK_MASTER = "spark://far:7077"
    assert timeout_message(AnalysisRun(type="stranded")).endswith(
        "SPARK_MASTER is spark://far:7077: check whether it has free workers."
    )


def test_the_watch_updates_the_heartbeat_and_knows_why_the_run_ends():
    run = create_running_run(heartbeat_at=timezone.now() - timedelta(hours=1))
    watch = JobContext(run)
    watch._poll()
    assert timezone.now() - reload_run(run).heartbeat_at < timedelta(minutes=1) and watch.ending is None
    services.cancel_run(run=run)
    watch._poll()
    assert isinstance(watch.ending, JobCancelled)
    AnalysisRun.objects.filter(pk=run.pk).update(claim="another")
    watch._poll()
    assert isinstance(watch.ending, JobLost)


@pytest.mark.parametrize("ending", ["cancellation", "time limit"])
def test_a_query_of_duckdb_is_interrupted(replace_computation, monkeypatch, settings, ending):
    """Without the interruption, the query takes hours."""
    monkeypatch.setattr("grants.jobs.execution.POLL_SECONDS", 0.05)
    settings.RUN_TIMEOUT_SECONDS = 3_600 if ending == "cancellation" else 0

    def query_for_hours(progress):
        if ending == "cancellation":
            services.cancel_run(run=run)
        with translate_read_errors(), interruptible_database({}) as database:
            database.execute(
                "SELECT count(*) FROM range(1000000000000) AS rows(number) WHERE number % 7 = 3"
            ).fetchall()

    replace_computation(query_for_hours)
    run = create_waiting_run()
    run_job(run.pk)
    assert reload_run(run).state == (JobState.CANCELLED if ending == "cancellation" else JobState.FAILED)
    assert ending == "cancellation" or "The run took longer than" in reload_run(run).error


def test_a_run_that_is_cancelled_during_the_comparison_has_no_report(replace_computation, monkeypatch):
    """A failed comparison alone does not end a run, but the interrupted query of a cancelled run does."""

    def interrupt_comparison(run, folder, *, check):
        services.cancel_run(run=run)
        for _ in range(200):
            if watches[0].context.ending is not None:
                break
            threading.Event().wait(0.05)
        return {"comparison_fault": {"run": 1, "reason": "interrupted"}}

    watches = []
    monkeypatch.setattr("grants.jobs.execution.POLL_SECONDS", 0.05)
    replace_computation(watches.append)
    monkeypatch.setattr("analytics.runs.execution.compare_with_previous", interrupt_comparison)
    run = create_waiting_run()
    run_job(run.pk)
    assert (reload_run(run).state, reload_run(run).result_path) == (JobState.CANCELLED, "")


def test_an_interruption_ends_the_queries_of_one_thread_only():
    with interruptible_database({}) as database:
        interrupt_queries(threading.get_ident() + 1)
        interrupt_queries(threading.get_ident())
        assert database.execute("SELECT 1").fetchall() == [(1,)]
    interrupt_queries(threading.get_ident())


def test_the_watch_thread_updates_the_heartbeat_and_ends_with_the_run(monkeypatch):
    monkeypatch.setattr("grants.jobs.execution.POLL_SECONDS", 0.05)
    run = create_running_run(heartbeat_at=timezone.now() - timedelta(hours=1))
    with JobContext(run) as watch:
        for _ in range(100):
            watch._stop.wait(0.05)
            if timezone.now() - reload_run(run).heartbeat_at < timedelta(minutes=1):
                break
    assert timezone.now() - reload_run(run).heartbeat_at < timedelta(minutes=1)
    assert not watch._thread.is_alive()
