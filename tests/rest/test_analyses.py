"""Runs and reports over REST.

The tests write the reports themselves; tests/analytics/spark tests reports of Spark.
"""

import io
import json
from datetime import timedelta

import pyarrow.parquet as pq
import pytest
from django.utils import timezone

from analytics.models import AnalysisRun
from grants.models import JobState
from tests.rest.conftest import problem
from tests.support.reports import create_report, write_report

pytestmark = pytest.mark.django_db

NAME = "delete-readiness"
ROWS = [("hr", "dee", 2, 0, 2, False), ("sales", "dee", 6, 1, 5, False), ("sales", 'n"ed, jr', 6, 6, 0, True)]


@pytest.fixture(autouse=True)
def sent_runs(monkeypatch, settings, tmp_path):
    settings.SNAPSHOT_URI = str(tmp_path)
    runs = []
    monkeypatch.setattr("grants.jobs.lifecycle.send_job", runs.append)
    monkeypatch.setattr("analytics.runs.selectors.redis_problem", lambda: "")
    monkeypatch.setattr("analytics.runs.selectors.is_worker_present", lambda: True)
    return runs


@pytest.fixture
def report(cast, tmp_path):
    return create_report(tmp_path, {"rows": ROWS}, finished_at=timezone.now(), revision=5)


def test_analyses_describe_their_options_and_tables(ada):
    (analysis,) = [item for item in ada.get("/analyses").json()["items"] if item["name"] == NAME]
    assert analysis["options"] == ["generation", "namespace"]
    assert [table["name"] for table in analysis["tables"]] == ["rows", "namespaces", "detail", "changes"]
    assert analysis["tables"][0]["key"] == ["namespace", "user"]


def test_a_run_can_be_started_followed_and_cancelled(
    ada, by_session, sent_runs, django_capture_on_commit_callbacks
):
    with django_capture_on_commit_callbacks(execute=True):
        started = ada.post("/runs", {"analysis": NAME, "generation": "core", "namespace": "sales"})
    assert started.status_code == 202 and len(sent_runs) == 1
    run = by_session("aud").client.get(started["Location"]).json()
    assert (
        run == started.json() | {"state": "waiting"} and run["waiting_reason"] == "It starts within seconds."
    )
    assert (run["analysis"], run["options"], run["requested_by"]) == (
        NAME,
        {"generation": "core", "namespace": "sales"},
        "ada",
    )
    for _ in range(2):
        answer = ada.client.post(f"{started['Location']}/cancel", content_type="application/json")
        assert answer.status_code == 200 and answer.json()["state"] == "cancelled"


@pytest.mark.parametrize("state", [state for state in JobState.values if state != "running"])
def test_only_a_running_run_has_a_stage(ada, report, state):
    AnalysisRun.objects.update(state=state, stage="writing")
    assert ada.get(f"/runs/{report.pk}").json()["stage"] == ""
    AnalysisRun.objects.update(state=JobState.RUNNING)
    assert ada.get(f"/runs/{report.pk}").json()["stage"] == "writing"


def test_a_requested_cancellation_is_visible_before_the_run_ends(ada, report):
    AnalysisRun.objects.update(state=JobState.RUNNING)
    assert ada.get(f"/runs/{report.pk}").json()["cancel_requested"] is False
    answer = ada.post(f"/runs/{report.pk}/cancel").json()
    assert (answer["state"], answer["cancel_requested"]) == ("running", True)
    assert ada.get(f"/runs/{report.pk}").json()["cancel_requested"] is True


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"analysis": NAME, "namespace": "nowhere"}, "namespace"),
        ({"analysis": NAME, "namespace": "a b"}, "namespace"),
        ({"analysis": NAME, "to_generation": "core"}, "to_generation"),
        ({"analysis": "policy-impact"}, "to_generation"),
    ],
)
def test_an_invalid_option_is_named_and_no_run_is_started(ada, body, field):
    assert [error["field"] for error in problem(ada.post("/runs", body), 400)["errors"]] == [field]
    assert not AnalysisRun.objects.exists()


def test_an_unknown_table_is_refused_with_the_valid_names_for_readers_only(by_session, report):
    refused = problem(by_session("aud").get(f"/runs/{report.pk}/tables/nothing"), 404)
    assert refused["detail"].endswith("its tables are rows, namespaces, detail, changes")
    assert "tables" not in problem(by_session("ned").get(f"/runs/{report.pk}/tables/nothing"), 403)["detail"]


def test_runs_are_listed_newest_first(ada, report):
    AnalysisRun.objects.create(type=NAME, options={})
    assert [run["state"] for run in ada.all_of("/runs", limit=1)] == ["waiting", "done"]
    assert [run["number"] for run in ada.all_of("/runs", state="done", analysis=NAME)] == [report.pk]
    assert ada.all_of("/runs", analysis="visibility") == []


def test_a_report_is_paged_and_filtered(ada, report):
    path = f"/runs/{report.pk}/tables/rows"
    columns = ("namespace", "user", "required", "held", "missing", "ready")
    assert ada.all_of(path, limit=2) == [dict(zip(columns, row, strict=True)) for row in ROWS]
    page = ada.get(path, limit=1, user="dee").json()
    assert page["total"] == 2 and page["items"][0]["namespace"] == "hr"
    problem(ada.get(path, cursor=page["next"]), 400)
    assert ada.get(path, cursor=page["next"], user="dee").json()["items"][0]["namespace"] == "sales"


