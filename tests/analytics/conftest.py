"""Fixtures that stand in for Celery and Spark."""

import pytest

from analytics.models import RunStage


@pytest.fixture
def storage_folder(settings, tmp_path):
    """Return the folder of SNAPSHOT_URI."""
    settings.SNAPSHOT_URI = str(tmp_path)
    return tmp_path


@pytest.fixture
def replace_computation(monkeypatch):
    """Return a function that replaces the computation with Spark by its argument. It returns the list of the
    folders computed so far."""
    from analytics.runs.execution import ComputedReport

    folders = []

    def replace(compute=lambda progress: None):
        def compute_report(*, progress, folder, **arguments):
            folders.append(folder)
            progress.begin_stage(RunStage.COMPUTING)
            compute(progress)
            return ComputedReport(7, {"pairs": 1})

        monkeypatch.setattr("analytics.runs.execution.compute_report", compute_report)
        return folders

    return replace
