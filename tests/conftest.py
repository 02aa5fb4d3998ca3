import gc
import os
from pathlib import Path

import celery
import pytest
from django.core.cache import caches

from authzconsole.celery import app
from authzconsole.ops.address import free_port
from entities.address import address_of, parse_address
from entities.kinds_file import register_kinds
from entities.vocabulary import KINDS
from tests.passes import WITHOUT_ONE_PASS, add_marks, has_one_pass
from tests.support.cast import create_sample_tenant
from tests.support.migrated_database import copy_template, save_template
from tests.support.workers import run_celery_worker, run_redis

# Spark's Java processes live for minutes at most: optimized machine code takes longer to compile than it
# saves.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark the tests, and remember those that no pass or too many passes run.

    It must happen before pytest deselects the tests of other passes.
    """
    for item in items:
        add_marks(item)
    config.stash[WITHOUT_ONE_PASS] = [item.nodeid for item in items if not has_one_pass(item)]


def pytest_collection_finish(session):
    """Exclude the modules and thousands of collected tests from garbage collection: it would take a fifth of
    the CPU time.
    """
    gc.collect()
    gc.freeze()


def pytest_sessionfinish(session):
    gc.unfreeze()


@pytest.fixture(scope="session")
def django_db_keepdb(django_db_modify_db_settings):
    return copy_template()


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup, django_db_keepdb, django_db_blocker):
    if not django_db_keepdb:
        with django_db_blocker.unblock():
            save_template()


@pytest.fixture(autouse=True)
def clear_caches():
    """Clear the login throttle and the cached counts, so that tests do not affect each other."""
    for name in ("default", "shared", "counts"):
        caches[name].clear()


@pytest.fixture(autouse=True)
def jobs_in_transactions(request, monkeypatch):
    """Write no heartbeats in tests that roll their transaction back: the thread of a job cannot see it."""
    marker = request.node.get_closest_marker("django_db")
    if marker is None or not marker.kwargs.get("transaction"):
        monkeypatch.setattr("grants.jobs.execution.POLL_SECONDS", 3_600)


@pytest.fixture
def cast(db):
    """Create the sample tenant, and return its users by name."""
    return create_sample_tenant()


@pytest.fixture
def sent_tasks(monkeypatch):
    """Return the tasks sent to the worker, as (task name, run number). Redis always answers."""
    tasks = []
    monkeypatch.setattr("grants.jobs.queue.redis_problem", lambda: "")
    monkeypatch.setattr(
        celery.current_app, "send_task", lambda name, args, **options: tasks.append((name, *args))
    )
    return tasks


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory):
    """Yield the URL of a Redis server that runs for the whole test session."""
    port = free_port()
    with run_redis(port, tmp_path_factory.mktemp("redis")):
        yield f"redis://127.0.0.1:{port}/0"


@pytest.fixture(scope="session")
def stop_spark_at_the_end():
    from analytics.spark.session import stop_spark

    yield
    stop_spark()


@pytest.fixture
def spark(stop_spark_at_the_end):
    """The one Spark session of the tests; analyses that run in this process use it too. A session that died is
    replaced.
    """
    from analytics.spark.session import spark_session

    return spark_session(master="local[2]", memory="2g")


@pytest.fixture(scope="module")
def worker_place(tmp_path_factory):
    return tmp_path_factory.mktemp("worker")


@pytest.fixture(scope="module")
def worker(redis_server, django_db_setup, worker_place):
    """The process of a Celery worker on the test database."""
    with run_celery_worker(worker_place, redis_server) as process:
        yield process


@pytest.fixture
def worker_console(worker, redis_server, settings, worker_place, monkeypatch):
    """Let this process use the Redis and the folder of the worker, as the web process does."""
    settings.REDIS_URL = redis_server
    settings.SNAPSHOT_URI = str(worker_place / "snapshots")
    monkeypatch.setattr(app.conf, "broker_url", redis_server)


@pytest.fixture
def own_kinds():
    """The kinds of the certification's fixture and one in each container, for this test only."""
    before = dict(KINDS)
    register_kinds(Path(__file__).parent / "cases" / "own_kinds.toml")
    yield
    KINDS.clear()
    KINDS.update(before)
    parse_address.cache_clear()
    address_of.cache_clear()
