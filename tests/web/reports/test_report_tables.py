"""Tables and downloads of reports: filters, changes since an earlier run, and removed results."""

import csv
import io
import json
import re

import pyarrow.parquet as pq
import pytest
from django.utils import timezone

from analytics.models import AnalysisRun
from grants.journal import current_revision
from tests.support.pages import page_html
from tests.support.readiness_report import SUMMARY, table_texts
from tests.support.reports import create_report

pytestmark = pytest.mark.usefixtures("sent_runs")


def test_any_report_shows_its_figures_and_rows(cast, browse, htmx, tmp_path):
    run = create_report(
        tmp_path,
        {"rows": [("dee", "dataset", "get", 1, 0), ("ned", "dataset", "get", 4_000, 2)]},
        analysis="policy-impact",
        options={"generation": "core", "to_generation": "final"},
        summary={"answers_gained": 12_345},
        revision=current_revision(),
    )
    text = browse("aud").html(f"/analyses/{run.pk}/")
    assert "core to final" in text and "12,345" in text and "permissions gained" in text and "4,000" in text
    part = browse("aud").get(f"/analyses/{run.pk}/?sort=-gained", headers=htmx("rows"))
    assert [texts[0] for texts in table_texts(part)] == ["ned", "dee"] and "<html" not in page_html(part)
    lines = browse("aud").get(f"/analyses/{run.pk}/tables/rows.csv").getvalue().decode().splitlines()
    assert lines == ["user,kind,operation,gained,lost", "dee,dataset,get,1,0", "ned,dataset,get,4000,2"]


def test_a_report_links_to_the_changes_since_the_previous_run(compared_report, browse):
    text = browse("aud").html(f"/analyses/{compared_report.pk}/")
    assert "Rows since run 77 (revision 0): 1 added, 1 removed, 1 changed." in text
    for table in ("changes", "detail"):
        assert f'href="/analyses/{compared_report.pk}/tables/{table}"' in text
    page = browse("aud").get(f"/analyses/{compared_report.pk}/tables/changes")
    assert [texts[2] for texts in table_texts(page)] == ["changed", "added", "removed"]
    assert [texts[3:] for texts in table_texts(page)] == [
        ["2", "0", "2", "no → yes"],
        ["6", "6", "0", "yes"],
        ["1", "0", "1", "no"],
    ]
    assert 'href="/entities/namespace:hr"' in page_html(page)


@pytest.mark.parametrize(
    ("revision", "sentence"),
    [
        (0, "Nothing changed since run 77, which has the same revision"),
        (-1, "Nothing changed since run 77 (revision -1)"),
    ],
)
def test_an_unchanged_report_says_so(revision, sentence, report, browse):
    revision += report.revision
    report.summary = SUMMARY | {
        "changes": {"run": 77, "revision": revision, "added": 0, "removed": 0, "changed": 0}
    }
    report.save()
    assert sentence.replace("-1", str(revision)) in browse("aud").html(f"/analyses/{report.pk}/")


@pytest.mark.parametrize(
    ("query", "users"),
    [
        ("change=added", ["ned"]),
        ("change=nonsense", ["dee", "ned", "old"]),
        ("namespace=sal&ready_before=no", ["old"]),
        ("sort=-missing_before", ["dee", "old", "ned"]),
        ("user=%22ned%22", ["ned"]),
        ("user=%22n%22", []),
        ("user=%22", []),
    ],
)
def test_tables_and_their_downloads_are_filtered(query, users, compared_report, browse, htmx):
    client, url = browse("aud"), f"/analyses/{compared_report.pk}/tables/changes"
    part = client.get(f"{url}?{query}", headers=htmx("rows"))
    assert [texts[1] for texts in table_texts(part)] == users and "<html" not in page_html(part)
    for title, url in part.context["table"]["downloads"]:
        body = client.get(url).getvalue()
        names = {
            "CSV": lambda body: [line["user"] for line in csv.DictReader(io.StringIO(body.decode()))],
            "JSON Lines": lambda body: [json.loads(line)["user"] for line in body.splitlines()],
            "Parquet": lambda body: pq.read_table(io.BytesIO(body)).column("user").to_pylist(),
        }[title](body)
        assert sorted(names) == sorted(users)


@pytest.mark.parametrize(
    ("query", "is_open"),
    [
        ("", False),
        ("namespace=sal", False),
        ("user=n", True),
        ("namespace=sal&ready_after=no", True),
        ("change=nonsense", False),
    ],
)
def test_more_filters_are_open_if_one_of_them_is_set(query, is_open, compared_report, browse):
    page = browse("aud").html(f"/analyses/{compared_report.pk}/tables/changes?{query}")
    assert (
        '<details class="more" id="rows-more" open>' in page,
        '<details class="more" id="rows-more">' in page,
    ) == (is_open, not is_open)
    collapsed = page.partition('<details class="more"')[2].partition("</details>")[0]
    assert re.findall(r'name="(\w+)"', collapsed) == ["user", "change", "ready_before", "ready_after"]


def test_a_table_with_few_filters_collapses_none(report, browse):
    page = browse("aud").html(f"/analyses/{report.pk}/tables/rows")
    assert 'id="rows-user"' in page and 'class="more"' not in page


@pytest.mark.parametrize(
    ("query", "users"),
    [
        ("", ["dee", "dee", "ned", "zed"]),
        ("namespace=sales&ready=yes", ["ned", "zed"]),
        ("user=d&sort=-user&page=7", ["dee", "dee", "ned", "zed"]),
    ],
)
def test_downloads_of_a_report_keep_its_filters(query, users, report, browse):
    client = browse("aud")
    for _, url in client.get(f"/analyses/{report.pk}/?{query}").context["table"]["downloads"]:
        response = client.get(url)
        assert f'attachment; filename="delete-readiness-{report.pk}-rows.' in response["Content-Disposition"]
        assert "no-store" in response["Cache-Control"]
        body = response.getvalue()
        assert [name for name in ("dee", "ned", "zed") if name.encode() in body] == sorted(set(users))


def test_the_detail_table_has_a_page_and_downloads(report, browse):
    client = browse("aud")
    assert client.get(f"/analyses/{report.pk}/tables/detail?entity=salaries").context["table"]["total"] == 1
    lines = client.get(f"/analyses/{report.pk}/tables/detail.csv").getvalue().decode().splitlines()
    assert lines[1] == "hr,dee,dataset:hr.salaries"


def test_a_removed_report_says_so_on_every_page(compared_report, browse):
    AnalysisRun.objects.update(result_removed_at=timezone.now(), result_path="")
    for url in ("", "tables/changes", "tables/rows.csv", "missing?namespace=hr&user=dee"):
        response = browse("aud").get(f"/analyses/{compared_report.pk}/{url}", follow=True)
        assert response.status_code == 200, url
        assert f"The report of run {compared_report.pk} was removed on" in page_html(response), url


def test_the_number_of_queries_is_limited(compared_report, browse, django_assert_max_num_queries):
    client = browse("aud")
    client.get("/")
    for url in ("", "tables/changes", "tables/changes?user=e&sort=user", "tables/rows.csv"):
        with django_assert_max_num_queries(5):
            client.get(f"/analyses/{compared_report.pk}/{url}")
