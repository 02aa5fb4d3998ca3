"""Test runs with a real Redis, Celery worker and Spark, also when these are killed."""

import os
import signal
import time
from pathlib import Path

import pytest
from django.conf import settings
from django.utils import timezone

from analytics.models import AnalysisRun
from analytics.results.query import ResultFilter
from analytics.results.read import result_page
from analytics.runs import selectors, services
from analytics.stages import RunStage
from authzconsole.celery import app
from grants.jobs.processes import this_process
from grants.jobs.queue import presence_key, redis_client
from grants.models import JobState
from tests.support.random_tenants import random_tenant, store_tenant
from tests.support.runs import create_running_run, reload_run
from tests.support.workers import descendants

pytestmark = [
    pytest.mark.worker,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
]

PATIENCE_SECONDS = 240


@pytest.fixture(autouse=True)
def console(worker_console):
    """Use the Redis and the folder of the worker in every test."""


def request():
    return services.request_run(
        analysis="delete-readiness", options={"generation": "final"}, requested_by=None
    )


def wait_until(condition, what):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {PATIENCE_SECONDS} s: {what}"
        time.sleep(0.1)
    return value


def wait_for_run(run, *states, stage=None, attempt=None):
    def expected_run():
        current = AnalysisRun.objects.get(pk=run.pk)
        assert current.state in (*states, JobState.WAITING, JobState.RUNNING), (
            f"{current} is {current.state}: {current.error}"
        )
        is_expected = (
            current.state in states and stage in (None, current.stage) and attempt in (None, current.attempt)
        )
        return current if is_expected else None

    return wait_until(expected_run, f"{run} in {states}, stage {stage}")


def java_processes(worker):
    return [pid for pid, name in descendants(worker.pid) if name == "java"]


def test_a_killed_worker_is_replaced_and_the_run_finishes_once(worker):
    store_tenant(random_tenant(3))
    run = wait_for_run(request(), JobState.RUNNING, stage=RunStage.COMPUTING)
    assert selectors.run_waiting_reason(run) == ""
    java = java_processes(worker)[0]
    worker_process = int(Path(f"/proc/{java}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(worker_process, signal.SIGKILL)
    killed_at = time.monotonic()
    wait_for_run(run, JobState.WAITING, JobState.RUNNING, attempt=2)
    # long before RUN_LOST_AFTER_SECONDS, because the sweep detects that the process has ended
    assert time.monotonic() - killed_at < 30
    run = wait_for_run(run, JobState.DONE)
    assert run.attempt == 2 and run.result_path.endswith("-2")
    assert result_page(run).total_rows == run.summary["pairs"] > 0
    wait_until(lambda: not Path(f"/proc/{java}").exists(), "the killed process's Java process has ended")
    files = list(Path(settings.SNAPSHOT_URI).rglob("*"))
    assert len(files) > 10 and [path for path in files if path.exists() and path.stat().st_mode & 0o077] == []


def test_a_requested_run_creates_a_report(worker):
    store_tenant(random_tenant(3))
    run = wait_for_run(request(), JobState.DONE)
    assert run.attempt == 1 and run.stage == RunStage.WRITING and run.steps_done == run.steps_total
    assert selectors.latest_run("delete-readiness").pk == run.pk
    page = result_page(run, sort="missing", descending=True, max_rows=3)
    assert page.total_rows == run.summary["pairs"] and len(page.rows) == 3
    assert page.rows[0]["missing"] == max(row["missing"] for row in page.rows)
    ready = result_page(run, where=ResultFilter(equal={"ready": True}))
    assert ready.total_rows == run.summary["pairs_ready"] and all(row["missing"] == 0 for row in ready.rows)
    assert result_page(run, "detail").total_rows == run.summary["detail_rows"]
    assert result_page(run, "namespaces").total_rows == run.summary["namespaces"]


def test_the_spark_session_is_reused_by_the_next_run(worker):
    wait_for_run(request(), JobState.DONE)
    java = java_processes(worker)
    wait_for_run(request(), JobState.DONE)
    assert java_processes(worker) == java


def test_a_java_process_that_died_between_two_runs_is_replaced(worker):
    wait_for_run(request(), JobState.DONE)
    for pid in java_processes(worker):
        os.kill(pid, signal.SIGKILL)
    assert wait_for_run(request(), JobState.DONE).attempt == 1


def test_a_running_run_is_cancelled_and_the_next_one_runs(worker):
    wait_for_run(request(), JobState.DONE)
    # Java is stopped until the cancellation is stored, so the run cannot finish before
    (java,) = java_processes(worker)
    os.kill(java, signal.SIGSTOP)
    try:
        run = wait_for_run(request(), JobState.RUNNING)
        services.cancel_run(run=run)
    finally:
        os.kill(java, signal.SIGCONT)
    assert wait_for_run(run, JobState.CANCELLED).error == ""
    wait_for_run(request(), JobState.DONE)


def test_a_run_reports_the_changes_since_the_previous_run(worker):
    store_tenant(random_tenant(3))
    first = wait_for_run(request(), JobState.DONE)
    assert "changes" not in first.summary
    same = wait_for_run(request(), JobState.DONE)
    assert same.summary["changes"] == {
        "run": first.pk,
        "revision": first.revision,
        "added": 0,
        "removed": 0,
        "changed": 0,
    }


def test_the_sweep_does_not_wait_for_the_run_of_the_only_worker(worker):
    wait_for_run(request(), JobState.DONE)
    (java,) = java_processes(worker)
    os.kill(java, signal.SIGSTOP)
    try:
        busy = wait_for_run(request(), JobState.RUNNING)
        lost = create_running_run(
            process=f"{this_process().rpartition('/')[0]}/0", cancel_requested_at=timezone.now()
        )
        wait_until(lambda: reload_run(lost).state == JobState.CANCELLED, "the sweep has found the lost run")
        assert reload_run(busy).state == JobState.RUNNING
    finally:
        os.kill(java, signal.SIGCONT)
    wait_for_run(busy, JobState.DONE)


@pytest.mark.parametrize("queue", ["runs", "light"])
def test_the_worker_of_each_queue_reports_that_it_is_running(worker, queue):
    with redis_client() as client:
        wait_until(lambda: client.exists(presence_key(queue)), "the worker's presence in Redis")
        assert 0 < client.ttl(presence_key(queue)) <= 10


def test_a_worker_ignores_remote_control_commands(worker):
    wait_for_run(request(), JobState.DONE)
    with app.connection_for_write() as connection:
        assert app.control.ping(timeout=2, connection=connection) == []
        app.control.shutdown(connection=connection)
    assert wait_for_run(request(), JobState.DONE).attempt == 1 and worker.poll() is None
