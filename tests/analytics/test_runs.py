"""Runs from request to end, without Spark: claims, sweeps, failures, and what is said while one waits."""

import subprocess
import sys
import threading
from datetime import timedelta

import celery
import kombu.exceptions
import pytest
import redis
from django.db import connections, transaction
from django.utils import timezone

from analytics.analyses import ANALYSES, AnalysisError
from analytics.models import AnalysisRun, RunStage, RunState
from analytics.runs import execution, selectors, services
from analytics.runs.computation import Outcome
from analytics.runs.presence import KEY, redis_client
from analytics.runs.processes import has_ended, this_process
from analytics.runs.watch import RunCancelled, RunLost, RunWatch
from authzconsole.ops.address import free_port
from entities.models import Entity, State
from grants.models import User
from tests.support.workers import redis_at

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def folder(settings, tmp_path):
    settings.SNAPSHOT_URI = str(tmp_path)
    return tmp_path


@pytest.fixture
def sent(monkeypatch):
    """The runs that the worker is told of."""
    told = []
    monkeypatch.setattr("analytics.runs.services.redis_problem", lambda: "")
    monkeypatch.setattr(celery.current_app, "send_task", lambda name, args: told.append((name, *args)))
    return told


@pytest.fixture
def computes(monkeypatch):
    """Stands for Spark: counts, and does what the test says."""
    calls = []

    def stand_in(act=lambda progress: None):
        def report_compute(*, progress, folder, **asked):
            calls.append(folder)
            progress.stage(RunStage.COMPUTING)
            act(progress)
            return Outcome(7, {"pairs": 1})

        monkeypatch.setattr("analytics.runs.execution.report_compute", report_compute)
        return calls

    return stand_in


def waiting(**facts):
    return AnalysisRun.objects.create(analysis="delete-readiness", options={"generation": "final", "namespace": ""}, **facts)


def running(**facts):
    now = timezone.now()
    return waiting(**{"state": RunState.RUNNING, "claim": "c1", "attempt": 1, "started_at": now, "heartbeat_at": now} | facts)


def fresh(run):
    return AnalysisRun.objects.get(pk=run.pk)


def test_a_request_is_sent_when_it_is_committed_and_not_before(sent):
    with transaction.atomic():
        run = services.request_run(analysis="delete-readiness", options={}, requested_by=None)
        assert sent == []
    assert sent == [("analytics.run_execute", run.pk)]
    assert fresh(run).state == RunState.WAITING and fresh(run).sent_at is not None


def test_a_request_keeps_every_option_with_its_default(sent):
    ada = User.objects.create(username="ada")
    Entity.objects.create(kind="namespace", key="sales")
    run = services.request_run(analysis="delete-readiness", options={"namespace": "namespace:sales"}, requested_by=ada)
    assert run.options == {"generation": "final", "namespace": "sales"} and run.requested_by == ada


@pytest.mark.parametrize(("analysis", "options", "says"), [
    ("nothing", {}, "`nothing` is not an analysis; there is delete-readiness"),
    ("delete-readiness", {"generation": "newest"}, "`newest` is not a generation of rules; the generations are core, existing"),
    ("delete-readiness", {"to_generation": "core"}, "takes no to_generation; it takes generation, namespace"),
    ("delete-readiness", {"namespace": "sales.orders"}, "holds a character"),
    ("delete-readiness", {"namespace": "absent"}, "namespace:absent is not registered; the live namespaces are sales"),
    ("delete-readiness", {"namespace": "old"}, "namespace:old is deleted, not live; the live namespaces are sales"),
])
def test_what_cannot_be_run_is_refused_with_what_can_and_nothing_is_kept(sent, analysis, options, says):
    Entity.objects.create(kind="namespace", key="sales")
    Entity.objects.create(kind="namespace", key="old", state=State.DELETED)
    with pytest.raises(AnalysisError) as refused:
        services.request_run(analysis=analysis, options=options, requested_by=None)
    assert says in str(refused.value)
    assert sent == [] and not AnalysisRun.objects.exists()


