"""Alerts fire once for each crossing, by e-mail and as a journal line. Spark is replaced."""

from datetime import time, timedelta

import pytest
from django.core import mail
from django.utils import timezone

from analytics.models import AnalysisRun, Figure, FigureAlert, FigureCrossing, Schedule
from analytics.runs.alerts import AlertError, UnknownAlert, add_alert, delete_alert
from analytics.runs.execution import ComputedReport
from authzconsole.mail import send_alert_mail
from grants.jobs import execution, run_job
from grants.jobs.lifecycle import requeue_job
from grants.journal import Author, first_break
from grants.models import JobState, JournalLine
from tests.support.authors import COMMAND

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("storage_folder")]
STRANDED, NOBODY = "stranded", "entities_nobody_administers"


@pytest.fixture
def run_with(monkeypatch):
    """Return a function that executes a run whose figure has this value."""

    def execute(value: int, *, analysis=STRANDED, figure=NOBODY, expected=JobState.DONE, **fields):
        monkeypatch.setattr(
            "analytics.runs.execution.compute_report",
            lambda **arguments: ComputedReport(7, {figure: value}),
        )
        fields = {"options": {"generation": "final"}, "is_scheduled": True} | fields
        run = AnalysisRun.objects.create(type=analysis, **fields)
        run_job(run.pk)
        run.refresh_from_db()
        assert run.state == expected, run.error
        return run

    return execute


def add(**fields) -> FigureAlert:
    values = {"analysis": STRANDED, "figure": NOBODY, "is_above": True, "value": 4}
    return add_alert(author=COMMAND, **values | fields)


def fired() -> list[str]:
    return list(
        JournalLine.objects.filter(action="alert-fire").order_by("revision").values_list("detail", flat=True)
    )


def test_an_alert_fires_once_for_each_crossing(run_with):
    alert = add()
    for value in (4, 5, 9):
        run_with(value)
    assert [detail.split(": ")[-1].split(" ")[0] for detail in fired()] == ["5"]
    assert FigureAlert.objects.get().is_crossed
    run_with(2)
    assert not FigureAlert.objects.get().is_crossed and len(fired()) == 1
    run = run_with(6)
    assert fired()[-1] == f"alert {alert.pk}: {NOBODY} of stranded above 4: 6 in run {run.pk}"
    assert list(FigureCrossing.objects.order_by("pk").values_list("value", flat=True)) == [5, 6]
    assert first_break() is None


def test_runs_with_the_default_options_do_not_change_the_state_of_the_schedule(run_with):
    """A nightly run of one namespace and a run of the whole tenant take turns."""
    from grants.active_generation import active_generation

    add()
    schedule = Schedule.objects.create(
        analysis=STRANDED, is_on=True, at=time(2, 30), options={"generation": "core"}
    )
    whole = {"is_scheduled": False, "options": {"generation": active_generation().name}}
    for _ in range(2):
        run_with(9, options={"generation": "core"})
        run_with(2, **whole)
    assert len(fired()) == 1 and FigureAlert.objects.get().is_crossed
    run_with(7, **whole)
    assert len(fired()) == 2
    # no run has the earlier options now, so their state ends
    Schedule.objects.filter(pk=schedule.pk).update(options={})
    run_with(2)
    assert not FigureAlert.objects.get().is_crossed
    run_with(9)
    assert len(fired()) == 3


def test_a_run_that_does_not_reach_its_end_fires_no_alert_and_stores_no_figures(run_with, monkeypatch):
    add()
    with monkeypatch.context() as patch:
        patch.setattr(execution, "close_job", lambda *arguments, **values: False)
        run = run_with(9, expected=JobState.RUNNING)
    assert not fired() and not Figure.objects.exists() and not FigureAlert.objects.get().is_crossed
    requeue_job(run)
    run_job(run.pk)
    assert len(fired()) == 1 and Figure.objects.filter(run_id=run.pk).exists()


