"""Tables and downloads of reports: cells and their links, filters, changes since an earlier run, and removed results."""

import csv
import io
import json
import re

import pyarrow.parquet as pq
import pytest
from django.utils import timezone

from analytics.analyses import ANALYSES, analysis_by_name
from analytics.models import AnalysisRun
from grants.journal import current_revision
from grants.usage.storage import UsageRecord, add_usage
from tests.support.changes import add_grant, revoke_grant
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


def test_the_first_filter_of_many_stands_alone_and_the_others_open_below_a_button(compared_report, browse):
    page = browse("aud").html(f"/analyses/{compared_report.pk}/tables/changes?user=n")
    collapsed = page.partition('<details class="more" id="rows-more">')[2].partition("</details>")[0]
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
        with django_assert_max_num_queries(7):
            client.get(f"/analyses/{compared_report.pk}/{url}")


READY = {
    "rows": [("hr", "dee", 2, 0, 2, False), ("sales", "ned", 6, 6, 0, True)],
    "namespaces": [("hr", 2, 1, 0, 2, "dee", True), ("sales", 6, 2, 1, 0, "ned", False)],
}
FIGURES = {
    "namespaces": 2,
    "namespaces_somebody_can_delete": 1,
    "namespaces_nobody_can_delete": 1,
    "pairs": 2,
    "pairs_ready": 1,
}
VISIBLE = {
    "rows": [
        ("dee", "dataset", "sales", 2),
        ("dee", "kerberosprincipal", "", 1),
        ("dee", "namespace", "sales", 1),
    ],
    "namespaces": [("dee", "", 1), ("dee", "sales", 3)],
    "detail": [
        ("dee", "dataset:sales.orders"),
        ("dee", "dataset:sales.returns"),
        ("dee", "dataset_type:sales.t"),
        ("dee", "kerberosprincipal:etl"),
        ("dee", "namespace:sales"),
        ("dee", "namespace:sales_archive"),
        ("deedee", "dataset:sales.orders"),
    ],
}
IMPACT = {
    "rows": [("dee", "dataset", "get", 1, 1)],
    "operations": [("dataset", "get", 1, 1, 1)],
    "detail": [
        ("dee", "dataset:sales.orders", "get", False, True),
        ("dee", "dataset:sales.returns", "get", True, False),
        ("dee", "dataset:sales.returns", "get-metadata", True, False),
    ],
}
REACH = {
    "rows": [("dee", "dataset", "READ", 2), ("dee", "dataset", "WRITE", 1)],
    "namespaces": [("dee", "sales", 2, 1)],
    "people": [("dee", 2, 1, 1, 2, 1, 0, 0)],
    "detail": [
        ("dee", "dataset:sales.orders", "READ"),
        ("dee", "dataset:sales.orders", "WRITE"),
        ("dee", "dataset:sales.returns", "READ"),
        ("deedee", "dataset:sales.returns", "READ"),
    ],
}
BOTH = {"generation": "core", "to_generation": "final"}


@pytest.fixture
def report_of(cast, tmp_path):
    """Return a function that stores a report with these tables. facts: further values of its summary."""

    def create_run(analysis: str, tables: dict, *, options=None, **facts):
        summary = {
            "detail_is_written": True,
            "detail_rows": len(tables.get("detail", ())),
            **FIGURES,
            **facts,
        }
        return create_report(
            tmp_path,
            tables,
            analysis=analysis,
            options=options or {"generation": "final"},
            summary=summary,
            revision=current_revision(),
        )

    return create_run


@pytest.mark.parametrize(
    ("analysis", "tables", "options"),
    [("visibility", VISIBLE, None), ("policy-impact", IMPACT, BOTH), ("blast-radius", REACH, None)],
)
def test_numbers_link_to_the_rows_that_they_count(analysis, tables, options, report_of, browse):
    client = browse("aud")
    rows = client.get(f"/analyses/{report_of(analysis, tables, options=options).pk}/").context["table"][
        "rows"
    ]
    numbers = [cell for row in rows for cell in row["cells"] if cell.is_number]
    assert [client.get(cell.url).context["table"]["total"] for cell in numbers] == [
        int(cell.text) for cell in numbers
    ]