def test_what_redis_refused_waits_and_the_next_sweep_sends_it(monkeypatch, sent):
    def fail(name, args):
        raise kombu.exceptions.OperationalError("refused")

    with monkeypatch.context() as broken:
        broken.setattr(celery.current_app, "send_task", fail)
        run = services.request_run(analysis="delete-readiness", options={}, requested_by=None)
    assert fresh(run).state == RunState.WAITING and fresh(run).sent_at is None
    services.runs_sweep()
    assert sent == [("analytics.run_execute", run.pk)]


def test_a_run_is_done_with_its_figures_and_where_its_report_lies(computes):
    computes()
    run = waiting()
    execution.run_execute(run_id=run.pk)
    run = fresh(run)
    assert (run.state, run.revision, run.summary, run.attempt) == (RunState.DONE, 7, {"pairs": 1}, 1)
    assert run.result_folder.endswith(f"/run-{run.pk}-1") and run.finished_at is not None


def test_a_message_that_arrives_twice_executes_once(computes):
    calls = computes()
    run = waiting()
    execution.run_execute(run_id=run.pk)
    execution.run_execute(run_id=run.pk)
    assert len(calls) == 1


@pytest.mark.parametrize("state", set(RunState) - {RunState.WAITING})
def test_only_a_waiting_run_is_executed(computes, state):
    calls = computes()
    execution.run_execute(run_id=waiting(state=state).pk)
    execution.run_execute(run_id=12_345)
    assert calls == []


def test_two_claims_at_once_have_one_winner():
    run = waiting()
    claims = [services.claim_run(run.pk), services.claim_run(run.pk)]
    assert [claim is not None for claim in claims] == [True, False]


def test_a_failure_is_one_sentence_and_no_traceback(computes):
    def fail(progress):
        raise ValueError("the thing broke\n\tat Some.java:12\n\tat Other.java:13")

    computes(fail)
    run = waiting()
    execution.run_execute(run_id=run.pk)
    run = fresh(run)
    assert run.state == RunState.FAILED
    assert run.error == "ValueError: the thing broke (the worker's log says more)"


@pytest.mark.parametrize(("error", "says"), [
    (OSError(28, "No space left on device"), "is full: free some space, or point SNAPSHOT_URI"),
    (OSError(30, "Read-only file system"), "is read-only, or point SNAPSHOT_URI"),
    (RuntimeError("java.lang.OutOfMemoryError: Java heap space"), "ran out of memory with SPARK_DRIVER_MEMORY"),
    (RuntimeError("java.io.IOException: No space left on device"), "is full: free some space"),
])
def test_the_usual_failures_say_what_to_do(computes, error, says):
    def fail(progress):
        raise error

    computes(fail)
    run = waiting()
    execution.run_execute(run_id=run.pk)
    assert says in fresh(run).error


def test_without_java_the_run_fails_saying_what_to_install(monkeypatch, folder):
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    run = waiting()
    execution.run_execute(run_id=run.pk)
    assert fresh(run).state == RunState.FAILED
    assert "Java is missing" in fresh(run).error and "openjdk-17-jre-headless" in fresh(run).error


def test_a_dead_java_process_is_tried_again_and_then_reported(computes, monkeypatch, settings):
    def fail(progress):
        raise ConnectionRefusedError

    computes(fail)
    monkeypatch.setattr("analytics.runs.execution.session_has_died", lambda: True)
    run = waiting()
    for attempt in range(1, settings.RUN_ATTEMPTS_MOST + 1):
        assert fresh(run).state == RunState.WAITING
        execution.run_execute(run_id=run.pk)
        assert fresh(run).attempt == attempt
    assert fresh(run).state == RunState.FAILED and "Java process ended during the run, 3 times" in fresh(run).error


