"""Runs while PostgreSQL ends connections and while SQLite is locked, with the real databases."""

import sqlite3
import threading
import time
from contextlib import ExitStack, closing, contextmanager
from datetime import timedelta

import pytest
from django.db import OperationalError, connection, connections
from django.utils import timezone

from analytics.models import AnalysisRun
from analytics.runs import services
from analytics.stages import RunStage
from grants.jobs import JobContext, database_retry, run_job, sweep
from grants.jobs.database_retry import retry_database
from grants.jobs.lifecycle import claim_job, close_job, new_claim
from grants.models import JobState
from tests.support.runs import create_running_run, create_waiting_run, reload_run

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("storage_folder")]

only_sqlite = pytest.mark.skipif(
    connection.vendor != "sqlite", reason="SQLite has a lock for the whole database"
)
only_postgresql = pytest.mark.skipif(
    connection.vendor != "postgresql", reason="the other database has no connections to lose"
)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    """Shorten every wait, so that a fault of a second takes longer than all of them."""
    monkeypatch.setattr("grants.jobs.execution.POLL_SECONDS", 0.05)
    monkeypatch.setattr("grants.jobs.execution.LOCK_MILLISECONDS", 50)
    monkeypatch.setattr(database_retry, "PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(sweep, "CONFIRM_SECONDS", 0.5)
    if connection.vendor == "sqlite":
        monkeypatch.setitem(connection.settings_dict["OPTIONS"], "timeout", 0.1)
        connection.close()
        yield
        connection.close()
    else:
        yield


@contextmanager
def sqlite_lock(seconds):
    """Hold SQLite's write lock for some seconds, beginning when the block is entered."""
    is_locked = threading.Event()

    def hold():
        with closing(sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            is_locked.set()
            time.sleep(seconds)
            other.execute("ROLLBACK")

    thread = threading.Thread(target=hold)
    thread.start()
    assert is_locked.wait(5)
    try:
        yield
    finally:
        thread.join()


@contextmanager
def ended_connections(every_seconds):
    """End all other connections to the database again and again, and yield a list with their number each
    time.
    """
    is_over, ended = threading.Event(), []

    def end_connections():
        statement = (
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        while not is_over.wait(every_seconds):
            with connections["default"].cursor() as cursor:
                cursor.execute(statement)
                ended.append(cursor.fetchone()[0])
        connections.close_all()

    thread = threading.Thread(target=end_connections)
    thread.start()
    try:
        yield ended
    finally:
        is_over.set()
        thread.join()
        connection.close()


def wait_until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@only_sqlite
def test_a_run_finishes_at_its_first_attempt_while_sqlite_is_locked(replace_computation, sent_tasks):
    """Every write meets the lock: the claim, the stages, the heartbeats and the end."""

    def work_under_locks(progress):
        with sqlite_lock(0.5):
            progress.begin_stage(RunStage.WRITING)
        locks.enter_context(sqlite_lock(0.5))

    replace_computation(work_under_locks)
    run = create_waiting_run()
    with ExitStack() as locks:
        with sqlite_lock(0.5):
            run_job(run.pk)
    run = reload_run(run)
    assert (run.state, run.attempt, run.error) == (JobState.DONE, 1, "")


@only_postgresql
def test_a_run_finishes_at_its_first_attempt_while_postgresql_ends_connections(replace_computation):
    def work_in_stages(progress):
        for stage in [*RunStage] * 3:
            progress.begin_stage(stage)
            time.sleep(0.1)

    replace_computation(work_in_stages)
    run = create_waiting_run()
    with ended_connections(0.15) as ended:
        run_job(run.pk)
    assert (reload_run(run).state, reload_run(run).attempt) == (JobState.DONE, 1)
    assert sum(ended) > 5


@only_postgresql
def test_the_watch_connects_again_and_notices_a_cancellation(replace_computation):
    def wait_for_the_end(progress):
        first = reload_run(run).heartbeat_at
        # now the watch has a connection that it can lose
        wait_until(lambda: reload_run(run).heartbeat_at > first)
        with connections["default"].cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        last = reload_run(run).heartbeat_at
        wait_until(lambda: reload_run(run).heartbeat_at > last)
        services.cancel_run(run=run)
        wait_until(lambda: progress.context.ending is not None)
        progress.check()

    replace_computation(wait_for_the_end)
    run = create_waiting_run()
    run_job(run.pk)
    assert reload_run(run).state == JobState.CANCELLED


@only_sqlite
def test_the_time_limit_ends_a_run_that_waits_for_the_database(replace_computation, settings):
    settings.RUN_TIMEOUT_SECONDS = 0

    def wait_for_the_lock(progress):
        with sqlite_lock(0.5):
            waiting.append(time.monotonic())
            try:
                progress.begin_stage(RunStage.WRITING)
            finally:
                waiting.append(time.monotonic())

    waiting = []
    replace_computation(wait_for_the_lock)
    run = create_waiting_run()
    run_job(run.pk)
    assert reload_run(run).state == JobState.FAILED and "The run took longer than" in reload_run(run).error
    assert waiting == [] or waiting[1] - waiting[0] < 0.4


@only_sqlite
def test_the_sweep_after_a_lock_leaves_a_living_run_to_its_process(settings, sent_tasks, monkeypatch):
    """All heartbeats are old after the lock.

    The sweep that waited for it gives living processes time for the next one.
    """
    old = timezone.now() - timedelta(seconds=settings.RUN_LOST_AFTER_SECONDS + 1)
    living, dead = create_running_run(claim="living"), create_running_run(claim="dead", heartbeat_at=old)
    monkeypatch.setitem(connection.settings_dict["OPTIONS"], "timeout", 30)
    connection.close()
    # the sweep gets the lock before the next heartbeat
    monkeypatch.setattr("grants.jobs.execution.POLL_SECONDS", 0.4)
    monkeypatch.setattr(sweep, "CONFIRM_SECONDS", 1)
    with JobContext(living):
        wait_until(lambda: reload_run(living).heartbeat_at > living.heartbeat_at)
        with sqlite_lock(0.5):
            # a reader sees the heartbeat of before the lock
            settings.RUN_LOST_AFTER_SECONDS = 0
            sweep.requeue_lost_jobs()
    assert (reload_run(living).state, reload_run(dead).state) == (JobState.RUNNING, JobState.WAITING)


def test_a_repeated_claim_and_a_repeated_end_are_recognized():
    """A lost connection can hide that the first statement was committed."""
    run, claim = create_waiting_run(), new_claim()
    first, second = claim_job(run.pk, claim), claim_job(run.pk, claim)
    assert (first.claim, first.attempt) == (second.claim, second.attempt) == (claim, 1)
    assert claim_job(run.pk, new_claim()) is None
    assert close_job(first, JobState.DONE) and close_job(first, JobState.DONE)
    assert not close_job(first, JobState.FAILED) and reload_run(run).state == JobState.DONE


def test_a_permanent_error_is_not_repeated():
    calls = []

    def work():
        calls.append(1)
        raise OperationalError("no such column: x") if connection.vendor == "sqlite" else ValueError

    with pytest.raises((OperationalError, ValueError)):
        retry_database(work)
    assert len(calls) == 1


def test_the_repetitions_end(monkeypatch):
    def work():
        raise OperationalError("database is locked")

    monkeypatch.setattr(database_retry, "PATIENCE_SECONDS", 0.2)
    with pytest.raises(OperationalError):
        retry_database(work)
    assert AnalysisRun.objects.count() == 0