def test_a_report_is_downloaded_as_csv_and_parquet(ada, report):
    csv = ada.client.get(f"/api/v1/runs/{report.pk}/tables/rows.csv", headers={"Accept": "text/csv"})
    assert csv["Content-Type"] == "text/csv" and f"{NAME}-{report.pk}-rows.csv" in csv["Content-Disposition"]
    assert b"".join(csv).decode().splitlines() == [
        "namespace,user,required,held,missing,ready",
        "hr,dee,2,0,2,false",
        "sales,dee,6,1,5,false",
        'sales,"n""ed, jr",6,6,0,true',
    ]
    parquet = ada.get(f"/runs/{report.pk}/tables/rows.parquet")
    assert parquet["Content-Type"] == "application/vnd.apache.parquet"
    table = pq.read_table(io.BytesIO(b"".join(parquet)))
    assert [tuple(row.values()) for row in table.to_pylist()] == ROWS


def test_a_csv_file_contains_no_formulas(ada, cast, tmp_path):
    rows = [("hr", formula, 2, 0, 2, False) for formula in ("=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\uff1d1")]
    report = create_report(tmp_path, {"rows": rows})
    users = {
        suffix: b"".join(ada.client.get(f"/api/v1/runs/{report.pk}/tables/rows.{suffix}")).decode()
        for suffix in ("csv", "jsonl")
    }
    assert sorted(line.split(",")[1][:2] for line in users["csv"].splitlines()[1:]) == [
        "'\t",
        "'+",
        "'-",
        "'=",
        "'@",
        "'\uff1d",
    ]
    assert '"=1+1"' in users["jsonl"]


@pytest.mark.parametrize("suffix", ["", ".csv", ".parquet", ".jsonl"])
def test_a_missing_report_is_refused_with_the_reason(ada, report, suffix):
    path = f"/runs/{report.pk}/tables"
    problem(ada.get(f"{path}/nothing{suffix}"), 404)
    problem(ada.get(f"/runs/{report.pk + 99}/tables/rows{suffix}"), 404)
    problem(ada.get(f"/runs/{'9' * 30}/tables/rows{suffix}"), 404)
    assert "files" in problem(ada.get(f"{path}/namespaces{suffix}"), 410)["detail"]
    AnalysisRun.objects.update(state=JobState.RUNNING)
    assert "is running, so it has no report" in problem(ada.get(f"{path}/rows{suffix}"), 409)["detail"]


def test_a_filter_by_an_unknown_column_is_refused(ada, report):
    AnalysisRun.objects.update(state=JobState.DONE)
    assert "no column" in problem(ada.get(f"/runs/{report.pk}/tables/namespaces", user="dee"), 400)["detail"]


def test_only_administrators_and_auditors_read_reports(by_session, report):
    for suffix in ("", ".csv", ".parquet", ".jsonl"):
        assert b"".join(by_session("aud").get(f"/runs/{report.pk}/tables/rows{suffix}"))
        problem(by_session("ned").get(f"/runs/{report.pk}/tables/rows{suffix}"), 403)
        problem(by_session("ned").get(f"/runs/99/tables/rows{suffix}"), 403)


def test_a_report_is_downloaded_as_json_lines(ada, report):
    answer = ada.get(f"/runs/{report.pk}/tables/rows.jsonl")
    assert answer["Content-Type"] == "application/x-ndjson"
    assert [tuple(json.loads(line).values()) for line in b"".join(answer).splitlines()] == ROWS


@pytest.mark.parametrize("suffix", ["", ".csv", ".parquet", ".jsonl"])
def test_a_removed_report_is_gone_and_an_omitted_table_is_a_conflict(ada, report, suffix):
    path = f"/runs/{report.pk}/tables"
    AnalysisRun.objects.update(summary={"detail_is_written": False, "detail_rows": 7_000_000})
    assert "7,000,000 rows" in problem(ada.get(f"{path}/detail{suffix}"), 409)["detail"]
    assert "was not compared" in problem(ada.get(f"{path}/changes{suffix}"), 409)["detail"]
    AnalysisRun.objects.update(result_removed_at="2026-03-01T00:00Z", result_path="")
    assert "was removed on 01 March 2026" in problem(ada.get(f"{path}/rows{suffix}"), 410)["detail"]
    assert ada.get(f"/runs/{report.pk}").json()["results_removed_at"] == "2026-03-01T00:00:00Z"


def test_the_changes_since_the_previous_run_are_paged_and_filtered(ada, report, tmp_path):
    write_report(
        tmp_path,
        report,
        {
            "changes": [
                ("hr", "dee", "removed", 2, None, 0, None, 2, None, False, None),
                ("sales", "dee", "changed", 6, 6, 1, 6, 5, 0, False, True),
            ]
        },
    )
    AnalysisRun.objects.update(
        summary={"changes": {"run": 1, "revision": 3, "added": 0, "removed": 1, "changed": 1}}
    )
    path = f"/runs/{report.pk}/tables/changes"
    assert [row["change"] for row in ada.all_of(path, limit=1)] == ["removed", "changed"]
    (changed,) = ada.all_of(path, change="changed", user="dee")
    assert (changed["missing_before"], changed["missing_after"]) == (5, 0)
    problem(ada.get(path, change="nonsense"), 400)
    problem(ada.get(f"/runs/{report.pk}/tables/rows", change="added"), 400)


def test_a_running_run_shows_the_seconds_since_its_last_heartbeat(ada, report):
    assert ada.get(f"/runs/{report.pk}").json()["silent_seconds"] is None
    AnalysisRun.objects.update(state=JobState.RUNNING, heartbeat_at=timezone.now() - timedelta(seconds=30))
    assert 30 <= ada.get(f"/runs/{report.pk}").json()["silent_seconds"] < 40
