"""Fixtures of the report pages: no worker, and a delete-readiness report written by hand."""

import pytest
from django.utils import timezone

from grants.journal import current_revision
from tests.support.readiness_report import CHANGES, ROWS, SUMMARY
from tests.support.reports import create_report, write_report


@pytest.fixture
def sent_runs(monkeypatch, settings, tmp_path):
    """Collect runs instead of sending them to a worker, and store reports in a folder of the test."""
    settings.SNAPSHOT_URI = str(tmp_path)
    runs = []
    monkeypatch.setattr("grants.jobs.lifecycle.send_job", runs.append)
    monkeypatch.setattr("analytics.runs.selectors.redis_problem", lambda: "")
    monkeypatch.setattr("analytics.runs.selectors.is_worker_present", lambda: True)
    return runs


@pytest.fixture
def report(cast, sent_runs, tmp_path):
    now = timezone.now()
    return create_report(
        tmp_path,
        ROWS,
        summary=SUMMARY,
        revision=current_revision(),
        started_at=now,
        finished_at=now,
        requested_by=cast["ada"],
    )


@pytest.fixture
def compared_report(report, tmp_path):
    """The report with its changes since an earlier one."""
    report.summary = SUMMARY | {"changes": {"run": 77, "revision": 0, "added": 1, "removed": 1, "changed": 1}}
    report.save()
    write_report(tmp_path, report, {"changes": CHANGES})
    return report