def test_a_report_links_to_its_other_tables_and_people_are_ranked(report_of, browse):
    people = [("ann", 9, 1, 1, 9, 1, 0, 0), ("dee", 7, 2, 1, 6, 5, 0, 0)]
    client, run = browse("aud"), report_of("blast-radius", REACH | {"people": people})
    url = f"/analyses/{run.pk}/tables/people"
    assert f'href="{url}"' in client.html(f"/analyses/{run.pk}/")
    rows = client.get(url).context["table"]["rows"]
    assert [row["user"] for row in rows] == ["dee", "ann"]
    cells = {cell.text: cell.url for cell in rows[0]["cells"]}
    assert client.get(cells["7"].removesuffix("#rows")).context["table"]["total"] == 2


def test_numbers_are_not_linked_without_a_detail_table(report_of, browse):
    run = report_of("visibility", VISIBLE, detail_is_written=False)
    rows = browse("aud").get(f"/analyses/{run.pk}/").context["table"]["rows"]
    assert not any(cell.url for row in rows for cell in row["cells"])


@pytest.mark.parametrize(
    ("analysis", "tables", "fragments"),
    [
        (
            "visibility",
            VISIBLE,
            [
                'href="/people/user:dee"',
                'href="/entities/namespace:sales"',
                '#dataset"',
                "kerberos principal</span>",
                '<span class="muted">none</span>',
            ],
        ),
        (
            "policy-impact",
            IMPACT,
            ['href="/people/user:dee"', 'href="/policies/?generation=core&amp;with=final&amp;kind=dataset"'],
        ),
        (
            "ghost-grants",
            {"rows": [("group:analysts", "dataset_type:sales.old", "READ", "deleted", "left")]},
            [
                'href="/people/group:analysts"',
                'href="/entities/dataset_type:sales.old"',
                '<span class="state deleted">deleted</span>',
            ],
        ),
        (
            "stranded",
            {"rows": [("dataset:sales.orders", 1, "ned"), ("oddity:sales.x", 0, "")]},
            [
                'href="/people/user:ned"',
                'href="/entities/dataset:sales.orders"',
                "oddity:sales.x",
                "none</span>",
            ],
        ),
        (
            "delete-readiness",
            READY,
            [
                'href="/people/user:dee"',
                'href="/people/user:ned"',
                'href="/entities/namespace:hr"',
                'missing?namespace=hr&amp;user=dee"',
            ],
        ),
    ],
)
def test_cells_link_to_the_page_of_their_value(analysis, tables, fragments, report_of, browse):
    run = report_of(analysis, tables, options=BOTH if analysis == "policy-impact" else None)
    text = browse("aud").html(f"/analyses/{run.pk}/")
    assert [fragment for fragment in fragments if fragment not in text] == []


def test_a_changed_decision_links_to_its_question_in_both_generations(report_of, browse):
    run = report_of("policy-impact", IMPACT, options=BOTH)
    rows = browse("aud").get(f"/analyses/{run.pk}/tables/detail").context["table"]["rows"]
    before, after = rows[0]["cells"][3:]
    assert (before.text, after.text) == ("no", "yes")
    assert before.url == "/entities/dataset:sales.orders?subject=user:dee&operation=get&generation=core#ask"
    assert after.url == "/entities/dataset:sales.orders?subject=user:dee&operation=get&generation=final#ask"


STRANDED = {
    "rows": [
        ("dataset:sales.a", 1, "ned"),
        ("dataset:sales.b", 0, ""),
        ("namespace:hr", 1, "zed"),
        ("stream:hr.s", 0, ""),
    ],
    "kinds": [("dataset", 9, 1, 1), ("stream", 3, 1, 0)],
}


