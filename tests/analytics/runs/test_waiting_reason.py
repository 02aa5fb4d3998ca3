"""The reason why a waiting run does not run yet: Redis, the worker, or another run.

It never contains the Redis password.
"""

import pytest
import redis

from analytics.models import AnalysisRun
from analytics.runs.selectors import run_waiting_reason
from authzconsole.ops.address import free_port
from grants.jobs.queue import presence_key, redis_client
from grants.models import JobState
from tests.support.runs import create_running_run, create_waiting_run
from tests.support.workers import run_redis

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_reason_names_the_address_of_a_missing_redis_without_the_password(settings):
    port = free_port()
    settings.REDIS_URL = f"redis://:opensesame@127.0.0.1:{port}/0"
    reason = run_waiting_reason(create_waiting_run())
    assert f"Redis does not answer at redis://127.0.0.1:{port}/0" in reason and "opensesame" not in reason


@pytest.mark.parametrize(
    "url",
    [
        "redis://:opensesame@127.0.0.1:1/0",
        "redis://name:opensesame@127.0.0.1:1",
        "redis://127.0.0.1:1/0?password=opensesame",
        "redis://127.0.0.1:1/0?password=a@opensesame",
        "redis://:geh#opensesame@127.0.0.1:1/0",
        "redis://:1#opensesame@127.0.0.1:1/0",
        "redis://:a/opensesame@127.0.0.1:1/0",
        "redis://:a?opensesame@127.0.0.1:1/0",
        "rediss://:opensesame@[::1]:1/0",
        "redis://opensesame#@x:1",
    ],
)
def test_the_reason_does_not_contain_the_password_of_any_form_of_redis_url(settings, url):
    settings.REDIS_URL = url
    reason = run_waiting_reason(create_waiting_run())
    assert reason.startswith("Redis does not answer at ") and "opensesame" not in reason


def test_the_reason_does_not_contain_a_wrong_redis_password(settings, tmp_path):
    port = free_port()
    with run_redis(port, tmp_path), redis.Redis(port=port) as client:
        client.config_set("requirepass", "swordfish")
        settings.REDIS_URL = f"redis://:opensesame@127.0.0.1:{port}/0"
        reason = run_waiting_reason(create_waiting_run())
    assert "does not answer" in reason and "opensesame" not in reason and "swordfish" not in reason


def test_the_reason_is_a_missing_worker_then_the_run_before_it_then_none(settings, redis_server):
    settings.REDIS_URL = redis_server
    run = create_waiting_run()
    with redis_client() as client:
        client.delete(presence_key("runs"))
        assert "No worker is running" in run_waiting_reason(run)
        client.set(presence_key("runs"), "1", ex=10)
        earlier = create_running_run()
        assert f"busy with run {earlier.pk}" in run_waiting_reason(run)
        AnalysisRun.objects.filter(pk=earlier.pk).update(state=JobState.DONE)
        assert run_waiting_reason(run) == "It starts within seconds."
        client.delete(presence_key("runs"))
    assert run_waiting_reason(earlier) == ""
