"""Redis restarts during a run and loses all its data."""

import pytest

from analytics.stages import RunStage
from authzconsole.celery import app
from authzconsole.ops.address import free_port
from grants.models import JobState
from tests.analytics.runs.test_worker import request, wait_for_run
from tests.support.random_tenants import random_tenant, store_tenant
from tests.support.workers import run_celery_worker, run_redis

pytestmark = [
    pytest.mark.worker,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
]


def test_a_redis_restart_loses_no_run_and_executes_none_twice(settings, tmp_path, monkeypatch):
    port = free_port()
    settings.REDIS_URL, settings.SNAPSHOT_URI = f"redis://127.0.0.1:{port}/0", str(tmp_path / "snapshots")
    monkeypatch.setattr(app.conf, "broker_url", settings.REDIS_URL)
    store_tenant(random_tenant(3))
    with run_redis(port, tmp_path) as first_redis, run_celery_worker(tmp_path, settings.REDIS_URL):
        running = wait_for_run(request(), JobState.RUNNING, stage=RunStage.COMPUTING)
        sent = request()
        first_redis.kill()
        first_redis.wait()
        unsent = request()
        with run_redis(port, tmp_path):
            finished = [wait_for_run(run, JobState.DONE) for run in (running, sent, unsent)]
    assert [run.attempt for run in finished] == [1, 1, 1]
