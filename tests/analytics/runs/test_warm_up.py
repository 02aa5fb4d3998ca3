"""The worker of the runs starts Spark with itself."""

from pathlib import Path

import pytest
from django.conf import settings

from analytics.runs import execution
from grants.models import JobState
from tests.analytics.runs.test_worker import java_processes, request, wait_for_run, wait_until
from tests.support.random_tenants import random_tenant, store_tenant
from tests.support.workers import run_celery_worker

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.django_db(transaction=True)]


def report_folders() -> list[Path]:
    return list(Path(settings.SNAPSHOT_URI).glob("results/*/*"))


@pytest.fixture
def worker(redis_server, worker_place, monkeypatch):
    """The process of a worker that starts Spark early."""
    monkeypatch.setenv("SPARK_STARTS_EARLY", "on")
    store_tenant(random_tenant(3))
    with run_celery_worker(worker_place, redis_server) as process:
        yield process


@pytest.mark.worker
def test_a_worker_starts_spark_and_discards_the_report_of_the_warm_up(worker, worker_console, worker_place):
    log = worker_place / "runs.log"
    wait_until(
        lambda: "analytics.warm_up_spark" in log.read_text() and "succeeded" in log.read_text(), "warm-up"
    )
    java = java_processes(worker)
    assert len(java) == 1 and report_folders() == []
    run = wait_for_run(request(), JobState.DONE)
    assert java_processes(worker) == java and [folder.name for folder in report_folders()] == [
        Path(run.result_path).name
    ]


@pytest.mark.parametrize(("most_entities", "snapshots"), [(0, 0), (20_000, 1)])
def test_a_warm_up_analyzes_small_tenants_only(
    spark, settings, tmp_path, monkeypatch, most_entities, snapshots
):
    settings.SNAPSHOT_URI = str(tmp_path)
    monkeypatch.setattr(execution, "WARM_UP_ENTITIES_MOST", most_entities)
    store_tenant(random_tenant(3))
    execution.warm_up_spark()
    assert len(list(tmp_path.rglob("revision=*"))) == snapshots
    assert report_folders() == []
