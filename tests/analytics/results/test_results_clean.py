"""Retention of reports: by number and by age, but never the latest report or a report that is being read."""

import io
import os
import time
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.utils import timezone

from analytics.models import AnalysisRun
from analytics.results.files import ResultsGone
from analytics.results.read import result_page, result_stream
from analytics.runs.retention import ABANDONED_AFTER, READER_GRACE_PERIOD, clean_results
from analytics.storage_identity import former_identity, storage_identity
from entities.address import parse_address
from grants.change_set import ChangeSet, Delete
from grants.changes import request_change_effect
from grants.journal_queries import first_relevant_line_since
from grants.models import EffectRows, Job, JobState, JournalLine
from tests.support.authors import COMMAND
from tests.support.cast import create_sample_tenant
from tests.support.changes import add_grant
from tests.support.jobs import execute_effect
from tests.support.reports import create_report

pytestmark = pytest.mark.django_db

ROWS = {"rows": [("eng", "ada", 3, 1, 2, False)]}


@pytest.fixture(autouse=True)
def storage(settings, tmp_path):
    """Return the folder of SNAPSHOT_URI. Two reports are kept, for 30 days."""
    settings.SNAPSHOT_URI, settings.RESULTS_KEPT, settings.RESULTS_KEPT_DAYS = str(tmp_path), 2, 30
    return tmp_path


def kept_runs():
    return list(AnalysisRun.objects.filter(result_removed_at=None).order_by("pk"))


def days_ago(days):
    return timezone.now() - timedelta(days=days)


def test_the_latest_reports_with_the_same_options_are_kept_and_others_marked_removed(storage):
    runs = [create_report(storage, ROWS) for _ in range(4)]
    other_runs = [
        create_report(storage, ROWS, options={"generation": "core", "namespace": ""}) for _ in range(2)
    ]
    failed = AnalysisRun.objects.create(
        type="delete-readiness", options=runs[0].options, state=JobState.FAILED
    )
    clean_results()
    assert kept_runs() == [*runs[2:], *other_runs, failed]
    with pytest.raises(ResultsGone, match=f"run {runs[0].pk} was removed on"):
        result_page(AnalysisRun.objects.get(pk=runs[0].pk))


def test_old_reports_are_removed_except_the_latest(storage, settings):
    old = [create_report(storage, ROWS, finished_at=days_ago(40)) for _ in range(2)]
    only_report = create_report(
        storage,
        {"rows": [("ada", "dataset", "eng", 4)]},
        analysis="visibility",
        options={"generation": "final"},
        finished_at=days_ago(400),
    )
    settings.RESULTS_KEPT_DAYS = 0
    clean_results()
    assert kept_runs() == [*old, only_report]
    settings.RESULTS_KEPT_DAYS = 30
    clean_results()
    assert kept_runs() == [old[1], only_report]


@pytest.mark.parametrize("number", [0, -3])
def test_no_setting_removes_the_latest_report(storage, settings, number):
    settings.RESULTS_KEPT = number
    newest = [create_report(storage, ROWS) for _ in range(3)][-1]
    clean_results()
    assert kept_runs() == [newest]


def test_files_are_deleted_after_their_readers_had_time_to_finish(storage):
    runs = [create_report(storage, ROWS) for _ in range(3)]
    batches = result_stream(runs[0], "rows")
    clean_results()
    clean_results()
    assert (storage / runs[0].result_path).is_dir() and sum(batch.num_rows for batch in batches) == 1
    marked_at = timezone.now() - READER_GRACE_PERIOD - timedelta(minutes=1)
    AnalysisRun.objects.filter(pk=runs[0].pk).update(result_removed_at=marked_at)
    clean_results()
    assert not (storage / runs[0].result_path).exists() and all(
        (storage / run.result_path).is_dir() for run in runs[1:]
    )
    assert AnalysisRun.objects.get(pk=runs[0].pk).result_path == ""
    assert AnalysisRun.objects.get(pk=runs[0].pk).summary == runs[0].summary


def create_folder(storage, name, *, hours_old):
    """Create the folder of a run or command, last changed some hours ago."""
    path = storage / "results" / storage_identity() / name
    (path / "rows").mkdir(parents=True)
    (path / "rows" / "part-0.parquet").write_bytes(b"half")
    changed_at = time.time() - hours_old * 3_600
    for changed_path in (path / "rows" / "part-0.parquet", path / "rows", path):
        os.utime(changed_path, (changed_at, changed_at))
    return path


