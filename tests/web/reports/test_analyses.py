"""The pages of runs and their reports. The reports here are written by hand; Spark's own are in tests/analytics/spark."""

import csv
import io
import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.utils import timezone

from analytics.analyses import analysis_named
from analytics.models import AnalysisRun, RunState
from analytics.snapshots.snapshot import arrow_schema
from grants.journal import current_revision
from tests.support.pages import page_html
from tests.support.reports import report_write

ANALYSIS = "delete-readiness"

ROWS = {
    "rows": [("hr", "dee", 2, 0, 2, False), ("sales", "dee", 6, 1, 5, False), ("sales", "ned", 6, 6, 0, True),
             ("sales", "zed", 6, 6, 0, True)],
    "namespaces": [("empty", 1, 0, 0, None, None, True), ("hr", 2, 1, 0, 2, "dee", True), ("sales", 6, 3, 2, 0, "ned", False)],
    "detail": [("hr", "dee", "dataset:hr.salaries"), ("hr", "dee", "namespace:hr"), ("sales", "dee", "application:sales.shop")],
}
SUMMARY = {"namespaces": 3, "namespaces_somebody_can_delete": 1, "namespaces_nobody_can_delete": 2, "pairs": 4, "pairs_ready": 2,
           "detail_rows": 3, "detail_is_written": True}


@pytest.fixture(autouse=True)
def sent(monkeypatch, settings, tmp_path):
    """No worker is told of anything, and reports lie in a folder of the test's own."""
    settings.SNAPSHOT_URI = str(tmp_path)
    told = []
    monkeypatch.setattr("analytics.runs.services.send_run", told.append)
    monkeypatch.setattr("analytics.runs.selectors.redis_problem", lambda: "")
    monkeypatch.setattr("analytics.runs.selectors.is_worker_present", lambda: True)
    return told


@pytest.fixture
def report(cast, tmp_path):
    run = AnalysisRun.objects.create(
        analysis=ANALYSIS, options={"generation": "final", "namespace": ""}, state=RunState.DONE, summary=SUMMARY,
        revision=current_revision(), result_folder="results/by-hand", started_at=timezone.now(), finished_at=timezone.now(),
        requested_by=cast["ada"])
    for name, rows in ROWS.items():
        table = analysis_named(ANALYSIS).table(name)
        folder = tmp_path / run.result_folder / name
        folder.mkdir(parents=True)
        columns = [pa.array(values) for values in zip(*rows, strict=True)]
        pq.write_table(pa.table(columns, names=table.column_names).cast(arrow_schema(table)), folder / "part-0.parquet")
    return run


def rows_of(response) -> list[tuple]:
    return [(row["namespace"], row["user"], row["missing"]) for row in response.context["rows"]["rows"]]


def words_of(response) -> list[list[str]]:
    return [[cell.words for cell in row["cells"]] for row in response.context["table"]["rows"]]


@pytest.mark.parametrize(("namespace", "scope"), [("", "every namespace"), ("sales", "namespace:sales"),
                                                  ("namespace:sales", "namespace:sales")])