def test_what_an_unfinished_run_wrote_is_removed(computes, folder):
    def write_and_fail(progress):
        (folder / calls[-1]).mkdir(parents=True)
        (folder / calls[-1] / "half").write_text("")
        raise ValueError

    calls = computes(write_and_fail)
    execution.run_execute(run_id=waiting().pk)
    assert calls and not (folder / calls[-1]).exists()


def test_a_waiting_run_is_cancelled_at_once(computes):
    calls = computes()
    run = waiting()
    assert services.cancel_run(run=run)
    execution.run_execute(run_id=run.pk)
    assert fresh(run).state == RunState.CANCELLED and calls == []


def test_a_running_run_is_cancelled_at_its_next_step(computes):
    def cancel_meanwhile(progress):
        assert services.cancel_run(run=run)
        progress._poll()
        progress.check()

    computes(cancel_meanwhile)
    run = waiting()
    execution.run_execute(run_id=run.pk)
    assert fresh(run).state == RunState.CANCELLED and fresh(run).error == ""


def test_a_cancelled_run_ends_cancelled_whatever_spark_says_about_it(computes):
    def cancel_and_break(progress):
        services.cancel_run(run=run)
        progress._poll()
        raise RuntimeError("Job 3 cancelled part of cancelled job group")

    computes(cancel_and_break)
    run = waiting()
    execution.run_execute(run_id=run.pk)
    assert fresh(run).state == RunState.CANCELLED


@pytest.mark.slow
def test_a_run_cancelled_while_it_is_given_back_ends_cancelled(sent):
    """However the two fall together; and one that is claimed at the same time ends at its first step."""
    for _ in range(25):
        run, ready = running(), threading.Barrier(2)

        def give_back(run=run, ready=ready):
            ready.wait()
            services.requeue_run(run)
            connections.close_all()

        thread = threading.Thread(target=give_back)
        thread.start()
        ready.wait()
        assert services.cancel_run(run=run)
        thread.join()
        execution.run_execute(run_id=run.pk)
        assert fresh(run).state == RunState.CANCELLED


def test_cancelling_is_one_statement(django_assert_num_queries):
    for run in (waiting(), running()):
        with django_assert_num_queries(1):
            assert services.cancel_run(run=run)


def test_a_run_over_its_time_is_stopped_and_failed_with_a_sentence(computes, settings):
    settings.RUN_TIMEOUT_SECONDS = 0

    def take_long(progress):
        progress._poll()
        progress.check()

    computes(take_long)
    run = waiting()
    execution.run_execute(run_id=run.pk)
    assert (fresh(run).state, fresh(run).error) == (
        RunState.FAILED, "The run took longer than 0 s and was stopped; RUN_TIMEOUT_SECONDS gives it more time.")


def test_on_a_cluster_it_also_says_where_to_look(settings):
    settings.SPARK_MASTER = "spark://far:7077"
    assert services.timeout_sentence().endswith("SPARK_MASTER is spark://far:7077: look whether it has free workers.")


def test_a_run_whose_process_was_killed_for_taking_too_long_is_not_tried_again(settings, sent):
    run = silent(settings, started_at=timezone.now() - timedelta(seconds=settings.RUN_TIMEOUT_SECONDS + 130))
    services.runs_sweep()
    assert fresh(run).state == RunState.FAILED and "The run took longer than" in fresh(run).error


def ended_process():
    """The name that a process had which is gone by now."""
    asks = "import sys; sys.path.insert(0, '.'); from analytics.runs.processes import this_process; print(this_process())"
    return subprocess.run([sys.executable, "-c", asks], capture_output=True, text=True, check=True).stdout.strip()