def test_folders_of_killed_processes_are_removed_after_a_period_without_changes(storage):
    old = ABANDONED_AFTER.total_seconds() / 3_600 + 1
    run = AnalysisRun.objects.create(type="visibility", state=JobState.RUNNING, attempt=2, claim="c")
    done = AnalysisRun.objects.create(type="visibility", state=JobState.DONE, attempt=1)
    AnalysisRun.objects.filter(pk=done.pk).update(result_path=f"results/{storage_identity()}/run-{done.pk}-1")
    needed = [
        create_folder(storage, f"run-{run.pk}-2", hours_old=old),
        create_folder(storage, f"run-{done.pk}-1", hours_old=old),
        create_folder(storage, "command-abc", hours_old=1),
        create_folder(storage, "run-98765-1", hours_old=1),
    ]
    abandoned = [
        create_folder(storage, f"run-{run.pk}-1", hours_old=old),
        create_folder(storage, "command-def", hours_old=old),
        create_folder(storage, "run-98765-2", hours_old=old),
    ]
    other_database = storage / "results" / "another-database" / "run-1-1"
    other_database.mkdir(parents=True)
    clean_results()
    assert all(path.is_dir() for path in [*needed, other_database]) and not any(
        path.exists() for path in abandoned
    )


def test_an_unreachable_storage_is_logged_and_does_not_raise(storage, settings, caplog):
    for _ in range(3):
        create_report(storage, ROWS)
    settings.SNAPSHOT_URI = "nothing://there"
    clean_results()
    assert "Old results could not be removed" in caplog.text and len(kept_runs()) == 2


def test_cleaning_takes_a_fixed_number_of_queries(storage, django_assert_max_num_queries):
    for _ in range(30):
        create_report(storage, ROWS)
    with django_assert_max_num_queries(8):
        clean_results()


def mark_removed(run):
    AnalysisRun.objects.filter(pk=run.pk).update(
        result_removed_at=timezone.now() - READER_GRACE_PERIOD - timedelta(minutes=1)
    )


def move_report(storage, run, folder):
    """Move the files of a report, as if a console with another identity had written them."""
    (storage / folder).parent.mkdir(parents=True)
    (storage / run.result_path).rename(storage / folder)
    AnalysisRun.objects.filter(pk=run.pk).update(result_path=folder)
    run.refresh_from_db()


def test_a_copied_database_reads_and_keeps_the_reports_of_the_original_console(storage):
    run = create_report(storage, ROWS)
    original = storage_identity()
    out = io.StringIO()
    call_command("new_storage_identity", reason="copied for tests", stdout=out)
    assert storage_identity() != original and out.getvalue() == (
        f"The storage identity is {storage_identity()} instead of {original}.\n"
    )
    line = JournalLine.objects.latest("revision")
    assert (line.action, line.detail, line.reason) == (
        "storage-identity",
        f"{original} to {storage_identity()}",
        "copied for tests",
    )
    assert first_relevant_line_since(0) is None
    assert result_page(run).total_rows == 1
    mark_removed(run)
    clean_results()
    assert (storage / run.result_path).is_dir()
    assert AnalysisRun.objects.get(pk=run.pk).result_path == ""


@pytest.mark.parametrize("is_private", [False, True])
def test_files_of_version_1_are_deleted_only_from_a_private_storage(storage, settings, is_private):
    settings.STATE_DIR = storage.parent if is_private else storage / "state"
    run = create_report(storage, ROWS)
    move_report(storage, run, f"results/{former_identity()}/run-{run.pk}-1")
    old = time.time() - 2 * ABANDONED_AFTER.total_seconds()
    abandoned = [
        storage / former_identity() / "revision=1" / "users",
        storage / "results" / former_identity() / "run-9-1",
    ]
    for folder in abandoned:
        folder.mkdir(parents=True)
        (folder / "part-0.parquet").write_bytes(b"")
        for path in (folder / "part-0.parquet", folder, folder.parent, folder.parent.parent):
            os.utime(path, (old, old))
    clean_results()
    # the report stays readable until it is removed
    assert result_page(run).total_rows == 1
    mark_removed(run)
    clean_results()
    paths = [storage / run.result_path, *abandoned]
    assert [path.exists() for path in paths] == [not is_private] * len(paths)


def test_rows_of_outdated_effects_are_deleted(storage):
    create_sample_tenant()
    sales = parse_address("namespace:sales")
    job = request_change_effect(
        changes=ChangeSet.of(Delete(sales)), generation="final", author=COMMAND, requested_by=None
    )
    execute_effect(job)
    clean_results()
    assert job in kept_runs_of("change-effect")
    add_grant("user:out", sales, "READ")
    clean_results()
    assert not kept_runs_of("change-effect") and EffectRows.objects.filter(job=job).exists()
    Job.objects.update(result_removed_at=days_ago(1))
    clean_results()
    assert not EffectRows.objects.exists()


def kept_runs_of(job_type):
    return list(Job.objects.filter(type=job_type, result_removed_at=None))