def test_entities_without_administrators_come_first_by_default(report_of, browse):
    run, client = report_of("stranded", STRANDED), browse("aud")

    def admins(query=""):
        return [texts[1] for texts in table_texts(client.get(f"/analyses/{run.pk}/{query}"))]

    assert admins() == admins() == ["0", "0", "1", "1"] and admins("?sort=entity") == ["1", "0", "1", "0"]
    assert admins("?sort=-admins") == ["1", "1", "0", "0"] and admins("?entity=hr") == ["0", "1"]
    head = client.get(f"/analyses/{run.pk}/").context["table"]["columns"][1]
    assert head["order"] == "ascending" and head["url"].endswith("sort=-admins")
    lines = client.get(f"/analyses/{run.pk}/tables/rows.csv").getvalue().decode().splitlines()
    assert [line.split(",")[0] for line in lines[1:]] == [row[0] for row in STRANDED["rows"]]


def test_an_administrator_can_grant_admin_from_the_row_of_a_stranded_entity(report_of, browse):
    run, url = report_of("stranded", STRANDED), "/grant/dataset:sales.b?privilege=ADMIN"
    assert f'href="{url}"' in browse("ada").html(f"/analyses/{run.pk}/")
    assert 'value="ADMIN" checked' in browse("ada").html(url)
    assert "/grant/" not in browse("aud").html(f"/analyses/{run.pk}/")


def test_figures_of_summary_tables_link_to_their_rows(report_of, browse):
    client, run = browse("aud"), report_of("stranded", STRANDED)
    nobody = client.get(f"/analyses/{run.pk}/tables/kinds").context["table"]["rows"][0]["cells"][2]
    rows = table_texts(client.get(nobody.url.removesuffix("#rows")))
    assert [texts[0] for texts in rows] == ["dataset:sales.b", "dataset:sales.a"]


@pytest.mark.parametrize(
    ("query", "kinds"),
    [
        ("kind=dataset", ["dataset"]),
        ("kind=data", ["dataset", "kerberos principal", "namespace"]),
        ("kind=namespace&user=%22dee%22", ["namespace"]),
        ("user=%22de%22", []),
    ],
)
def test_filters_take_a_kind_and_quoted_names(query, kinds, report_of, browse):
    run = report_of("visibility", VISIBLE)
    assert [texts[1] for texts in table_texts(browse("aud").get(f"/analyses/{run.pk}/?{query}"))] == kinds


@pytest.mark.parametrize("analysis", ANALYSES)
def test_each_table_has_a_question_as_its_heading(analysis, report_of, browse):
    # without records of use, a report of unused access has no tables
    add_usage([UsageRecord("ned", "dataset", "sales.orders", timezone.now().date())])
    run = report_of(
        analysis,
        {table.name: [] for table in analysis_by_name(analysis).tables},
        options=BOTH,
        days_of_the_window=1,
        changes={"run": 4, "revision": 0, "added": 1, "removed": 0, "changed": 0},
    )
    for table in analysis_by_name(analysis).tables:
        text = browse("aud").html(f"/analyses/{run.pk}/tables/{table.name}")
        heading = re.search(r'<h2 id="rows-title">([^<]+)</h2>', text)[1]
        assert heading.endswith("?") and heading not in ("Rows?", "Detail?"), (analysis, table.name)
        assert (heading == "What changed since run 4?") is (table.name == "changes")


def test_the_number_of_queries_does_not_grow_with_the_rows(report_of, browse, django_assert_num_queries):
    tables = [
        {"rows": [(f"user{n:03}", "dataset", f"ns{n}", 1) for n in range(users)], "namespaces": []}
        for users in (1, 50)
    ]
    runs, client = [report_of("visibility", table) for table in tables], browse("aud")
    for run in runs:
        with django_assert_num_queries(5):
            client.get(f"/analyses/{run.pk}/")


