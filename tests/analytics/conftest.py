"""Fixtures that stand in for Celery and Spark, and fixtures of the comparisons with references."""

import pytest

from analytics.stages import RunStage


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


@pytest.fixture
def folder(settings, tmp_path, monkeypatch):
    """Return a folder. `manage.py analyze` stores snapshots there, and keeps Spark running."""
    settings.SNAPSHOT_URI = str(tmp_path / "snapshots")
    monkeypatch.setattr("analytics.runs.execution.stop_spark", lambda: None)
    return tmp_path


@pytest.fixture
def size(request, monkeypatch):
    """Set the size of the largest snapshot that counts as small.

    LARGE also lowers every limit of the engine: namespaces are split into blocks, and users, counts and pairs are
    processed in several steps.
    """
    from tests.support.analyses import LARGE, lower_limits

    monkeypatch.setattr("analytics.computation.SMALL_SNAPSHOT_BYTES", request.param)
    if request.param == LARGE:
        lower_limits(monkeypatch)
