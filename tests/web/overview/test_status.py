"""The status page, and the maintenance records that it shows."""

import io
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from analytics.models import AnalysisRun, Schedule
from authzconsole import tasks
from authzconsole.common.monitoring import maintenance
from authzconsole.common.monitoring.maintenance import record_maintenance, verify_journal_if_due
from authzconsole.common.monitoring.readiness import CheckResult
from authzconsole.models import MaintenanceRecord, MaintenanceTask
from grants.journal import current_revision
from grants.models import JobState, JournalHead
from tests.support.pages import page_html

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def checks(monkeypatch):
    """Replace the checks, which use other connections than the test."""
    results = [
        CheckResult("database", True, "sqlite"),
        CheckResult("worker", False, "no worker for the queue runs"),
    ]
    monkeypatch.setattr("authzconsole.web.overview.status.readiness", lambda: results)
    return results


def rows(response) -> dict[str, tuple[str, str]]:
    return {
        row.title: (row.level, row.text) for row in (*response.context["checks"], *response.context["tasks"])
    }


def test_the_page_has_the_checks_of_readyz_and_says_what_never_happened(browse, django_assert_num_queries):
    client = browse("aud")
    client.get("/status")
    with django_assert_num_queries(8):  # the session and the account, then those of the page
        response = client.get("/status")
    assert rows(response) == {
        "Database": ("good", "sqlite"),
        "Workers": ("bad", "no worker for the queue runs"),
        "Changes": ("good", "possible"),
        "Journal verification": ("attention", "not verified yet; a worker does it once a day"),
        "Journal anchor": ("", "off: JOURNAL_ANCHOR names no place outside the database"),
        "Backup": ("attention", "no backup was written with `manage.py backup`"),
        "E-mail about ended access": ("", "off: EMAIL_HOST names no mail server"),
        "Names": ("good", "no two users or groups have names that differ only in case"),
    }
    assert "1 problem found, and 2 things need attention." in page_html(response)


def test_the_page_has_the_last_run_of_each_analysis(browse, checks):
    del checks[1]
    now = timezone.now()
    AnalysisRun.objects.create(type="stranded", state=JobState.DONE, finished_at=now)
    failed = AnalysisRun.objects.create(
        type="stranded", state=JobState.FAILED, error="Java is missing.", finished_at=now
    )
    AnalysisRun.objects.create(type="stranded", state=JobState.RUNNING, heartbeat_at=now)
    Schedule.objects.create(analysis="stranded", is_on=True)
    response = browse("aud").get("/status")
    assert "1 problem found, and 2 things need attention." in page_html(
        response
    ) and "Java is missing." in page_html(response)
    runs = {analysis.name: run for analysis, _, run in response.context["nights"]}
    assert runs["stranded"] == failed and runs["ghost-grants"] is None


def test_verifying_the_journal_is_recorded(browse, monkeypatch):
    faults = [
        None,
        "the status of user:dee is `inactive` in the tables, but `active` after line 3 of the journal",
    ]
    monkeypatch.setattr(maintenance, "first_fault", lambda facts: faults.pop(0))
    call_command("verify_journal", stdout=io.StringIO())
    record = MaintenanceRecord.objects.get()
    assert (record.task, record.is_ok, record.revision) == ("journal-verification", True, current_revision())
    with pytest.raises(CommandError):
        call_command("verify_journal", stdout=io.StringIO())
    response = browse("aud").get("/status")
    level, text = rows(response)["Journal verification"]
    assert level == "bad" and text.startswith("the status of user:dee")
    assert f"up to revision {current_revision()}" in page_html(response)


def test_a_verification_of_the_chain_only_is_not_recorded(cast):
    call_command("verify_journal", "--chain-only", stdout=io.StringIO())
    assert not MaintenanceRecord.objects.exists()


def test_the_task_verifies_once_a_day(cast, monkeypatch):
    verifications = []
    monkeypatch.setattr(maintenance, "first_fault", lambda facts: verifications.append(1))
    assert verify_journal_if_due() and not verify_journal_if_due()
    MaintenanceRecord.objects.update(at=timezone.now() - timedelta(hours=24))
    verify_journal_if_due()
    assert len(verifications) == 2


def test_anchors_are_recorded_and_shown(browse, settings, tmp_path):
    settings.JOURNAL_ANCHOR = [f"file:{tmp_path / 'anchor'}"]
    tasks.anchor_journal_head()
    assert rows(browse("aud").get("/status"))["Journal anchor"] == ("good", "written")
    settings.JOURNAL_ANCHOR = ["file:/no/such/folder/anchor"]
    tasks.anchor_journal_head()
    level, text = rows(browse("aud").get("/status"))["Journal anchor"]
    assert level == "bad" and "/no/such/folder" in text


def test_a_new_result_replaces_the_last_one():
    record_maintenance(MaintenanceTask.BACKUP, revision=3, fault="no space left")
    record_maintenance(MaintenanceTask.BACKUP, revision=4, details="monday.tar")
    record = MaintenanceRecord.objects.get()
    assert (record.is_ok, record.revision, record.text) == (True, 4, "monday.tar")


def test_old_results_and_a_read_only_console_are_marked(browse, settings):
    settings.EMAIL_HOST = "mail.example.com"
    record_maintenance(MaintenanceTask.BACKUP, revision=1, details="monday.tar")
    MaintenanceRecord.objects.update(at=timezone.now() - timedelta(days=9))
    JournalHead.objects.update(hash="0" * 64)
    page = rows(browse("aud").get("/status"))
    assert page["Backup"] == ("attention", "monday.tar, but long ago")
    assert page["E-mail about ended access"] == ("attention", "not sent yet; a worker does it twice a minute")
    assert page["Changes"][0] == "bad" and page["Changes"][1].startswith("The console is read-only: ")


def test_a_missing_backup_is_counted_in_the_first_sentence(browse, checks):
    checks[1] = CheckResult("worker", True, "1 worker")
    assert "No problems found, but 2 things need attention." in page_html(browse("aud").get("/status"))
