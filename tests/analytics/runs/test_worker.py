"""Test runs with a real Redis, Celery worker and Spark, also when these are killed."""

import os
import signal
import time
from pathlib import Path

import pytest

from analytics.models import AnalysisRun, RunStage, RunState
from analytics.results.query import ResultFilter
from analytics.results.read import result_page
from analytics.runs import selectors, services
from analytics.runs.presence import KEY, redis_client
from entities.address import parse_address
from grants.changes.services import change_grants
from tests.support.cast import SETUP
from tests.support.random_tenants import random_tenant, store_tenant
from tests.support.workers import descendants

pytestmark = [pytest.mark.worker, pytest.mark.spark, pytest.mark.slow, pytest.mark.django_db(transaction=True)]

PATIENCE_SECONDS = 240


@pytest.fixture(autouse=True)
def console(worker_console):
    """Use the Redis and the folder of the worker in every test."""


def request():
    return services.request_run(analysis="delete-readiness", options={"generation": "final"}, requested_by=None)


def wait_until(condition, what):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {PATIENCE_SECONDS} s: {what}"
        time.sleep(0.1)
    return value


def run_in(run, *states, stage=None, attempt=None):
    def expected_run():
        now = AnalysisRun.objects.get(pk=run.pk)
        assert now.state in states or now.state in (RunState.WAITING, RunState.RUNNING), f"{now} is {now.state}: {now.error}"
        return now if now.state in states and stage in (None, now.stage) and attempt in (None, now.attempt) else None

    return wait_until(expected_run, f"{run} in {states}, stage {stage}")


def java_processes(worker):
    return [pid for pid, name in descendants(worker.pid) if name == "java"]


def test_a_killed_worker_is_replaced_and_the_run_finishes_once(worker):
    store_tenant(random_tenant(3))
    run = run_in(request(), RunState.RUNNING, stage=RunStage.COMPUTING)
    assert selectors.run_waiting_reason(run) == ""
    java = java_processes(worker)[0]
    executing = int(Path(f"/proc/{java}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(executing, signal.SIGKILL)
    killed = time.monotonic()
    run_in(run, RunState.WAITING, RunState.RUNNING, attempt=2)
    # long before RUN_LOST_AFTER_SECONDS: the process is known to have ended
    assert time.monotonic() - killed < 30
    run = run_in(run, RunState.DONE)
    assert run.attempt == 2 and run.result_folder.endswith("-2")
    assert result_page(run).total_rows == run.summary["pairs"] > 0
    wait_until(lambda: not Path(f"/proc/{java}").exists(), "the killed process's Java process has ended")


def test_a_requested_run_creates_a_report(worker):
    store_tenant(random_tenant(3))
    run = run_in(request(), RunState.DONE)
    assert run.attempt == 1 and run.stage == RunStage.WRITING and run.tasks_done == run.tasks_total
    assert selectors.latest_run("delete-readiness").pk == run.pk
    page = result_page(run, sort="missing", descending=True, max_rows=3)
    assert page.total_rows == run.summary["pairs"] and len(page.rows) == 3
    assert page.rows[0]["missing"] == max(row["missing"] for row in page.rows)
    ready = result_page(run, where=ResultFilter(equal={"ready": True}))
    assert ready.total_rows == run.summary["pairs_ready"] and all(row["missing"] == 0 for row in ready.rows)
    assert result_page(run, "detail").total_rows == run.summary["detail_rows"]
    assert result_page(run, "namespaces").total_rows == run.summary["namespaces"]


def test_the_session_stays_warm_between_runs(worker):
    run_in(request(), RunState.DONE)
    java = java_processes(worker)
    run_in(request(), RunState.DONE)
    assert java_processes(worker) == java


def test_a_java_process_that_died_between_two_runs_is_replaced(worker):
    run_in(request(), RunState.DONE)
    for pid in java_processes(worker):
        os.kill(pid, signal.SIGKILL)
    assert run_in(request(), RunState.DONE).attempt == 1


def test_a_running_run_is_cancelled_and_the_next_one_runs(worker):
    run_in(request(), RunState.DONE)
    # Java sleeps until the cancellation is stored, so that the run cannot end before
    (java,) = java_processes(worker)
    os.kill(java, signal.SIGSTOP)
    try:
        run = run_in(request(), RunState.RUNNING)
        services.cancel_run(run=run)
    finally:
        os.kill(java, signal.SIGCONT)
    assert run_in(run, RunState.CANCELLED).error == ""
    run_in(request(), RunState.DONE)


def test_a_run_reports_the_changes_since_the_previous_run(worker):
    store_tenant(random_tenant(3))
    first = run_in(request(), RunState.DONE)
    assert "changes" not in first.summary
    same = run_in(request(), RunState.DONE)
    assert same.summary["changes"] == {"run": first.pk, "revision": first.revision, "added": 0, "removed": 0, "changed": 0}
    row = result_page(same, where=ResultFilter(equal={"ready": False}), max_rows=1).rows[0]
    lacked = result_page(same, "detail", where=ResultFilter(equal={"namespace": row["namespace"], "user": row["user"]}))
    change_grants(author=SETUP, grant=[(f"user:{row['user']}", parse_address(pair["entity"]), "ADMIN") for pair in lacked.rows])
    third = run_in(request(), RunState.DONE)
    assert third.summary["changes"]["changed"] >= 1 and third.summary["changes"]["run"] == same.pk
    (changed,) = result_page(third, "changes", where=ResultFilter(
        equal={"namespace": row["namespace"], "user": row["user"]})).rows
    assert (changed["ready_before"], changed["ready_after"], changed["missing_after"]) == (False, True, 0)


def test_the_worker_reports_that_it_is_running(worker):
    with redis_client() as client:
        wait_until(lambda: client.exists(KEY), "the worker's presence in Redis")
        assert 0 < client.ttl(KEY) <= 10