def test_an_alert_below_a_value_fires_when_the_figure_falls(run_with):
    add(is_above=False, value=3)
    run_with(3)
    assert not fired()
    run_with(2)
    assert len(fired()) == 1


@pytest.mark.parametrize(
    ("fields", "fires"),
    [
        ({"is_scheduled": True, "options": {"generation": "core"}}, True),
        ({"is_scheduled": False, "options": {"generation": "core"}}, False),
        ({"analysis": "ghost-grants"}, False),
    ],
)
def test_only_nightly_runs_and_those_with_default_options_fire_alerts(run_with, fields, fires):
    add()
    run_with(9, **fields)
    assert bool(fired()) == fires


def test_a_run_with_the_default_options_fires_alerts(run_with):
    from grants.active_generation import active_generation

    add()
    run_with(9, is_scheduled=False, options={"generation": active_generation().name})
    assert len(fired()) == 1


def test_a_crossing_is_sent_by_email_once_to_each_recipient(run_with, settings):
    settings.EMAIL_HOST = "mail.example.com"
    add(recipients=["ann@example.com", "bo@example.com", "ann@example.com"])
    run = run_with(5)
    assert send_alert_mail() == 2 and send_alert_mail() == 0
    assert [message.to for message in mail.outbox] == [["ann@example.com"], ["bo@example.com"]]
    message = mail.outbox[0]
    assert message.subject == "5 entities without an ADMIN holder"
    assert "above 4" in message.body and f"/analyses/{run.pk}/" in message.body


def test_an_old_crossing_is_not_sent(run_with, settings):
    settings.EMAIL_HOST = "mail.example.com"
    add(recipients=["ann@example.com"])
    run_with(5)
    FigureCrossing.objects.update(at=timezone.now() - timedelta(days=2))
    assert send_alert_mail() == 0 and not mail.outbox


def test_while_the_console_is_read_only_an_alert_waits_for_the_next_run(run_with, monkeypatch):
    from analytics.runs import alerts
    from grants.errors import JournalReadOnly

    def refuse():
        raise JournalReadOnly("the key is missing")

    add()
    with monkeypatch.context() as patch:
        patch.setattr(alerts, "lock_journal", refuse)
        run_with(9)
    assert not fired() and not FigureAlert.objects.get().is_crossed
    run_with(9)
    assert len(fired()) == 1


@pytest.mark.parametrize(
    ("fields", "message", "field"),
    [
        ({"analysis": "strandet"}, "is not an analysis; the analyses are", "analysis"),
        ({"figure": "pairs"}, "its figures are live_entities, entities_nobody", "figure"),
        ({"value": -1}, "from 0 to 1,000,000,000,000,000", "value"),
        ({"value": 10**15 + 1}, "from 0 to", "value"),
        ({"is_above": False, "value": 0}, "from 1 to", "value"),
        ({"recipients": ["ann"]}, "`ann` is not an email address", "recipients"),
        ({"recipients": ["a@example.com\nBcc: b@example.com"]}, "is not an email address", "recipients"),
        ({"recipients": [f"a{n}@example.com" for n in range(11)]}, "at most 10 recipients", "recipients"),
    ],
)
def test_an_invalid_alert_is_refused_with_the_member_at_fault(fields, message, field):
    with pytest.raises(AlertError, match=message) as caught:
        add(**fields)
    assert caught.value.field == field and not FigureAlert.objects.exists()
    assert not JournalLine.objects.filter(action="alert-add").exists()


def test_adding_and_deleting_leave_journal_lines_without_addresses():
    alert = add(recipients=["ann@example.com"])
    delete_alert(author=Author("test"), number=alert.pk)
    details = JournalLine.objects.filter(action__startswith="alert-").values_list("detail", flat=True)
    assert [detail.endswith("above 4, e-mail to 1 address") for detail in details] == [True, True]
    with pytest.raises(UnknownAlert, match="no alert with the number"):
        delete_alert(author=COMMAND, number=alert.pk)
