"""The cells of reports: links, decisions before and after, default order and filters."""

import re

import pytest

from analytics.analyses import ANALYSES, analysis_by_name
from grants.journal import current_revision
from tests.support.readiness_report import table_texts
from tests.support.reports import create_report

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
BOTH = {"generation": "core", "to_generation": "final"}


@pytest.fixture(autouse=True)
def folder(settings, tmp_path):
    settings.SNAPSHOT_URI = str(tmp_path)


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
    ("analysis", "tables", "options"), [("visibility", VISIBLE, None), ("policy-impact", IMPACT, BOTH)]
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
    run = report_of(
        analysis,
        {table.name: [] for table in analysis_by_name(analysis).tables},
        options=BOTH,
        changes={"run": 4, "revision": 0, "added": 1, "removed": 0, "changed": 0},
    )
    for table in analysis_by_name(analysis).tables:
        text = browse("aud").html(f"/analyses/{run.pk}/tables/{table.name}")
        heading = re.search(r'<h2 id="rows-title">([^<]+)</h2>', text)[1]
        assert heading.endswith("?") and heading not in ("Rows?", "Detail?"), (analysis, table.name)
        assert (heading == "What changed since run 4?") is (table.name == "changes")


def test_the_number_of_queries_does_not_grow_with_the_users(report_of, browse, django_assert_num_queries):
    tables = [
        {"rows": [(f"user{n:03}", "dataset", f"ns{n}", 1) for n in range(users)], "namespaces": []}
        for users in (1, 50)
    ]
    runs, client = [report_of("visibility", table) for table in tables], browse("aud")
    for run in runs:
        with django_assert_num_queries(4):
            client.get(f"/analyses/{run.pk}/")