def test_starting_leads_to_the_run_and_tells_the_worker(namespace, scope, browse, sent, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        response = browse("ada").post("/analyses/start", {"analysis": ANALYSIS, "namespace": namespace})
    run = AnalysisRun.objects.get()
    assert (response.status_code, response.headers["Location"]) == (303, f"/analyses/{run.pk}/")
    assert (sent, run.requested_by.username, run.options["generation"]) == ([run], "ada", "final")
    page = browse("aud").get(response.headers["Location"])
    assert scope in page_html(page) and "It starts within seconds." in page_html(page)


@pytest.mark.parametrize(("sent_form", "fault"), [
    ({"analysis": "nonsense"}, "`nonsense` is not an analysis"),
    ({}, "`` is not an analysis"),
    ({"analysis": ANALYSIS, "namespace": "nowhere"}, "namespace:nowhere is not registered"),
    ({"analysis": ANALYSIS, "namespace": "a b"}, "holds a character"),
    ({"analysis": "policy-impact", "generation": "core", "to_generation": "core"}, "both are core"),
    ({"analysis": ANALYSIS, "generation": "newest"}, "`newest` is not a generation"),
])
def test_an_analysis_that_cannot_run_is_explained_and_not_kept(sent_form, fault, browse):
    response = browse("ada").post("/analyses/start", sent_form)
    assert response.status_code == 400 and fault in response.context["fault"]
    assert not AnalysisRun.objects.exists()


def test_what_the_form_hides_for_an_analysis_is_not_given_to_it(browse):
    sent_form = {"analysis": "visibility", "generation": "core", "to_generation": "final", "namespace": "hr"}
    assert browse("ada").post("/analyses/start", sent_form).status_code == 303
    assert AnalysisRun.objects.get().options == {"generation": "core"}


def test_a_form_that_was_refused_keeps_what_was_chosen(browse):
    sent_form = {"analysis": "policy-impact", "generation": "core", "to_generation": "core"}
    text = page_html(browse("ada").post("/analyses/start", sent_form))
    assert re.search(r'<option value="policy-impact" class="takes-generation takes-to_generation" selected>', text)
    assert text.count("takes-to_generation") == 1 and text.count("takes-namespace") == 1


def test_a_waiting_run_says_why_it_waits(browse, monkeypatch):
    run = AnalysisRun.objects.create(analysis=ANALYSIS, options={"generation": "final", "namespace": ""})
    monkeypatch.setattr("analytics.runs.selectors.redis_problem", lambda: "Redis does not answer at redis://here")
    text = page_html(browse("aud").get(f"/analyses/{run.pk}/"))
    assert "Redis does not answer at redis://here. The run is kept and starts when it does." in text


def test_a_run_is_cancelled_by_an_administrator(browse):
    run = AnalysisRun.objects.create(analysis=ANALYSIS, options={"generation": "final", "namespace": ""})
    response = browse("ada").post(f"/analyses/{run.pk}/cancel", follow=True)
    assert "Run " in page_html(response) and "it has no report" in page_html(response)
    run.refresh_from_db()
    assert run.state == RunState.CANCELLED
    again = browse("ada").post(f"/analyses/{run.pk}/cancel", follow=True)
    assert "is already over. Nothing changed" in page_html(again)


def test_a_failed_run_shows_its_sentence(browse):
    run = AnalysisRun.objects.create(analysis=ANALYSIS, options={"generation": "final", "namespace": ""}, state="failed",
                                     error="Spark ran out of memory")
    assert "Spark ran out of memory" in page_html(browse("aud").get(f"/analyses/{run.pk}/"))


def test_a_running_run_shows_its_stage_and_how_far_it_is(browse):
    run = AnalysisRun.objects.create(analysis=ANALYSIS, options={"generation": "final", "namespace": ""}, state="running",
                                     stage="computing", tasks_done=3, tasks_total=12, started_at=timezone.now())
    text = page_html(browse("aud").get(f"/analyses/{run.pk}/"))
    assert '<progress value="225" max="400"' in text and "3 of 12 tasks" in text
    assert 'class="present" aria-current="step">Computing' in text


def test_java_that_is_missing_is_said_where_analyses_are_started(browse, monkeypatch):
    monkeypatch.setattr("authzconsole.web.reports.run_pages.java_problem", lambda: "Java is missing: install it")
    assert "Java is missing: install it" in page_html(browse("ada").get("/analyses/"))


def test_a_report_gives_the_figures_first_then_the_namespaces_then_the_rows(report, browse):
    response = browse("aud").get(f"/analyses/{report.pk}/")
    text = page_html(response)
    headings = ("Who can delete which namespace?", "How far is each user from deleting a namespace?")
    assert text.index("that no user can delete") < text.index(headings[0]) < text.index(headings[1])
    assert [(row["namespace"], row["names"], row["nearest_user"]) for row in response.context["namespaces"]["rows"]] == [
        ("empty", [], None), ("hr", [], "dee"), ("sales", ["ned", "zed"], "ned")]
    assert rows_of(response) == [("hr", "dee", 2), ("sales", "dee", 5), ("sales", "ned", 0), ("sales", "zed", 0)]


@pytest.mark.parametrize(("query", "users"), [
    ("namespace=sales", ["dee", "ned", "zed"]), ("namespace=namespace:hr", ["dee"]), ("namespace=ALE", ["dee", "ned", "zed"]),
    ("namespace=' OR 1=1 --", []), ("namespace=empty", []), ("user=E", ["dee", "dee", "ned", "zed"]),
    ("ready=yes", ["ned", "zed"]), ("ready=no&user=de", ["dee", "dee"]), ("ready=perhaps", ["dee", "dee", "ned", "zed"]),
    ("sort=-missing", ["dee", "dee", "ned", "zed"]), ("sort=user&ready=yes", ["ned", "zed"]),
    ("sort=-user", ["zed", "ned", "dee", "dee"]), ("sort=password", ["dee", "dee", "ned", "zed"]),
    ("page=9999", ["dee", "dee", "ned", "zed"]), ("page=0&namespaces=77", ["dee", "dee", "ned", "zed"]),
])
def test_rows_are_filtered_and_sorted(query, users, report, browse, htmx):
    response = browse("aud").get(f"/analyses/{report.pk}/?{query}", headers=htmx("rows"))
    assert [user for _, user, _ in rows_of(response)] == users
    assert "<html" not in page_html(response)


def test_a_column_that_is_clicked_twice_turns_around(report, browse):
    def order(query):
        columns = browse("aud").get(f"/analyses/{report.pk}/{query}").context["rows"]["columns"]
        return next((c["order"], c["url"]) for c in columns if c["name"] == "user")

    assert order("")[0] == "" and order("?sort=user")[0] == "ascending" and order("?sort=-user")[0] == "descending"
    assert order("?sort=user")[1].endswith("sort=-user") and order("?sort=-user")[1].endswith("sort=user")


def test_a_row_leads_to_what_is_missing(report, browse):
    row = browse("ada").get(f"/analyses/{report.pk}/?namespace=hr").context["rows"]["rows"][0]
    response = browse("ada").get(row["missing_url"])
    assert [str(gap.address) for gap in response.context["gaps"]] == ["dataset:hr.salaries", "namespace:hr"]
    assert "/grant/dataset:hr.salaries?principal=user:dee&amp;privilege=ADMIN" in page_html(response)
    assert "/grant/" not in page_html(browse("aud").get(row["missing_url"]))


def test_a_detail_that_was_left_out_says_where_it_is_to_be_had(report, browse):
    AnalysisRun.objects.update(summary=SUMMARY | {"detail_is_written": False})
    text = page_html(browse("aud").get(f"/analyses/{report.pk}/missing?namespace=hr&user=dee"))
    assert "manage.py analyze with --detail" in text


def test_the_report_can_be_downloaded_as_csv(report, browse):
    response = browse("aud").get(f"/analyses/{report.pk}/tables/rows.csv")
    lines = list(csv.reader(io.StringIO(response.getvalue().decode())))
    assert lines[0] == ["namespace", "user", "required", "held", "missing", "ready"]
    assert lines[1:] == [[str(value).lower() if isinstance(value, bool) else str(value) for value in row] for row in ROWS["rows"]]
    assert response.headers["Content-Disposition"] == f'attachment; filename="delete-readiness-{report.pk}-rows.csv"'


def test_a_report_whose_files_are_gone_says_what_to_do(report, browse, settings, tmp_path):
    settings.SNAPSHOT_URI = str(tmp_path / "elsewhere")
    for url in ("", "?namespace=hr", "missing?namespace=hr&user=dee", "tables/rows.csv"):
        response = browse("aud").get(f"/analyses/{report.pk}/{url}", follow=True)
        assert response.status_code == 200 and "run the analysis again" in page_html(response)
    assert browse("aud").get("/").context["namespaces"]["rows"][0]["report"] is None


@pytest.mark.parametrize("table", ["namespaces", "rows"])
def test_one_damaged_file_takes_no_page_down(table, report, browse, htmx, tmp_path):
    path = tmp_path / report.result_folder / table / "part-0.parquet"
    path.write_bytes(path.read_bytes()[:100])
    client, notice = browse("ada"), f"The report of run {report.pk} cannot be read: the report&#x27;s files are damaged"
    page = client.get(f"/analyses/{report.pk}/")
    assert page.status_code == 200 and notice in page_html(page)
    assert "that no user can delete" in page_html(page) and table not in page.context
    for part in ("namespaces", "rows"):
        text = page_html(client.get(f"/analyses/{report.pk}/", headers=htmx(part)))
        assert f'id="{part}"' in text and "No user holds ADMIN in any namespace" not in text and "No live namespaces" not in text
    download = client.get(f"/analyses/{report.pk}/tables/rows.csv")
    assert download.status_code == (200 if table == "namespaces" else 303)
    for url in ("/", "/entities/namespace:hr"):
        response = client.get(url)
        assert response.status_code == 200
        assert (notice in page_html(response)) is (table == "namespaces")
    assert "Who holds what" in page_html(response)


def test_the_detail_that_cannot_be_read_is_a_notice(report, browse, tmp_path):
    (tmp_path / report.result_folder / "detail" / "part-0.parquet").write_bytes(b"")
    response = browse("ada").get(f"/analyses/{report.pk}/missing?namespace=hr&user=dee")
    assert response.status_code == 200 and f"The report of run {report.pk} cannot be read" in page_html(response)
    assert '/entities/namespace:hr?deleter=dee#readiness"' in page_html(response)


def test_a_download_is_kept_by_nobody_and_computed_by_no_spreadsheet(report, browse, tmp_path):
    table = analysis_named(ANALYSIS).table("rows")
    names = ["=1+1", "+1", "-1", "@sum", "\tx", "\rx", "a=b"]
    columns = [pa.array(values) for values in zip(*(("hr", name, 2, 0, 2, False) for name in names), strict=True)]
    pq.write_table(pa.table(columns, names=table.column_names).cast(arrow_schema(table)),
                   tmp_path / report.result_folder / "rows" / "part-0.parquet")
    response = browse("aud").get(f"/analyses/{report.pk}/tables/rows.csv")
    assert "no-store" in response.headers["Cache-Control"]
    lines = list(csv.reader(io.StringIO(response.getvalue().decode(), newline="")))
    assert [line[1] for line in lines[1:]] == ["'=1+1", "'+1", "'-1", "'@sum", "'\tx", "'\rx", "a=b"]


def test_pages_quote_reports_of_the_active_generation_only(report, browse, cast):
    AnalysisRun.objects.create(
        analysis=ANALYSIS, options={"generation": "core", "namespace": ""}, state=RunState.DONE, summary=SUMMARY, revision=1,
        result_folder="results/of-core", finished_at=timezone.now(), requested_by=cast["ada"])
    for url, section in (("/", "namespaces"), ("/entities/namespace:hr", "readiness")):
        response = browse("aud").get(url)
        shown = response.context[section]["run"] if url == "/" else response.context[section]["latest"]["run"]
        assert shown == report and "generation final" in page_html(response)
    AnalysisRun.objects.filter(pk=report.pk).delete()
    assert browse("aud").get("/").context["namespaces"]["run"] is None
    page = browse("aud").get("/entities/namespace:hr")
    assert page.context["readiness"]["latest"] is None
    assert "Nobody has checked yet who can delete it in generation final." in page_html(page)


def test_the_namespace_list_and_the_namespace_page_quote_the_newest_report(report, browse):
    text = page_html(browse("aud").get("/"))
    assert "2 people" in text and "no user; dee is missing 2 of 2" in text
    page = browse("aud").get("/entities/namespace:hr")
    assert page.context["readiness"]["latest"]["summary"]["fewest_missing"] == 2
    assert "dee comes closest and lacks 2 of 2" in page_html(page)


def test_a_report_says_how_much_changed_since(report, browse):
    browse("ada").post("/grant/dataset:hr.salaries", {"principal": "user:dee", "privilege": "ADMIN"})
    for url in ("/", f"/analyses/{report.pk}/", "/entities/namespace:hr"):
        assert "1 change since" in page_html(browse("aud").get(url))


def test_a_report_that_was_overtaken_does_not_say_that_nobody_can(report, browse):
    browse("ada").post("/grant/dataset:hr.salaries", {"principal": "user:dee", "privilege": "ADMIN"})
    text = page_html(browse("aud").get("/entities/namespace:hr"))
    assert "Nobody</strong> could delete it" in text and "dee lacks 1 of 2 now" in text
    browse("ada").post("/grant/namespace:hr", {"principal": "user:dee", "privilege": "ADMIN"})
    text = page_html(browse("aud").get("/entities/namespace:hr"))
    assert "dee</strong> can delete it now" in text and "Nobody</strong>" not in text


def test_changes_that_no_decision_is_made_of_do_not_make_a_report_old(report, browse):
    browse("ada").post("/describe/dataset:hr.salaries", {"description": "What everybody earns"})
    for url in ("/", f"/analyses/{report.pk}/", "/entities/namespace:hr"):
        text = page_html(browse("aud").get(url))
        assert "change since" not in text and "changes since" not in text


def test_a_report_costs_the_same_queries_however_long_it_is(report, browse, django_assert_max_num_queries):
    client = browse("aud")
    client.get(f"/analyses/{report.pk}/")
    with django_assert_max_num_queries(5):
        client.get(f"/analyses/{report.pk}/")


def test_a_report_without_a_page_of_its_own_shows_its_figures_and_its_rows(cast, browse, htmx, tmp_path):
    run = AnalysisRun.objects.create(
        analysis="policy-impact", options={"generation": "core", "to_generation": "final"}, state=RunState.DONE,
        summary={"answers_gained": 12_345}, revision=current_revision(), result_folder="results/impact")
    table = analysis_named("policy-impact").rows
    (tmp_path / run.result_folder / "rows").mkdir(parents=True)
    rows = pa.table([["dee", "ned"], ["dataset", "dataset"], ["get", "get"], [1, 4_000], [0, 2]], names=table.column_names)
    pq.write_table(rows.cast(arrow_schema(table)), tmp_path / run.result_folder / "rows" / "part-0.parquet")
    text = page_html(browse("aud").get(f"/analyses/{run.pk}/"))
    assert "core to final" in text and "12,345" in text and "answers gained" in text and "4,000" in text
    part = browse("aud").get(f"/analyses/{run.pk}/?sort=-gained", headers=htmx("rows"))
    assert [words[0] for words in words_of(part)] == ["ned", "dee"] and "<html" not in page_html(part)
    lines = browse("aud").get(f"/analyses/{run.pk}/tables/rows.csv").getvalue().decode().splitlines()
    assert lines == ["user,kind,operation,gained,lost", "dee,dataset,get,1,0", "ned,dataset,get,4000,2"]


CHANGES = [("hr", "dee", "changed", 2, 2, 0, 0, 2, 2, False, True),
           ("sales", "ned", "added", None, 6, None, 6, None, 0, None, True),
           ("sales", "old", "removed", 1, None, 0, None, 1, None, False, None)]


@pytest.fixture
def compared(report, tmp_path):
    """The report with its changes since an earlier one."""
    report.summary = SUMMARY | {"changes": {"run": 77, "revision": 0, "added": 1, "removed": 1, "changed": 1}}
    report.save()
    report_write(tmp_path, report, {"changes": CHANGES})
    return report


def test_a_report_says_what_changed_since_the_run_before_and_leads_to_the_rows(compared, browse):
    page = page_html(browse("aud").get(f"/analyses/{compared.pk}/"))
    assert "Rows since run 77 (revision 0): 1 added, 1 removed, 1 changed." in page
    assert f'href="/analyses/{compared.pk}/tables/changes"' in page and f'href="/analyses/{compared.pk}/tables/detail"' in page
    shown = browse("aud").get(f"/analyses/{compared.pk}/tables/changes")
    assert [words[2] for words in words_of(shown)] == ["changed", "added", "removed"]
    assert [words[3:] for words in words_of(shown)] == [
        ["2", "0", "2", "no → yes"], ["6", "6", "0", "yes"], ["1", "0", "1", "no"]]
    assert 'href="/entities/namespace:hr"' in page_html(shown)


@pytest.mark.parametrize(("revision", "says"), [
    (0, "Nothing changed since run 77, which has the same revision"), (-1, "Nothing changed since run 77 (revision -1)"),
])
def test_a_report_that_is_the_same_says_so(revision, says, report, browse):
    revision += report.revision
    report.summary = SUMMARY | {"changes": {"run": 77, "revision": revision, "added": 0, "removed": 0, "changed": 0}}
    report.save()
    assert says.replace("-1", str(revision)) in page_html(browse("aud").get(f"/analyses/{report.pk}/"))


@pytest.mark.parametrize(("query", "users"), [
    ("change=added", ["ned"]), ("change=nonsense", ["dee", "ned", "old"]), ("user=E", ["dee", "ned"]),
    ("namespace=sal&ready_before=no", ["old"]), ("sort=-missing_before", ["dee", "old", "ned"]),
    ("page=99", ["dee", "ned", "old"]), ("user=%22ned%22", ["ned"]), ("user=%22n%22", []), ("user=%22", []),
    ("user=%27%20OR%201=1", []),
])
def test_any_table_is_filtered_and_its_download_with_it(query, users, compared, browse, htmx):
    client, url = browse("aud"), f"/analyses/{compared.pk}/tables/changes"
    part = client.get(f"{url}?{query}", headers=htmx("rows"))
    assert [words[1] for words in words_of(part)] == users and "<html" not in page_html(part)
    for title, url in part.context["table"]["downloads"]:
        body = client.get(url).getvalue()
        found = {"CSV": lambda body: [line["user"] for line in csv.DictReader(io.StringIO(body.decode()))],
                 "JSON Lines": lambda body: [json.loads(line)["user"] for line in body.splitlines()],
                 "Parquet": lambda body: pq.read_table(io.BytesIO(body)).column("user").to_pylist()}[title](body)
        assert sorted(found) == sorted(users)


@pytest.mark.parametrize(("query", "is_open"), [("", False), ("namespace=sal", False), ("user=n", True),
                                                ("namespace=sal&ready_after=no", True), ("change=nonsense", False)])
def test_the_further_filters_of_a_table_are_unfolded_once_one_of_them_is_set(query, is_open, compared, browse):
    page = page_html(browse("aud").get(f"/analyses/{compared.pk}/tables/changes?{query}"))
    assert ('<details class="more" id="rows-more" open>' in page, '<details class="more" id="rows-more">' in page) == (
        is_open, not is_open)
    folded = page.partition('<details class="more"')[2].partition("</details>")[0]
    assert re.findall(r'name="(\w+)"', folded) == ["user", "change", "ready_before", "ready_after"]


def test_a_table_of_few_filters_folds_none_away(report, browse):
    page = page_html(browse("aud").get(f"/analyses/{report.pk}/tables/rows"))
    assert 'id="rows-user"' in page and 'class="more"' not in page


@pytest.mark.parametrize(("query", "users"), [("", ["dee", "dee", "ned", "zed"]), ("namespace=sales&ready=yes", ["ned", "zed"]),
                                              ("user=d&sort=-user&page=7", ["dee", "dee", "ned", "zed"])])
def test_a_filtered_report_is_downloaded_as_it_is_filtered(query, users, report, browse):
    client = browse("aud")
    for _, url in client.get(f"/analyses/{report.pk}/?{query}").context["rows"]["downloads"]:
        response = client.get(url)
        assert "attachment" in response.headers["Content-Disposition"] and "no-store" in response.headers["Cache-Control"]
        body = response.getvalue()
        assert [name for name in ("dee", "ned", "zed") if name.encode() in body] == sorted(set(users))


def test_the_detail_has_a_page_and_files_of_its_own(report, browse):
    client = browse("aud")
    assert client.get(f"/analyses/{report.pk}/tables/detail?entity=salaries").context["table"]["total"] == 1
    lines = client.get(f"/analyses/{report.pk}/tables/detail.csv").getvalue().decode().splitlines()
    assert lines[1] == "hr,dee,dataset:hr.salaries"


@pytest.mark.parametrize("extension", ["csv", "jsonl", "parquet"])
def test_files_are_for_administrators_and_auditors(report, browse, extension):
    url = f"/analyses/{report.pk}/tables/rows.{extension}"
    assert [browse(name).get(url).status_code for name in ("ada", "aud", "ned", "dee", "out")] == [200, 200, 404, 404, 404]
    assert browse("ada").post(url).status_code == 405


def test_a_report_that_was_removed_says_so_wherever_it_is_asked_for(compared, browse):
    AnalysisRun.objects.update(results_removed_at=timezone.now(), result_folder="")
    for url in ("", "tables/changes", "tables/rows.csv", "missing?namespace=hr&user=dee"):
        response = browse("aud").get(f"/analyses/{compared.pk}/{url}", follow=True)
        assert response.status_code == 200, url
        assert f"The report of run {compared.pk} was removed on" in page_html(response), url


def test_a_table_costs_the_same_queries_however_long_it_is(compared, browse, django_assert_num_queries):
    client = browse("aud")
    for url in ("tables/changes", "tables/changes?user=e&sort=user", "tables/rows.csv"):
        with django_assert_num_queries(3):
            client.get(f"/analyses/{compared.pk}/{url}")