def test_entities_that_have_enough_holders_now_are_marked_and_the_analysis_runs_again(
    tmp_path, cast, browse, sent_runs
):
    rows = [("dataset:sales.orders", 1, "ned"), ("namespace:sales", 1, "ned")]
    run = create_report(
        tmp_path,
        {"rows": rows},
        analysis="stranded",
        options={"generation": "final"},
        revision=current_revision(),
    )
    assert "Fixed since" not in browse("ada").html(f"/analyses/{run.pk}/")
    add_grant("user:dee", "dataset:sales.orders", "ADMIN")
    text = browse("ada").html(f"/analyses/{run.pk}/")
    assert text.count("Fixed since") == 1 and text.count(">Grant ADMIN</a>") == 1
    assert 'name="analysis" value="stranded"' in text and "Run again" in text
    assert "Run again" not in browse("aud").html(f"/analyses/{run.pk}/")


def test_namespaces_that_a_user_can_delete_now_are_marked(tmp_path, cast, browse, sent_runs):
    rows = [("hr", "dee", 2, 0, 2, False), ("sales", "dee", 6, 0, 6, False), ("sales", "ned", 6, 6, 0, True)]
    run = create_report(
        tmp_path,
        {"rows": rows, "namespaces": []},
        analysis="delete-readiness",
        options={"generation": "final"},
        summary=SUMMARY,
        revision=current_revision(),
    )
    client, url = browse("ada"), f"/analyses/{run.pk}/?namespace=%22hr%22"
    assert "Fixed since" not in client.html(url)
    for address in ("namespace:hr", "dataset:hr.salaries"):
        add_grant("user:dee", address, "ADMIN")
    shown = client.get(f"/analyses/{run.pk}/?user=e").context["table"]["rows"]
    assert {(row["namespace"], row["user"]): row["is_fixed"] for row in shown} == {
        ("hr", "dee"): True,
        ("sales", "dee"): False,
        ("sales", "ned"): False,
    }
    text = client.html(url)
    assert text.count("Fixed since") == 1 and "Run again" in text


def test_ghost_grants_that_were_revoked_are_marked(tmp_path, cast, browse, sent_runs):
    rows = [
        ("user:dee", "dataset:sales.legacy", "WRITE", "deleted", ""),
        ("group:operators", "dataset:sales.forecast", "READ", "planned", ""),
    ]
    run = create_report(
        tmp_path,
        {"rows": rows},
        analysis="ghost-grants",
        options={"generation": "final"},
        revision=current_revision(),
    )
    revoke_grant("user:dee", "dataset:sales.legacy", "WRITE")
    shown = browse("ada").get(f"/analyses/{run.pk}/").context["table"]["rows"]
    assert {row["entity"]: row["is_fixed"] for row in shown} == {
        "dataset:sales.legacy": True,
        "dataset:sales.forecast": False,
    }


def test_stranded_entities_are_filtered_by_their_holders(report_of, browse):
    run = report_of("stranded", STRANDED)
    shown = table_texts(browse("aud").get(f"/analyses/{run.pk}/?admins=0"))
    assert [texts[0] for texts in shown] == ["dataset:sales.b", "stream:hr.s"]


def test_a_namespace_selects_its_entities_and_not_those_of_longer_names(report_of, browse):
    rows = [
        ("dataset:hr.a", 0, ""),
        ("dataset:hr2.a", 0, ""),
        ("dataset:x.hr", 0, ""),
        ("namespace:hr", 1, "z"),
    ]
    run, client = report_of("stranded", {**STRANDED, "rows": rows}), browse("aud")
    shown = table_texts(client.get(f"/analyses/{run.pk}/?namespace=hr"))
    assert {texts[0] for texts in shown} == {"dataset:hr.a", "namespace:hr"}
    lines = client.get(f"/analyses/{run.pk}/tables/rows.csv?namespace=hr").getvalue().decode().splitlines()
    assert [line.split(",")[0] for line in lines[1:]] == ["dataset:hr.a", "namespace:hr"]
