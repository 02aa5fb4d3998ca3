"""Nightly runs: off until switched on, one a night however often the message comes, and the scheduler's own table."""

import threading
from datetime import UTC, datetime, time, timedelta

import celery
import pytest
from django.db import connections
from django.utils import timezone
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from analytics.analyses import ANALYSES, AnalysisError
from analytics.models import AnalysisRun, RunState, Schedule
from analytics.runs import schedules
from analytics.runs.beat import Scheduler
from authzconsole.celery import app
from entities.models import Entity, State
from grants.errors import NotAdministrator
from grants.journal import Author
from grants.models import JournalLine
from tests.support.cast import SETUP, create_sample_users

pytestmark = pytest.mark.django_db(transaction=True)

READINESS = "delete-readiness"


@pytest.fixture(autouse=True)
def sent(monkeypatch):
    """The runs that the worker is told of."""
    told = []
    monkeypatch.setattr("analytics.runs.services.redis_problem", lambda: "")
    monkeypatch.setattr(celery.current_app, "send_task", lambda name, args: told.append((name, *args)))
    return told


def switch(is_on=True, *, analysis=READINESS, at=time(2, 30), author=SETUP, **options):
    return schedules.change_schedule(author=author, analysis=analysis, is_on=is_on, at=at, options=options)


def a_day_later(analysis=READINESS):
    """As if the last moment were yesterday's."""
    schedule = Schedule.objects.get(analysis=analysis)
    Schedule.objects.filter(pk=schedule.pk).update(last_moment=schedule.last_moment - timedelta(days=1))


def test_everything_is_off_until_it_is_switched_on():
    assert [(one.analysis, one.is_on, one.at) for one in schedules.all_schedules()] == [
        (name, False, time(2, 30)) for name in ANALYSES]
    assert schedules.request_scheduled_run(analysis=READINESS) is None and not AnalysisRun.objects.exists()


def test_switching_on_makes_no_run_before_the_next_moment():
    switch()
    assert schedules.request_scheduled_run(analysis=READINESS) is None
    assert timezone.now() - Schedule.objects.get().last_moment <= timedelta(days=1)


def test_a_moment_has_one_run_however_often_the_message_comes(sent):
    switch(generation="core")
    a_day_later()
    run = schedules.request_scheduled_run(analysis=READINESS)
    assert (run.is_scheduled, run.requested_by, run.options) == (True, None, {"generation": "core", "namespace": ""})
    assert schedules.request_scheduled_run(analysis=READINESS) is None
    assert sent == [("analytics.run_execute", run.pk)]


