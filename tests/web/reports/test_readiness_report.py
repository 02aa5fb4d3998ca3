"""The page of a delete-readiness report, and the pages that include figures of it."""

import pytest
from django.utils import timezone

from analytics.models import AnalysisRun
from grants.models import JobState
from tests.support.pages import page_html, post_as_shown, text_of
from tests.support.readiness_report import ANALYSIS, SUMMARY, readiness_rows

pytestmark = pytest.mark.usefixtures("sent_runs")


def test_a_report_lists_figures_then_namespaces_then_rows(report, browse):
    response = browse("aud").get(f"/analyses/{report.pk}/")
    text = page_html(response)
    headings = ("Who can delete which namespace?", "How far is each user from deleting a namespace?")
    assert text.index("that no user can delete") < text.index(headings[0]) < text.index(headings[1])
    rows = response.context["namespaces"]["page"].rows
    assert [(row["namespace"], row["ready_users"], row["nearest_user"]) for row in rows] == [
        ("empty", [], None),
        ("hr", [], "dee"),
        ("sales", ["ned", "zed"], "ned"),
    ]
    assert readiness_rows(response) == [
        ("hr", "dee", 2),
        ("sales", "dee", 5),
        ("sales", "ned", 0),
        ("sales", "zed", 0),
    ]


@pytest.mark.parametrize(
    ("query", "users"),
    [
        ("namespace=sales", ["dee", "ned", "zed"]),
        ("namespace=namespace:hr", ["dee"]),
        ("namespace=ALE", ["dee", "ned", "zed"]),
        ("namespace=' OR 1=1 --", []),
        ("namespace=empty", []),
        ("user=E", ["dee", "dee", "ned", "zed"]),
        ("ready=yes", ["ned", "zed"]),
        ("ready=perhaps", ["dee", "dee", "ned", "zed"]),
        ("sort=-missing", ["dee", "dee", "ned", "zed"]),
        ("sort=-user", ["zed", "ned", "dee", "dee"]),
        ("sort=password", ["dee", "dee", "ned", "zed"]),
        ("page=9999", ["dee", "dee", "ned", "zed"]),
        ("page=0&namespaces=77", ["dee", "dee", "ned", "zed"]),
    ],
)
def test_rows_are_filtered_and_sorted(query, users, report, browse, htmx):
    response = browse("aud").get(f"/analyses/{report.pk}/?{query}", headers=htmx("rows"))
    assert [user for _, user, _ in readiness_rows(response)] == users
    assert "<html" not in page_html(response)


def test_a_second_click_reverses_the_order(report, browse):
    def order(query):
        columns = browse("aud").get(f"/analyses/{report.pk}/{query}").context["table"]["columns"]
        return next((c["order"], c["url"]) for c in columns if c["name"] == "user")

    assert (
        order("")[0] == ""
        and order("?sort=user")[0] == "ascending"
        and order("?sort=-user")[0] == "descending"
    )
    assert order("?sort=user")[1].endswith("sort=-user") and order("?sort=-user")[1].endswith("sort=user")


def test_a_row_links_to_its_missing_grants(report, browse):
    row = browse("ada").get(f"/analyses/{report.pk}/?namespace=hr").context["table"]["rows"][0]
    missing_url = next(cell.url for cell in row["cells"] if cell.url)
    response = browse("ada").get(missing_url)
    assert [row["entity"] for row in response.context["page"].rows] == [
        "dataset:hr.salaries",
        "namespace:hr",
    ]
    assert "/grant/dataset:hr.salaries?principal=user:dee&amp;privilege=ADMIN" in page_html(response)
    assert "/grant/" not in browse("aud").html(missing_url)


def test_a_report_without_detail_names_the_command(report, browse):
    AnalysisRun.objects.update(summary=SUMMARY | {"detail_is_written": False})
    text = browse("aud").html(f"/analyses/{report.pk}/missing?namespace=hr&user=dee")
    assert "manage.py analyze with --detail" in text


def test_a_report_without_files_says_what_to_do(report, browse, settings, tmp_path):
    settings.SNAPSHOT_URI = str(tmp_path / "elsewhere")
    for url in ("", "?namespace=hr", "missing?namespace=hr&user=dee", "tables/rows.csv"):
        response = browse("aud").get(f"/analyses/{report.pk}/{url}", follow=True)
        assert response.status_code == 200 and "run the analysis again" in page_html(response)
    assert browse("aud").get("/").context["namespaces"]["rows"][0]["report"] is None


