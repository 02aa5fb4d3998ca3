"""Schedules: off by default, one run per scheduled time, however many messages arrive, and the
scheduler.
"""

import threading
from datetime import UTC, datetime, time, timedelta

import pytest
from django.db import connections
from django.db.models import F
from django.utils import timezone

from analytics.analyses import ANALYSES, AnalysisError
from analytics.models import AnalysisRun, Schedule
from analytics.runs import schedules
from analytics.runs.beat import Scheduler
from authzconsole.celery import app
from entities.models import Entity, State
from grants.author_names import is_reserved_name
from grants.errors import NotAdministrator
from grants.journal import Author
from grants.models import JobState, JournalLine
from tests.support.cast import SETUP, create_sample_users

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sent_tasks")]

READINESS = "delete-readiness"


def switch(is_on=True, *, analysis=READINESS, at=time(2, 30), author=SETUP, **options):
    return schedules.change_schedule(author=author, analysis=analysis, is_on=is_on, at=at, options=options)


def move_back_one_day():
    """Move the last scheduled time of every schedule back by one day."""
    Schedule.objects.update(last_moment=F("last_moment") - timedelta(days=1))


def test_every_schedule_is_off_by_default():
    assert [(schedule.analysis, schedule.is_on, schedule.at) for schedule in schedules.all_schedules()] == [
        (name, False, time(2, 30)) for name in ANALYSES
    ]
    assert schedules.request_scheduled_runs() == [] and not AnalysisRun.objects.exists()


def test_switching_on_creates_no_run_before_the_next_scheduled_time():
    switch()
    assert schedules.request_scheduled_runs() == []
    assert timezone.now() - Schedule.objects.get().last_moment <= timedelta(days=1)


def test_repeated_messages_create_one_run_per_scheduled_time(sent_tasks, django_assert_num_queries):
    switch(generation="core")
    switch(False, analysis="visibility")
    move_back_one_day()
    [run] = schedules.request_scheduled_runs()
    assert (run.is_scheduled, run.requested_by, run.options) == (
        True,
        None,
        {"generation": "core", "namespace": ""},
    )
    with django_assert_num_queries(1):
        assert schedules.request_scheduled_runs() == []
    assert sent_tasks == [("grants.run_job", run.pk)]


@pytest.mark.slow
def test_two_concurrent_messages_create_one_run():
    for _ in range(5):
        switch()
        move_back_one_day()
        count_before, ready = AnalysisRun.objects.count(), threading.Barrier(4)

        def request(ready=ready):
            ready.wait()
            schedules.request_scheduled_runs()
            connections.close_all()

        threads = [threading.Thread(target=request) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert AnalysisRun.objects.count() == count_before + 1
        AnalysisRun.objects.update(state=JobState.DONE)


def test_a_message_slightly_early_by_the_clock_of_the_worker_counts(monkeypatch):
    monkeypatch.setattr(timezone, "now", lambda: datetime(2026, 5, 2, 2, 29, 30, tzinfo=UTC))
    assert schedules._newest_moment(time(2, 30)) == datetime(2026, 5, 2, 2, 30, tzinfo=UTC)
    assert schedules._newest_moment(time(2, 31)) == datetime(2026, 5, 1, 2, 31, tzinfo=UTC)


def test_no_scheduled_run_is_requested_while_the_previous_one_waits():
    switch()
    move_back_one_day()
    [run] = schedules.request_scheduled_runs()
    move_back_one_day()
    assert schedules.request_scheduled_runs() == []
    AnalysisRun.objects.filter(pk=run.pk).update(state=JobState.DONE)
    move_back_one_day()
    assert schedules.request_scheduled_runs() != []


def test_a_schedule_that_is_switched_off_creates_no_runs():
    switch()
    move_back_one_day()
    switch(False)
    assert schedules.request_scheduled_runs() == []


def test_an_invalid_scheduled_run_is_stored_as_failed_with_the_reason():
    sales = Entity.objects.create(kind="namespace", key="sales")
    switch(namespace="sales")
    Entity.objects.filter(pk=sales.pk).update(state=State.DELETED)
    move_back_one_day()
    [run] = schedules.request_scheduled_runs()
    assert run.state == JobState.FAILED and run.is_scheduled
    assert run.error.startswith(
        "The scheduled run could not be started: namespace:sales is deleted, not live"
    )


@pytest.mark.parametrize(
    ("analysis", "options", "message"),
    [
        ("nothing", {}, "`nothing` is not an analysis"),
        (READINESS, {"namespace": "absent"}, "is not registered"),
    ],
)
def test_a_schedule_with_invalid_options_is_refused(analysis, options, message):
    with pytest.raises(AnalysisError, match=message):
        switch(analysis=analysis, **options)
    assert not Schedule.objects.exists() and not JournalLine.objects.exists()


def test_schedule_changes_are_journaled_and_repetitions_are_not():
    ada = create_sample_users()["ada"]
    author = Author("ada", reason="for Monday", user_id=ada.pk)
    assert switch(generation="core", author=author).sentence == (
        "the analysis delete-readiness runs nightly at 02:30 UTC, generation core"
    )
    assert not switch(generation="core", author=author).has_changed
    switch(at=time(23, 5), author=author)
    assert (
        switch(False, at=time(23, 5), author=author).sentence
        == "the analysis delete-readiness is not scheduled"
    )
    assert [(line.action, line.actor, line.detail, line.reason) for line in JournalLine.objects.all()] == [
        ("schedule-on", "ada", "delete-readiness, nightly at 02:30 UTC, generation core", "for Monday"),
        ("schedule-change", "ada", "delete-readiness, nightly at 23:05 UTC", "for Monday"),
        ("schedule-off", "ada", "delete-readiness, nightly at 23:05 UTC", "for Monday"),
    ]


def test_a_scheduled_run_has_a_journal_line_by_a_reserved_author():
    switch()
    move_back_one_day()
    [run] = schedules.request_scheduled_runs()
    line = JournalLine.objects.latest("revision")
    assert (line.actor, line.action, line.reason) == ("schedule_run", "run-start", "nightly run")
    assert str(run.pk) in line.detail and is_reserved_name("schedule_run")


def test_a_read_only_console_starts_the_run_when_it_can_write_again(settings):
    switch()
    move_back_one_day()
    keys, settings.JOURNAL_KEYS = settings.JOURNAL_KEYS, []
    assert schedules.request_scheduled_runs() == [] and not AnalysisRun.objects.exists()
    settings.JOURNAL_KEYS = keys
    assert schedules.request_scheduled_runs() != []


def test_only_administrators_change_schedules():
    aud = create_sample_users()["aud"]
    with pytest.raises(NotAdministrator):
        switch(author=Author("aud", user_id=aud.pk))
    assert not Schedule.objects.exists()


def test_the_scheduler_sends_each_task_of_the_settings_at_its_start():
    app.loader.import_default_modules()
    schedule = Scheduler(app=app).schedule
    assert schedule.keys() == app.conf.beat_schedule.keys()
    assert all(entry.is_due().is_due and entry.task in app.tasks for entry in schedule.values())
    sweep = schedule["jobs_sweep"]
    assert sweep.schedule.run_every == timedelta(seconds=5)
    # a sweep that waited behind a long run is outdated
    assert sweep.options == {"expires": 5}
    assert not next(sweep).is_due().is_due
