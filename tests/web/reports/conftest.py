"""Fixtures of the report pages: no worker, and a delete-readiness report written by hand."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.utils import timezone

from analytics.analyses import analysis_by_name
from analytics.models import AnalysisRun
from analytics.snapshots.snapshot import arrow_schema
from grants.journal import current_revision
from grants.models import JobState
from tests.support.readiness_report import ANALYSIS, CHANGES, ROWS, SUMMARY
from tests.support.reports import write_report


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
    run = AnalysisRun.objects.create(
        type=ANALYSIS,
        options={"generation": "final", "namespace": ""},
        state=JobState.DONE,
        summary=SUMMARY,
        revision=current_revision(),
        result_path="results/by-hand",
        started_at=timezone.now(),
        finished_at=timezone.now(),
        requested_by=cast["ada"],
    )
    for name, rows in ROWS.items():
        table = analysis_by_name(ANALYSIS).table(name)
        folder = tmp_path / run.result_path / name
        folder.mkdir(parents=True)
        columns = [pa.array(values) for values in zip(*rows, strict=True)]
        pq.write_table(
            pa.table(columns, names=table.column_names).cast(arrow_schema(table)), folder / "part-0.parquet"
        )
    return run


@pytest.fixture
def compared_report(report, tmp_path):
    """The report with its changes since an earlier one."""
    report.summary = SUMMARY | {"changes": {"run": 77, "revision": 0, "added": 1, "removed": 1, "changed": 1}}
    report.save()
    write_report(tmp_path, report, {"changes": CHANGES})
    return report
