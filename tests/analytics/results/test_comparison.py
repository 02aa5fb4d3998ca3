"""Comparison of a report with the previous report."""

import html

import pytest
from django.test import Client

from analytics.analyses import ANALYSES, analysis_by_name
from analytics.models import AnalysisRun
from analytics.results.compare import compare_with_previous, previous_report
from analytics.results.read import TableLeftOut, result_page
from grants.jobs import JobCancelled
from grants.models import JobState, Role, User
from tests.support.reports import create_report

pytestmark = pytest.mark.django_db

BEFORE = [
    ("eng", "ada", 3, 1, 2, False),
    ("eng", "bob", 3, 3, 0, True),
    ("hr", "ada", 1, 1, 0, True),
    ("hr", "cy", 1, 0, 1, False),
]
AFTER = [
    ("eng", "ada", 4, 4, 0, True),
    ("eng", "bob", 3, 3, 0, True),
    ("hr", "ada", 1, 1, 0, True),
    ("hr", "dee", 1, 0, 1, False),
    ("it", "ada", 9, 0, 9, False),
]


@pytest.fixture(autouse=True)
def storage(settings, tmp_path):
    settings.SNAPSHOT_URI = str(tmp_path)
    return tmp_path


def compare(run):
    """Compare the run, and return its changes or None."""
    run.summary = compare_with_previous(run, run.result_path, check=lambda: None)
    run.save()
    return run.summary.get("changes")


def test_rows_are_added_removed_and_changed_by_key_and_counted(storage):
    earlier = create_report(storage, {"rows": BEFORE}, revision=5)
    run = create_report(storage, {"rows": AFTER}, revision=8)
    assert compare(run) == {"run": earlier.pk, "revision": 5, "added": 2, "removed": 1, "changed": 1}
    page = result_page(run, "changes")
    assert [(row["namespace"], row["user"], row["change"]) for row in page.rows] == [
        ("eng", "ada", "changed"),
        ("hr", "cy", "removed"),
        ("hr", "dee", "added"),
        ("it", "ada", "added"),
    ]
    changed, removed, added, _ = page.rows
    assert (changed["missing_before"], changed["missing_after"]) == (2, 0)
    assert (changed["ready_before"], changed["ready_after"]) == (False, True)
    assert (removed["missing_before"], removed["missing_after"]) == (1, None)
    assert (added["ready_before"], added["ready_after"]) == (None, False)


def test_a_report_is_compared_with_the_newest_kept_report_with_the_same_options(storage):
    expected = create_report(storage, {"rows": BEFORE})
    create_report(storage, {"rows": BEFORE}, options={"generation": "core", "namespace": ""})
    create_report(storage, {"rows": BEFORE}, options={"generation": "final", "namespace": "hr"})
    removed = create_report(storage, {"rows": BEFORE}, result_removed_at="2026-01-01T00:00Z")
    AnalysisRun.objects.create(type="delete-readiness", options=expected.options, state=JobState.FAILED)
    run = create_report(storage, {"rows": AFTER})
    create_report(storage, {"rows": BEFORE})
    assert (
        previous_report(run) == expected
        and previous_report(expected) is None
        and previous_report(removed) == expected
    )


def test_the_first_report_has_no_comparison(storage):
    run = create_report(storage, {"rows": BEFORE})
    assert compare(run) is None
    with pytest.raises(TableLeftOut, match=f"run {run.pk} was not compared"):
        result_page(run, "changes")


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_bytes(b"cut off")])
def test_a_failed_comparison_says_so_and_does_not_affect_the_new_report(storage, damage):
    earlier = create_report(storage, {"rows": BEFORE})
    damage(storage / earlier.result_path / "rows" / "part-0.parquet")
    run = create_report(storage, {"rows": AFTER})
    assert compare(run) is None and len(result_page(run).rows) == len(AFTER)
    assert (
        run.summary["comparison_fault"]["run"] == earlier.pk
        and not (storage / run.result_path / "changes").exists()
    )
    reason = "the report's files are "
    with pytest.raises(
        TableLeftOut, match=f"the comparison of run {run.pk} with run {earlier.pk} failed: {reason}"
    ):
        result_page(run, "changes")
    run.summary |= dict.fromkeys(analysis_by_name(run.type).figures, 0)
    run.save()
    client = Client()
    client.force_login(User.objects.create_user("ada", role=Role.ADMINISTRATOR, is_principal=False))
    page = html.unescape(client.get(f"/analyses/{run.pk}/").content.decode())
    assert f"The comparison with run {earlier.pk} failed: {reason}" in page
    response = client.get(f"/api/v1/runs/{run.pk}/tables/changes")
    assert response.status_code == 409 and "no earlier report" not in response.json()["detail"]


def test_a_comparison_that_cannot_be_written_names_the_folder(storage):
    create_report(storage, {"rows": BEFORE})
    run = create_report(storage, {"rows": AFTER})
    (storage / run.result_path / "changes").write_text("in the way")
    assert compare(run) is None
    assert run.summary["comparison_fault"]["reason"].startswith(
        f"The folder of snapshots and results, {storage}, cannot be"
    )


def test_ending_the_run_ends_the_comparison(storage):
    create_report(storage, {"rows": BEFORE})
    run = create_report(storage, {"rows": AFTER})

    def end():
        raise JobCancelled("cancelled")

    with pytest.raises(JobCancelled):
        compare_with_previous(run, run.result_path, check=end)


def rows_of_users(numbers):
    return [("sales", f"user {number:05}", 9, 9, 0, True) for number in numbers]


def test_the_changes_are_written_in_batches(storage, monkeypatch):
    monkeypatch.setattr("analytics.results.compare.ROWS_PER_BATCH", 100)
    before, after = range(0, 3_000, 2), range(0, 3_000, 3)
    earlier = create_report(storage, {"rows": rows_of_users(before)})
    run = create_report(storage, {"rows": rows_of_users(after)})
    assert compare(run) == {
        "run": earlier.pk,
        "revision": earlier.revision,
        "added": 500,
        "removed": 1_000,
        "changed": 0,
    }
    users = [row["user"] for row in result_page(run, "changes", max_rows=10_000).rows]
    assert users == sorted(f"user {number:05}" for number in set(before) ^ set(after))


@pytest.mark.parametrize("name", ANALYSES)
def test_the_changes_of_every_analysis_can_be_computed(storage, name):
    analysis = analysis_by_name(name)
    row = tuple({"long": 1, "string": "x", "boolean": True}[column.type] for column in analysis.rows.columns)
    other = tuple(
        value * 2 if column.name == analysis.rows.key[0] else value
        for value, column in zip(row, analysis.rows.columns, strict=True)
    )
    options = dict.fromkeys(analysis.options, "final")
    create_report(storage, {"rows": [row]}, analysis=name, options=options)
    run = create_report(storage, {"rows": [other]}, analysis=name, options=options)
    assert [compare(run)[change] for change in ("added", "removed", "changed")] == [1, 1, 0]
    assert tuple(result_page(run, "changes").rows[0]) == analysis.changes.column_names