@pytest.mark.parametrize("table", ["namespaces", "rows"])
def test_a_damaged_file_breaks_no_page(table, report, browse, htmx, tmp_path):
    path = tmp_path / report.result_path / table / "part-0.parquet"
    path.write_bytes(path.read_bytes()[:100])
    client, notice = (
        browse("ada"),
        f"The report of run {report.pk} cannot be read: the report&#x27;s files are damaged",
    )
    page = client.get(f"/analyses/{report.pk}/")
    assert page.status_code == 200 and notice in page_html(page)
    assert "that no user can delete" in page_html(page)
    assert {"rows": "table"}.get(table, table) not in page.context
    for part in ("namespaces", "rows"):
        text = client.html(f"/analyses/{report.pk}/", headers=htmx(part))
        assert (
            f'id="{part}"' in text
            and "No user holds ADMIN in any namespace" not in text
            and "No live namespaces" not in text
        )
    download = client.get(f"/analyses/{report.pk}/tables/rows.csv")
    assert download.status_code == (200 if table == "namespaces" else 303)
    for url in ("/", "/entities/namespace:hr?tab=ask"):
        response = client.get(url)
        assert response.status_code == 200
        assert (notice in page_html(response)) is (table == "namespaces")
    assert "Can it be deleted?</h2>" in page_html(response)


def test_an_unreadable_detail_table_is_a_notice(report, browse, tmp_path):
    (tmp_path / report.result_path / "detail" / "part-0.parquet").write_bytes(b"")
    response = browse("ada").get(f"/analyses/{report.pk}/missing?namespace=hr&user=dee")
    assert response.status_code == 200 and f"The report of run {report.pk} cannot be read" in page_html(
        response
    )
    assert '/entities/namespace:hr?deleter=dee#readiness"' in page_html(response)


def test_pages_use_only_reports_of_the_active_generation(report, browse, cast):
    AnalysisRun.objects.create(
        type=ANALYSIS,
        options={"generation": "core", "namespace": ""},
        state=JobState.DONE,
        summary=SUMMARY,
        revision=1,
        result_path="results/of-core",
        finished_at=timezone.now(),
        requested_by=cast["ada"],
    )
    for url, section in (("/", "namespaces"), ("/entities/namespace:hr?tab=ask", "readiness")):
        response = browse("aud").get(url)
        run = response.context[section]["run"] if url == "/" else response.context[section]["latest"]["run"]
        assert run == report and "generation final" in page_html(response)
    AnalysisRun.objects.filter(pk=report.pk).delete()
    assert browse("aud").get("/").context["namespaces"]["run"] is None
    page = browse("aud").get("/entities/namespace:hr?tab=ask")
    assert page.context["readiness"]["latest"] is None
    assert "Not analyzed yet in generation final." in page_html(page)


def test_the_namespace_list_and_the_namespace_page_use_the_newest_report(report, browse):
    overview = browse("aud").get("/")
    text = " ".join(text_of(overview).split())
    assert "2 users" in text and "no user; dee is missing 2 of 2" in text
    assert "/entities/namespace:hr?deleter=dee#readiness" in page_html(overview)
    page = browse("aud").get("/entities/namespace:hr?tab=ask")
    assert page.context["readiness"]["latest"]["summary"]["fewest_missing"] == 2
    assert "is closest and is missing 2 of 2" in page_html(page)


def test_an_outdated_report_shows_the_changes_since_then_and_the_current_readiness(report, browse):
    post_as_shown(
        browse("ada"), "/grant/dataset:hr.salaries", {"principal": "user:dee", "privilege": "ADMIN"}
    )
    for url in ("/", f"/analyses/{report.pk}/", "/entities/namespace:hr?tab=ask"):
        assert "1 change since" in browse("aud").html(url)
    text = browse("aud").html("/entities/namespace:hr?tab=ask")
    assert "No user</strong> could delete it" in text and "dee is missing 1 of 2 now" in text
    post_as_shown(browse("ada"), "/grant/namespace:hr", {"principal": "user:dee", "privilege": "ADMIN"})
    text = browse("aud").html("/entities/namespace:hr?tab=ask")
    assert "dee</strong> can delete it now" in text and "No user</strong>" not in text
    text = browse("aud").html("/entities/namespace:hr?tab=ask&deleter=dee")
    assert "dee can delete it" in text and "No user</strong>" not in text


def test_changes_without_effect_on_decisions_do_not_outdate_a_report(report, browse):
    browse("ada").post("/describe/dataset:hr.salaries", {"description": "What everybody earns"})
    for url in ("/", f"/analyses/{report.pk}/", "/entities/namespace:hr?tab=ask"):
        text = browse("aud").html(url)
        assert "change since" not in text and "changes since" not in text