@pytest.mark.slow
def test_two_messages_at_once_make_one_run():
    for _ in range(5):
        switch()
        a_day_later()
        before, ready = AnalysisRun.objects.count(), threading.Barrier(4)

        def fire(ready=ready):
            ready.wait()
            schedules.request_scheduled_run(analysis=READINESS)
            connections.close_all()

        threads = [threading.Thread(target=fire) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert AnalysisRun.objects.count() == before + 1
        AnalysisRun.objects.update(state=RunState.DONE)


def test_a_message_that_comes_a_moment_early_by_the_workers_clock_counts(monkeypatch):
    monkeypatch.setattr(timezone, "now", lambda: datetime(2026, 5, 2, 2, 29, 30, tzinfo=UTC))
    assert schedules._newest_moment(time(2, 30)) == datetime(2026, 5, 2, 2, 30, tzinfo=UTC)
    assert schedules._newest_moment(time(2, 31)) == datetime(2026, 5, 1, 2, 31, tzinfo=UTC)


def test_a_night_is_not_asked_again_while_the_last_one_waits():
    switch()
    a_day_later()
    run = schedules.request_scheduled_run(analysis=READINESS)
    a_day_later()
    assert schedules.request_scheduled_run(analysis=READINESS) is None
    AnalysisRun.objects.filter(pk=run.pk).update(state=RunState.DONE)
    a_day_later()
    assert schedules.request_scheduled_run(analysis=READINESS) is not None


def test_what_was_switched_off_runs_no_more():
    switch()
    a_day_later()
    switch(False)
    assert schedules.request_scheduled_run(analysis=READINESS) is None


def test_a_night_that_cannot_be_run_is_a_run_that_failed_saying_why():
    sales = Entity.objects.create(kind="namespace", key="sales")
    switch(namespace="sales")
    Entity.objects.filter(pk=sales.pk).update(state=State.DELETED)
    a_day_later()
    run = schedules.request_scheduled_run(analysis=READINESS)
    assert run.state == RunState.FAILED and run.is_scheduled
    assert run.error.startswith("The scheduled run could not be started: namespace:sales is deleted, not live")


@pytest.mark.parametrize(("analysis", "options", "says"), [
    ("nothing", {}, "`nothing` is not an analysis"), ("visibility", {"namespace": "sales"}, "takes no namespace"),
    ("policy-impact", {}, "to_generation"), (READINESS, {"namespace": "absent"}, "is not registered"),
])
def test_what_could_not_run_is_not_switched_on(analysis, options, says):
    with pytest.raises(AnalysisError, match=says):
        switch(analysis=analysis, **options)
    assert not Schedule.objects.exists() and not PeriodicTask.objects.exists() and not JournalLine.objects.exists()


def test_the_journal_tells_who_switched_what_and_a_repetition_tells_nothing():
    ada = create_sample_users()["ada"]
    author = Author("ada", reason="for Monday", user_id=ada.pk)
    assert switch(generation="core", author=author).sentence == (
        "delete-readiness runs nightly at 02:30 UTC, generation core")
    assert not switch(generation="core", author=author).has_changed
    switch(at=time(23, 5), author=author)
    assert switch(False, at=time(23, 5), author=author).sentence == "delete-readiness is not scheduled"
    assert [(line.action, line.actor, line.detail, line.reason) for line in JournalLine.objects.all()] == [
        ("schedule-on", "ada", "delete-readiness, nightly at 02:30 UTC, generation core", "for Monday"),
        ("schedule-change", "ada", "delete-readiness, nightly at 23:05 UTC", "for Monday"),
        ("schedule-off", "ada", "delete-readiness, nightly at 23:05 UTC", "for Monday")]


def test_only_administrators_switch():
    aud = create_sample_users()["aud"]
    with pytest.raises(NotAdministrator):
        switch(author=Author("aud", user_id=aud.pk))
    assert not Schedule.objects.exists()


def scheduler():
    return Scheduler(app=app)


def test_the_scheduler_sends_what_is_on_and_what_the_settings_ask_for_and_nothing_else():
    switch(at=time(hour=datetime.now(UTC).hour))
    switch(False, analysis="visibility")
    older = IntervalSchedule.objects.create(every=3, period="seconds")
    PeriodicTask.objects.create(name="of an older version", task="gone", interval=older)
    found = scheduler().schedule
    assert set(found) == {"runs_sweep", "results_clean", f"nightly {READINESS}"}
    assert found["runs_sweep"].schedule.run_every == timedelta(seconds=5)
    # a sweep that waited behind a long run is worth nothing
    assert found["runs_sweep"].options["expires"] == 5
    nightly = found[f"nightly {READINESS}"]
    assert (nightly.task, nightly.args) == ("analytics.schedule_run", [READINESS])
    assert set(PeriodicTask.objects.values_list("name", flat=True)) == {*found, "nightly visibility"}


def test_the_scheduler_finds_back_after_its_table_was_emptied():
    one = scheduler()
    PeriodicTask.objects.all().delete()
    assert set(one.all_as_schedule()) == {"runs_sweep", "results_clean"}


def test_an_interval_that_changed_counts_from_the_next_start(monkeypatch):
    scheduler()
    monkeypatch.setitem(app.conf.beat_schedule, "runs_sweep", app.conf.beat_schedule["runs_sweep"] | {"schedule": 7.0})
    assert scheduler().schedule["runs_sweep"].schedule.run_every == timedelta(seconds=7)


def test_a_night_that_was_missed_is_made_up_for_at_the_start_once():
    switch()
    a_day_later()
    scheduler()
    scheduler()
    assert AnalysisRun.objects.count() == 1


def test_the_scheduler_is_due_at_the_minute_that_was_chosen():
    soon = datetime.now(UTC) + timedelta(minutes=30)
    switch(at=soon.time())
    entry = scheduler().schedule[f"nightly {READINESS}"]
    due, seconds = entry.is_due()
    assert not due and 25 * 60 < seconds <= 30 * 60