def test_a_run_whose_process_on_this_machine_has_ended_is_taken_up_at_once(sent):
    runs = {"ended": running(process=ended_process()), "alive": running(process=this_process()), "unknown": running(),
            "elsewhere": running(process="another-boot/4026531836/1/1"), "unreadable": running(process="x")}
    services.runs_sweep()
    assert {name: str(fresh(run).state) for name, run in runs.items()} == {
        "ended": "waiting", "alive": "running", "unknown": "running", "elsewhere": "running", "unreadable": "running"}
    assert sent == [("analytics.run_execute", runs["ended"].pk)]


def test_a_process_id_that_is_used_again_is_not_taken_for_the_process_that_had_it():
    mine = this_process()
    assert not has_ended(mine) and has_ended(f"{mine}1")


def test_a_claim_says_which_process_has_it():
    assert services.claim_run(waiting().pk).process == this_process() != ""


def test_a_run_that_is_over_cannot_be_cancelled():
    assert not services.cancel_run(run=waiting(state=RunState.DONE))


def silent(settings, **facts):
    return running(heartbeat_at=timezone.now() - timedelta(seconds=settings.RUN_LOST_AFTER_SECONDS + 1), **facts)


def test_a_run_whose_process_fell_silent_waits_again_and_is_sent(settings, sent):
    run = silent(settings)
    services.runs_sweep()
    assert (fresh(run).state, fresh(run).claim) == (RunState.WAITING, "")
    assert sent == [("analytics.run_execute", run.pk)]


def test_a_run_whose_process_speaks_is_left_alone(sent):
    run = running()
    services.runs_sweep()
    assert fresh(run).state == RunState.RUNNING and sent == []


def test_after_three_silent_attempts_a_run_failed_with_the_reason(settings, sent):
    run = silent(settings, attempt=3)
    services.runs_sweep()
    assert fresh(run).state == RunState.FAILED and "ended during the run, 3 times" in fresh(run).error


def test_a_silent_run_that_was_to_be_cancelled_is_cancelled(settings, sent):
    run = silent(settings, cancel_requested_at=timezone.now())
    services.runs_sweep()
    assert fresh(run).state == RunState.CANCELLED


def test_a_heartbeat_between_looking_and_acting_saves_the_run(settings):
    run = silent(settings)
    AnalysisRun.objects.filter(pk=run.pk).update(heartbeat_at=timezone.now())
    services.requeue_run(run, silent_since=run.heartbeat_at)
    assert fresh(run).state == RunState.RUNNING


def test_what_was_sent_a_moment_ago_is_not_sent_again(sent):
    waiting(sent_at=timezone.now())
    waiting(sent_at=timezone.now() - 2 * services.RESEND_AFTER)
    services.runs_sweep()
    assert len(sent) == 1


def test_a_process_that_was_given_up_for_dead_changes_nothing(computes):
    def taken_up_elsewhere(progress):
        AnalysisRun.objects.filter(pk=run.pk).update(claim="another", attempt=2)
        progress._poll()
        progress.check()

    computes(taken_up_elsewhere)
    run = waiting()
    execution.run_execute(run_id=run.pk)
    assert (fresh(run).state, fresh(run).claim, fresh(run).summary) == (RunState.RUNNING, "another", {})


def test_the_watch_beats_and_tells_why_it_ends():
    run = running(heartbeat_at=timezone.now() - timedelta(hours=1))
    watch = RunWatch(run)
    watch._poll()
    assert timezone.now() - fresh(run).heartbeat_at < timedelta(minutes=1) and watch.ending is None
    services.cancel_run(run=run)
    watch._poll()
    assert isinstance(watch.ending, RunCancelled)
    AnalysisRun.objects.filter(pk=run.pk).update(claim="another")
    watch._poll()
    assert isinstance(watch.ending, RunLost)


def test_the_watch_s_thread_beats_by_itself_and_ends_with_the_run(monkeypatch):
    monkeypatch.setattr("analytics.runs.watch.POLL_SECONDS", 0.05)
    run = running(heartbeat_at=timezone.now() - timedelta(hours=1))
    with RunWatch(run) as watch:
        for _ in range(100):
            watch._over.wait(0.05)
            if timezone.now() - fresh(run).heartbeat_at < timedelta(minutes=1):
                break
    assert timezone.now() - fresh(run).heartbeat_at < timedelta(minutes=1)
    assert not watch._thread.is_alive()


