"""Readiness and metrics: each failed part is named, nothing hangs, and only monitoring systems read details."""

import threading
import time

import pytest
from django.db import OperationalError
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from analytics.models import AnalysisRun
from analytics.runs.beat import Scheduler
from authzconsole.api.token_fast_path import TokenFastPath
from authzconsole.common.monitoring import readiness as checks
from authzconsole.common.security_events.record import EventKind, record_event
from authzconsole.models import SecurityEvent, SecurityEventTarget
from grants.jobs import queue
from tests.support.changes import issue_token

TOKEN = "a token of twenty characters"


@pytest.fixture(autouse=True)
def fresh_checks(monkeypatch):
    monkeypatch.setattr(checks, "_last", (-checks.KEPT_SECONDS, []))
    monkeypatch.setattr(checks._Migrations, "checked_at", -checks.MIGRATIONS_KEPT_SECONDS)


@pytest.fixture
def redis_with_all(redis_server, settings):
    settings.REDIS_URL = redis_server
    with queue.redis_client() as client:
        for name in settings.CELERY_TASK_QUEUES:
            client.set(queue.presence_key(name), "1", ex=60)
    queue.announce_scheduler()
    with queue.redis_client() as client:
        yield client
        client.flushdb()


def ready(client=None):
    response = (client or Client()).get("/readyz")
    return response.status_code, {name: check["status"] for name, check in response.json()["checks"].items()}


ALL = ("database", "migrations", "redis", "worker", "scheduler", "disk")


@pytest.mark.django_db
def test_a_complete_console_is_ready(redis_with_all):
    assert ready() == (200, dict.fromkeys(ALL, "ok"))


@pytest.mark.django_db
def test_each_missing_part_is_named(redis_with_all, settings, monkeypatch):
    def failed_parts():
        monkeypatch.setattr(checks, "_last", (-checks.KEPT_SECONDS, []))
        status, parts = ready()
        return status, {name for name, state in parts.items() if state == "failed"}

    redis_with_all.delete(queue.SCHEDULER_KEY)
    assert failed_parts() == (503, {"scheduler"})
    redis_with_all.delete(queue.presence_key(settings.LIGHT_QUEUE))
    assert failed_parts() == (503, {"scheduler", "worker"})
    settings.DISK_FREE_MIN_MB = 10**12
    assert failed_parts() == (503, {"scheduler", "worker", "disk"})
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert failed_parts() == (503, {"redis", "scheduler", "worker", "disk"})


@pytest.mark.django_db(transaction=True)
def test_a_missing_migration_is_named(redis_with_all):
    row = MigrationRecorder.Migration.objects.filter(app="authzconsole").order_by("-name")[0]
    row.delete()
    try:
        assert [name for name, state in ready()[1].items() if state == "failed"] == ["migrations"]
    finally:
        MigrationRecorder.Migration.objects.create(app=row.app, name=row.name, applied=row.applied)


def test_a_broken_and_a_hanging_database_are_reported_in_time(monkeypatch, settings):
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    monkeypatch.setattr(checks, "TIMEOUT_SECONDS", 0.1)
    release = threading.Event()
    for function in (lambda: release.wait(5), None):

        def fail(function=function):
            if function:
                function()
            raise OperationalError("could not connect to db.internal")

        check = checks._Check(("database", "migrations"), fail)
        monkeypatch.setattr(checks, "_CHECKS", (check, *checks._CHECKS[1:]))
        monkeypatch.setattr(checks, "_last", (-checks.KEPT_SECONDS, []))
        start = time.monotonic()
        response = Client().get("/readyz")
        assert response.status_code == 503 and time.monotonic() - start < 1.5
        assert (
            response.json()["checks"]["database"]["status"] == "failed"
            and "db.internal" not in response.content.decode()
        )
        release.set()


@pytest.mark.django_db
def test_many_requests_cause_one_check(redis_with_all, monkeypatch):
    calls = []
    monkeypatch.setattr(
        checks, "_CHECKS", (checks._Check(("disk",), lambda: calls.append(1) or checks._check_disk()),)
    )
    for _ in range(50):
        assert Client().get("/readyz").status_code == 200
    assert len(calls) == 1


@pytest.mark.parametrize(
    "headers",
    [
        {"REMOTE_ADDR": "192.0.2.7"},
        {"HTTP_X_FORWARDED_FOR": "192.0.2.7"},
        {"HTTP_FORWARDED": "for=192.0.2.7"},
        {"authzconsole.is_forwarded": True},
        {"HTTP_AUTHORIZATION": "Bearer wrong"},
        {"REMOTE_ADDR": "unix"},
        {"HTTP_AUTHORIZATION": f"Basic {TOKEN}", "REMOTE_ADDR": "192.0.2.7"},
        {"REMOTE_ADDR": "::ffff:192.0.2.7"},
        {"HTTP_HOST": "evil.example"},
        {"HTTP_HOST": "127.0.0.1.evil.example:8000"},
        {"HTTP_HOST": "[x]"},
        {"HTTP_HOST": "localhost.evil.example"},
    ],
)
def test_other_callers_get_no_details_and_no_metrics(headers, settings, monkeypatch):
    settings.METRICS_TOKEN = TOKEN
    monkeypatch.setattr(checks, "_CHECKS", (checks._Check(("disk",), checks._check_disk),))
    client = Client(**headers)
    response = client.get("/readyz")
    assert (response.status_code, response.content, response["Cache-Control"]) == (
        200,
        b"ready\n",
        "no-store",
    )
    response = client.get("/metrics")
    assert response.status_code == 403 and b"authzconsole_" not in response.content


