"""Rows of a report of patterns become a plan, on its page and over REST."""

import re
from html import unescape

import pytest

from authzconsole.web.shared.links import entity_url
from grants.models import Plan
from tests.support.changes import add_grant
from tests.support.pages import page_html, text_of
from tests.support.reports import create_report

pytestmark = pytest.mark.usefixtures("cast")
ALL, NOTHING = "dataset:sales.*", "dataset:nowhere.*"
FIGURES = {
    "grants_on_patterns": 2,
    "grants_on_patterns_that_match_nothing": 1,
    "grants_on_patterns_with_unused_entities": 1,
    "grants_inside_other_patterns": 0,
    "grants_that_reveal_every_namespace": 0,
}


@pytest.fixture
def run(settings, tmp_path):
    settings.SNAPSHOT_URI = str(tmp_path)
    for pattern in (ALL, NOTHING):
        add_grant("group:operators", pattern, "READ")
    return create_report(
        tmp_path,
        {
            "rows": [
                ("group:operators", NOTHING, "READ", 0, 0, 0, 0, 0, "", "", False),
                ("group:operators", ALL, "READ", 4, 3, 3, 2, 0, "2026-11-01", "", False),
            ],
            "narrower": [("group:operators", ALL, "READ", "dataset:sales.o*", 1, 1)],
            "kinds": [("dataset", 2, 2, 1, 3, 3, 2)],
        },
        analysis="patterns",
        revision=1,
        summary=FIGURES,
    )


def items(plan):
    return sorted((item.verb, str(item.address)) for item in plan.items.all())


NARROWED = [("grant", "dataset:sales.o*"), ("revoke", NOTHING), ("revoke", ALL)]


def test_selected_rows_become_a_plan(browse, run):
    client, url = browse("ada"), f"/analyses/{run.pk}/"
    values = [
        unescape(value) for value in re.findall(r'name="grant" value="([^"]*)"', page_html(client.get(url)))
    ]
    assert sorted(values) == [f"group:operators\t{pattern}\tREAD" for pattern in (NOTHING, ALL)]
    assert 'name="grant"' not in page_html(browse("aud").get(url))
    page = client.post("/plans/patterns", {"selection": "yes", "run": run.pk, "grant": values}, follow=True)
    assert "to narrow patterns" in text_of(page) and items(Plan.objects.get()) == NARROWED
    page = client.post("/plans/patterns", {"selection": "yes", "run": run.pk}, follow=True)
    assert page.wsgi_request.path == url and "there is nothing to narrow" in text_of(page)
    assert client.post("/plans/patterns", {"run": run.pk + 1}).status_code == 404


def test_the_tables_lead_to_the_patterns(browse, run):
    for table, pattern in (("rows", ALL), ("narrower", "dataset:sales.o*"), ("kinds", None)):
        html = page_html(browse("ada").get(f"/analyses/{run.pk}/tables/{table}"))
        assert pattern is None or f'href="{entity_url(pattern)}"' in html


def test_the_report_becomes_a_plan_over_rest(browse, run, tmp_path, settings):
    def create(body, name="ada"):
        return browse(name).post("/api/v1/plans/patterns", body, content_type="application/json")

    created = create({"run": run.pk})
    assert created.status_code == 201, created.content
    assert items(Plan.objects.get()) == NARROWED
    grant = {"principal": "group:operators", "entity": NOTHING, "privileges": ["READ"]}
    assert create({"run": run.pk, "grants": [grant]}).status_code == 201
    assert items(Plan.objects.latest("pk")) == [("revoke", NOTHING)]
    assert create({"run": run.pk, "grants": [grant | {"entity": "dataset:x*"}]}).status_code == 409
    assert create({"run": run.pk, "grants": []}).status_code == 400
    assert create({"run": run.pk + 1}).status_code == 404
    other = create_report(tmp_path, {"rows": []}, revision=1)
    assert create({"run": other.pk}).status_code == 409
    assert create({"run": run.pk}, "ned").status_code == 403
    settings.SNAPSHOT_URI = str(tmp_path / "elsewhere")
    assert create({"run": run.pk}).status_code == 410
