"""Retention of reports: by number and by age, but never the latest report or a report that is being read."""

import os
import time
from datetime import timedelta

import pytest
from django.utils import timezone

from analytics.models import AnalysisRun, RunState
from analytics.results.files import ResultsGone
from analytics.results.read import result_page, result_stream
from analytics.runs.retention import ABANDONED_AFTER, LAST_READERS, clean_results
from analytics.storage import database_identity
from tests.support.reports import create_report

pytestmark = pytest.mark.django_db

ROWS = {"rows": [("eng", "ada", 3, 1, 2, False)]}


@pytest.fixture(autouse=True)
def place(settings, tmp_path):
    settings.SNAPSHOT_URI, settings.RESULTS_KEPT, settings.RESULTS_KEPT_DAYS = str(tmp_path), 2, 30
    return tmp_path


def kept():
    return list(AnalysisRun.objects.filter(results_removed_at=None).order_by("pk"))


def long_ago(days):
    return timezone.now() - timedelta(days=days)


def test_the_latest_reports_of_each_question_are_kept_and_others_marked_removed(place):
    done = [create_report(place, ROWS) for _ in range(4)]
    other = [create_report(place, ROWS, options={"generation": "core", "namespace": ""}) for _ in range(2)]
    failed = AnalysisRun.objects.create(analysis="delete-readiness", options=done[0].options, state=RunState.FAILED)
    clean_results()
    assert kept() == [*done[2:], *other, failed]
    with pytest.raises(ResultsGone, match=f"run {done[0].pk} was removed on"):
        result_page(AnalysisRun.objects.get(pk=done[0].pk))


def test_old_reports_are_removed_except_the_latest(place, settings):
    old = [create_report(place, ROWS, finished_at=long_ago(40)) for _ in range(2)]
    alone = create_report(place, {"rows": [("ada", "dataset", "eng", 4)]}, analysis="visibility", options={"generation": "final"},
                          finished_at=long_ago(400))
    settings.RESULTS_KEPT_DAYS = 0
    clean_results()
    assert kept() == [*old, alone]
    settings.RESULTS_KEPT_DAYS = 30
    clean_results()
    assert kept() == [old[1], alone]


@pytest.mark.parametrize("number", [0, -3])
def test_no_setting_removes_the_latest_report(place, settings, number):
    settings.RESULTS_KEPT = number
    newest = [create_report(place, ROWS) for _ in range(3)][-1]
    clean_results()
    assert kept() == [newest]


def test_files_are_deleted_after_their_readers_had_time_to_finish(place):
    runs = [create_report(place, ROWS) for _ in range(3)]
    batches = result_stream(runs[0], "rows")
    clean_results()
    clean_results()
    assert (place / runs[0].result_folder).is_dir() and sum(batch.num_rows for batch in batches) == 1
    AnalysisRun.objects.filter(pk=runs[0].pk).update(results_removed_at=timezone.now() - LAST_READERS - timedelta(minutes=1))
    clean_results()
    assert not (place / runs[0].result_folder).exists() and all((place / run.result_folder).is_dir() for run in runs[1:])
    assert AnalysisRun.objects.get(pk=runs[0].pk).result_folder == ""
    assert AnalysisRun.objects.get(pk=runs[0].pk).summary == runs[0].summary


def folder(place, name, *, hours_old):
    path = place / "results" / database_identity() / name
    (path / "rows").mkdir(parents=True)
    (path / "rows" / "part-0.parquet").write_bytes(b"half")
    touched = time.time() - hours_old * 3_600
    for one in (path / "rows" / "part-0.parquet", path / "rows", path):
        os.utime(one, (touched, touched))
    return path


def test_folders_of_killed_processes_are_removed_after_a_period_without_changes(place):
    old = ABANDONED_AFTER.total_seconds() / 3_600 + 1
    run = AnalysisRun.objects.create(analysis="visibility", state=RunState.RUNNING, attempt=2, claim="c")
    done = AnalysisRun.objects.create(analysis="visibility", state=RunState.DONE, attempt=1)
    AnalysisRun.objects.filter(pk=done.pk).update(result_folder=f"results/{database_identity()}/run-{done.pk}-1")
    stay = [folder(place, f"run-{run.pk}-2", hours_old=old), folder(place, f"run-{done.pk}-1", hours_old=old),
            folder(place, "command-abc", hours_old=1), folder(place, "run-98765-1", hours_old=1)]
    go = [folder(place, f"run-{run.pk}-1", hours_old=old), folder(place, "command-def", hours_old=old),
          folder(place, "run-98765-2", hours_old=old)]
    stranger = place / "results" / "another-database" / "run-1-1"
    stranger.mkdir(parents=True)
    clean_results()
    assert all(path.is_dir() for path in [*stay, stranger]) and not any(path.exists() for path in go)


def test_an_unreachable_storage_is_logged_and_does_not_raise(place, settings, caplog):
    for _ in range(3):
        create_report(place, ROWS)
    settings.SNAPSHOT_URI = "nothing://there"
    clean_results()
    assert "Old results could not be removed" in caplog.text and len(kept()) == 2


def test_cleaning_takes_a_fixed_number_of_queries(place, django_assert_max_num_queries):
    for _ in range(30):
        create_report(place, ROWS)
    with django_assert_max_num_queries(5):
        clean_results()