@pytest.mark.django_db
@pytest.mark.parametrize(
    "headers",
    [
        {
            "HTTP_AUTHORIZATION": f"Bearer {TOKEN}",
            "REMOTE_ADDR": "192.0.2.7",
            "HTTP_X_FORWARDED_FOR": "192.0.2.8",
        },
        {"REMOTE_ADDR": "::1"},
        {"REMOTE_ADDR": "::ffff:127.0.0.1"},
        {"HTTP_HOST": "localhost:8000"},
        {"HTTP_HOST": "[::1]:8000"},
        {"HTTP_HOST": "192.0.2.1"},
        {"HTTP_HOST": "evil.example", "HTTP_AUTHORIZATION": f"Bearer {TOKEN}"},
    ],
)
def test_monitoring_systems_get_details(headers, settings):
    settings.METRICS_TOKEN = TOKEN
    client = Client(**headers)
    assert "checks" in client.get("/readyz").json() and client.get("/metrics").status_code == 200
    assert client.post("/metrics").status_code == 405


def metrics():
    response = Client().get("/metrics")
    assert response.status_code == 200 and response["Content-Type"].startswith("text/plain")
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(response.content.decode())
        for sample in family.samples
    }


def change(before, after, *key):
    return after.get(key, 0) - before.get(key, 0)


@pytest.mark.django_db
def test_decisions_are_counted_on_the_fast_path_and_in_rest(cast, rf):
    token = issue_token("ada", "decide").secret
    question = {
        "subject": {"type": "user", "id": "ned"},
        "action": {"name": "ADMIN"},
        "resource": {"type": "dataset", "id": "sales.orders"},
        "context": {"generation": "core"},
    }
    before = metrics()
    application = TokenFastPath(lambda environ, start_response: pytest.fail("not on the fast path"))
    for subject in ("ned", "out", "out"):
        body = question | {"subject": {"type": "user", "id": subject}}
        request = rf.post(
            "/access/v1/evaluation", body, "application/json", headers={"Authorization": f"Bearer {token}"}
        )
        application(request.environ, lambda status, headers: None)
    Client().post(
        "/api/v1/decisions", question, "application/json", headers={"Authorization": f"Bearer {token}"}
    )
    Client().post(
        "/access/v1/evaluation", question, "application/json", headers={"Authorization": "Bearer azc_guess"}
    )
    after = metrics()
    assert change(before, after, "authzconsole_decisions_total", "core", "permit") == 2
    assert change(before, after, "authzconsole_decisions_total", "core", "deny") == 2
    assert change(before, after, "authzconsole_request_seconds_count", "authzen") == 4
    assert change(before, after, "authzconsole_request_seconds_count", "rest") == 1
    assert change(before, after, "authzconsole_error_responses_total", "401", "authzen") == 1
    assert change(before, after, "authzconsole_security_events_total", "token-rejected") == 1


@pytest.mark.django_db
def test_metrics_have_the_state_of_runs_queues_and_the_journal(cast, redis_with_all, settings, tmp_path):
    anchor = tmp_path / "anchor"
    anchor.write_text('{"revision": 3, "hash": "x"}\n')
    settings.JOURNAL_ANCHOR = [f"file:{anchor}"]
    redis_with_all.rpush(settings.RUN_QUEUE, "message", "message")
    AnalysisRun.objects.create(type="visibility", state="failed")
    record_event(EventKind.SIGN_IN, account="ada")
    SecurityEventTarget.objects.create(
        name="syslog udp:x:1", shipped_to=SecurityEvent.objects.last().pk - 1, failures=2
    )
    values = metrics()
    revision = values["authzconsole_journal_revision",]
    assert (
        values["authzconsole_runs", "failed", "visibility"] == 1
        and values["authzconsole_queue_messages", "runs"] == 2
    )
    assert values["authzconsole_journal_unanchored_lines", f"file:{anchor}"] == revision - 3 and revision > 3
    assert 0 <= values["authzconsole_journal_last_line_age_seconds",] < 60
    assert values["authzconsole_security_events_unshipped", "syslog udp:x:1"] == 1
    assert values["authzconsole_security_event_shipping_failures", "syslog udp:x:1"] == 2
    assert values["authzconsole_ready", "scheduler"] == 1


def test_metrics_survive_without_redis_and_count_a_locked_database(db, settings):
    from authzconsole.common.database import is_database_locked

    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    before = metrics()
    assert is_database_locked(OperationalError("database is locked")) and not is_database_locked(
        OperationalError("x")
    )
    after = metrics()
    assert (
        change(before, after, "authzconsole_database_busy_total") == 1
        and after["authzconsole_ready", "redis"] == 0
    )


def test_the_scheduler_announces_itself_with_each_tick(redis_server, settings, monkeypatch):
    settings.REDIS_URL = redis_server
    with queue.redis_client() as client:
        client.delete(queue.SCHEDULER_KEY)
    monkeypatch.setattr("celery.beat.Scheduler.tick", lambda self: 5)
    assert not queue.is_scheduler_present()
    assert Scheduler.tick(object.__new__(Scheduler)) == 5 and queue.is_scheduler_present()