def test_it_says_that_redis_does_not_answer_and_where_but_not_the_password(settings):
    port = free_port()
    settings.REDIS_URL = f"redis://:geheim@127.0.0.1:{port}/0"
    reason = selectors.run_waiting_reason(waiting())
    assert f"Redis does not answer at redis://127.0.0.1:{port}/0" in reason and "geheim" not in reason


@pytest.mark.parametrize("url", [
    "redis://:geheim@127.0.0.1:1/0", "redis://name:geheim@127.0.0.1:1", "redis://127.0.0.1:1/0?password=geheim",
    "redis://127.0.0.1:1/0?password=a@geheim", "redis://:geh#geheim@127.0.0.1:1/0", "redis://:1#geheim@127.0.0.1:1/0",
    "redis://:a/geheim@127.0.0.1:1/0", "redis://:a?geheim@127.0.0.1:1/0", "rediss://:geheim@[::1]:1/0", "redis://geheim#@x:1",
])
def test_whatever_the_address_of_redis_looks_like_its_password_is_not_told(settings, url):
    settings.REDIS_URL = url
    reason = selectors.run_waiting_reason(waiting())
    assert reason.startswith("Redis does not answer at ") and "geheim" not in reason


def test_a_wrong_password_of_redis_is_told_without_it(settings, tmp_path):
    port = free_port()
    with redis_at(port, tmp_path), redis.Redis(port=port) as client:
        client.config_set("requirepass", "richtig")
        settings.REDIS_URL = f"redis://:geheim@127.0.0.1:{port}/0"
        reason = selectors.run_waiting_reason(waiting())
    assert "does not answer" in reason and "geheim" not in reason and "richtig" not in reason


def test_it_says_that_no_worker_runs_then_who_keeps_it_busy_then_nothing(settings, redis_server):
    settings.REDIS_URL = redis_server
    run = waiting()
    with redis_client() as client:
        client.delete(KEY)
        assert "No worker is running" in selectors.run_waiting_reason(run)
        client.set(KEY, "1", ex=10)
        busy = running()
        assert f"busy with run {busy.pk}" in selectors.run_waiting_reason(run)
        AnalysisRun.objects.filter(pk=busy.pk).update(state=RunState.DONE)
        assert selectors.run_waiting_reason(run) == "It starts within seconds."
        client.delete(KEY)
    assert selectors.run_waiting_reason(busy) == ""


def test_a_request_without_redis_is_kept_and_keeps_nobody_waiting(settings):
    settings.REDIS_URL = f"redis://127.0.0.1:{free_port()}/0"
    started = timezone.now()
    run = services.request_run(analysis="delete-readiness", options={}, requested_by=None)
    assert timezone.now() - started < timedelta(seconds=2)
    assert fresh(run).state == RunState.WAITING and fresh(run).sent_at is None


def test_the_latest_run_of_a_namespace_may_be_one_of_all():
    def done(namespace):
        return AnalysisRun.objects.create(analysis="delete-readiness", options={"namespace": namespace}, state=RunState.DONE)

    everywhere, sales, eng = done(""), done("sales"), done("eng")
    waiting()
    assert selectors.latest_run("delete-readiness") == eng
    assert selectors.latest_run("delete-readiness", "sales") == sales
    assert selectors.latest_run("delete-readiness", "hr") == everywhere
    assert selectors.latest_run("visibility") is None


def test_every_analysis_on_offer_can_be_built():
    from importlib import import_module

    for analysis in ANALYSES.values():
        for output in filter(None, (*analysis.outputs, analysis.detail)):
            module, _, function = output.build.partition(":")
            assert callable(getattr(import_module(module), function))
