"""Requesting runs, and selecting the latest run."""

import celery
import kombu.exceptions
import pytest
from django.db import transaction
from django.utils import timezone

from analytics.analyses import AnalysisError
from analytics.models import AnalysisRun
from analytics.runs import selectors, services
from authzconsole.celery import app
from authzconsole.ops.address import free_port
from entities.models import Entity, State
from grants.jobs import sweep_jobs
from grants.jobs.queue import redis_client
from grants.models import JobState, User
from tests.support.runs import create_waiting_run, reload_run
from tests.support.workers import run_redis

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("storage_folder")]


def test_a_request_is_sent_when_its_transaction_commits(sent_tasks):
    with transaction.atomic():
        run = services.request_run(analysis="delete-readiness", options={}, requested_by=None)
        assert sent_tasks == []
    assert sent_tasks == [("grants.run_job", run.pk)]
    assert reload_run(run).state == JobState.WAITING and reload_run(run).sent_at is not None


def test_a_request_stores_every_option_with_its_default(sent_tasks):
    ada = User.objects.create(username="ada")
    Entity.objects.create(kind="namespace", key="sales")
    run = services.request_run(
        analysis="delete-readiness", options={"namespace": "namespace:sales"}, requested_by=ada
    )
    assert run.options == {"generation": "final", "namespace": "sales"} and run.requested_by == ada


@pytest.mark.parametrize(
    ("analysis", "options", "message"),
    [
        ("nothing", {}, "`nothing` is not an analysis; the analyses are delete-readiness"),
        (
            "delete-readiness",
            {"generation": "newest"},
            "`newest` is not a generation of rules; the generations are core, existing",
        ),
        (
            "delete-readiness",
            {"to_generation": "core"},
            "takes no to_generation; it takes generation, namespace",
        ),
        (
            "policy-impact",
            {"generation": "core"},
            "--to-generation) is missing: the generations are core, existing",
        ),
        (
            "policy-impact",
            {"generation": "core", "to_generation": "core"},
            "compares two generations, and both are core",
        ),
        ("delete-readiness", {"namespace": "sales.orders"}, "contains a character"),
        (
            "delete-readiness",
            {"namespace": "absent"},
            "namespace:absent is not registered; the live namespaces are sales",
        ),
        (
            "delete-readiness",
            {"namespace": "old"},
            "namespace:old is deleted, not live; the live namespaces are sales",
        ),
    ],
)
def test_an_invalid_request_is_refused_with_the_valid_choices_and_nothing_is_stored(
    sent_tasks, analysis, options, message
):
    Entity.objects.create(kind="namespace", key="sales")
    Entity.objects.create(kind="namespace", key="old", state=State.DELETED)
    with pytest.raises(AnalysisError) as raised:
        services.request_run(analysis=analysis, options=options, requested_by=None)
    assert message in str(raised.value)
    assert sent_tasks == [] and not AnalysisRun.objects.exists()


def test_a_request_that_redis_refused_waits_and_the_next_sweep_sends_it(monkeypatch, sent_tasks):
    def fail(name, args, **options):
        raise kombu.exceptions.OperationalError("refused")

    with monkeypatch.context() as patch:
        patch.setattr(celery.current_app, "send_task", fail)
        run = services.request_run(analysis="delete-readiness", options={}, requested_by=None)
    assert reload_run(run).state == JobState.WAITING and reload_run(run).sent_at is None
    sweep_jobs()
    assert sent_tasks == [("grants.run_job", run.pk)]


def test_a_request_reaches_a_redis_that_replaced_the_previous_one(settings, monkeypatch, tmp_path):
    for folder in ("first", "second"):
        port = free_port()
        settings.REDIS_URL = f"redis://127.0.0.1:{port}/0"
        monkeypatch.setattr(app.conf, "broker_url", settings.REDIS_URL)
        (tmp_path / folder).mkdir()
        with run_redis(port, tmp_path / folder), redis_client() as client:
            run = services.request_run(analysis="delete-readiness", options={}, requested_by=None)
            assert reload_run(run).sent_at is not None and client.llen("runs") == 1


def test_a_request_without_redis_is_stored_within_two_seconds(settings):
    settings.REDIS_URL = f"redis://127.0.0.1:{free_port()}/0"
    started = timezone.now()
    run = services.request_run(analysis="delete-readiness", options={}, requested_by=None)
    assert (timezone.now() - started).total_seconds() < 2
    assert reload_run(run).state == JobState.WAITING and reload_run(run).sent_at is None


def test_the_latest_run_of_a_namespace_may_be_a_run_over_all_namespaces():
    def create_report(namespace):
        return AnalysisRun.objects.create(
            type="delete-readiness", options={"namespace": namespace}, state=JobState.DONE
        )

    all_namespaces, sales, eng = create_report(""), create_report("sales"), create_report("eng")
    create_waiting_run()
    assert selectors.latest_run("delete-readiness") == eng
    assert selectors.latest_run("delete-readiness", "sales") == sales
    assert selectors.latest_run("delete-readiness", "hr") == all_namespaces
    assert selectors.latest_run("visibility") is None
