"""The overview: totals, treemap, open problems and latest changes."""

from datetime import timedelta
from functools import partial

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from analytics.analyses import ANALYSES
from analytics.models import AnalysisRun
from authzconsole.common import row_estimates
from authzconsole.common.monitoring.maintenance import record_maintenance
from authzconsole.models import Finding, MaintenanceTask
from entities.address import parse_address
from entities.models import Entity
from entities.services import ensure_entities
from entities.vocabulary import Privilege
from grants.active_generation import active_generation
from grants.changes import Shown
from grants.journal import current_revision
from grants.models import GroupGrant, JournalHead, JournalLine, Plan, User
from grants.plans.apply import apply_plan
from grants.requests.create import RequestDraft, WantedAccess, create_request
from tests.support.authors import author_named
from tests.support.changes import add_grant, create_plan_from_changes
from tests.support.pages import page_html, text_of
from tests.support.reports import create_report

NAMESPACES = [("hr", 2, 1, 0, 2, "dee", True), ("sales", 6, 3, 2, 0, "ned", False)]

SUMMARY = {
    "namespaces": 2,
    "namespaces_somebody_can_delete": 1,
    "namespaces_nobody_can_delete": 1,
    "pairs": 4,
    "pairs_ready": 2,
}


@pytest.fixture(autouse=True)
def folder(settings, tmp_path):
    settings.SNAPSHOT_URI = str(tmp_path)
    return tmp_path


@pytest.fixture
def report(folder):
    """Return a function that stores a report with these tables."""
    return partial(create_report, folder, revision=3, finished_at=timezone.now())


def tiles(client, url: str = "/") -> list[tuple]:
    return [
        (tile.item.name, tile.item.area, tile.item.meaning)
        for tile in client.get(url).context["chart"]["tiles"]
    ]


def attention_texts(client) -> list[str]:
    return [item.text for item in client.get("/").context["problems"]]


def test_only_administrators_and_auditors_get_the_overview(browse):
    has_overview = {
        name: "figures" in browse(name).get("/").context for name in ("ada", "aud", "ned", "dee", "out")
    }
    assert has_overview == {"ada": True, "aud": True, "ned": False, "dee": False, "out": False}
    assert "Needs attention" not in browse("ned").html("/")


def test_the_figures_count_addresses_users_groups_and_grants(browse):
    client = browse("aud")
    figures = client.get("/").context["figures"]
    assert [(figure, unit) for figure, unit, *_ in figures] == [
        (11, "addresses"),
        (5, "users"),
        (1, "group"),
        (11, "grants"),
    ]
    assert all(client.get(url).status_code == 200 for _, _, url, _ in figures)


def test_the_figures_say_how_much_is_new_in_the_last_week_unless_everything_is(browse):
    client = browse("aud")
    assert "new in 7 days" not in page_html(client.get("/"))
    Entity.objects.exclude(key="hr.salaries").update(created_at=timezone.now() - timedelta(days=8))
    figures = {unit: recent for _, unit, _, recent in client.get("/").context["figures"]}
    assert (figures["addresses"], figures["group"]) == (1, 0)
    assert "1 new in 7 days" in page_html(client.get("/"))


def test_tiles_are_sized_by_entities_and_coloured_by_readiness(browse, report):
    client = browse("aud")
    assert tiles(client) == [("sales", 6, ""), ("hr", 2, "")]
    report({"namespaces": NAMESPACES}, summary={"namespaces_nobody_can_delete": 1})
    assert tiles(client) == [("sales", 6, "good"), ("hr", 2, "bad")]
    text = client.html("/")
    assert "namespace:hr: 2 live entities; no user can delete it; dee is missing 2 of 2" in text
    assert 'href="/entities/namespace:hr"' in text


def test_tiles_can_be_coloured_by_number_of_viewers(browse, report):
    client, url = browse("aud"), "/?colour=exposure"
    assert tiles(client, url) == [("sales", 6, ""), ("hr", 2, "")]
    text = client.html(url)
    assert "How many users see which namespace?" in text and "Not analyzed yet" in text
    visible_counts = [
        ("dee", "sales", 6),
        ("ned", "hr", 1),
        ("ned", "sales", 1),
        ("out", "sales", 2),
        ("out", "", 1),
    ]
    report({"namespaces": visible_counts}, analysis="visibility")
    assert tiles(client, url) == [("sales", 6, "heat-5"), ("hr", 2, "heat-3")]
    text = client.html(url)
    assert "namespace:sales: 6 live entities; 3 users see an entity in it" in text
    assert "namespace:hr: 2 live entities; 1 user sees an entity in it" in text
    assert tiles(client) == [("sales", 6, ""), ("hr", 2, "")]


def test_a_namespace_without_viewers_has_a_known_colour(browse, report):
    report({"namespaces": [("dee", "sales", 6)]}, analysis="visibility")
    page = browse("aud").get("/?colour=exposure")
    assert "namespace:hr: 2 live entities; no user sees an entity in it" in page_html(page)
    assert not page.context["chart"]["has_unknown_tiles"]


def test_the_colour_is_kept_when_the_table_is_filtered(browse):
    client = browse("aud")
    section = client.html("/?colour=exposure&find=sa", headers={"HX-Request": "true", "HX-Target": "chart"})
    assert 'href="/?find=sa"' in section and "Needs attention" not in section
    table = client.html("/?colour=exposure", headers={"HX-Request": "true", "HX-Target": "namespaces"})
    assert '<input type="hidden" name="colour" value="exposure">' in table


def test_a_damaged_visibility_report_leaves_the_areas(browse, report, folder):
    run = report({"namespaces": [("dee", "sales", 6)]}, analysis="visibility")
    next((folder / run.result_path / "namespaces").iterdir()).write_bytes(b"nothing")
    page = browse("aud").get("/?colour=exposure")
    assert [tile.item.name for tile in page.context["chart"]["tiles"]] == ["sales", "hr"]
    assert f"The report of run {run.pk} cannot be read" in page_html(page)


def test_small_namespaces_share_one_tile(browse, monkeypatch):
    monkeypatch.setattr("authzconsole.web.reports.charts.namespace_treemap.MAX_TILES", 3)
    ensure_entities(states={parse_address(f"namespace:n{number}"): "live" for number in range(5)})
    assert tiles(browse("aud")) == [("sales", 6, ""), ("4 more", 4, ""), ("hr", 2, ""), ("n0", 1, "")]


def test_the_chart_of_a_large_tenant_uses_the_newest_report(browse, report, monkeypatch):
    monkeypatch.setattr(row_estimates, "MAX_COUNTED", 3)
    page = browse("aud").get("/")
    assert page.context["chart"]["is_unknown"] and "tiles" not in page.context["chart"]
    assert "No report yet" in page_html(page) and "Holders inside" not in page_html(page)
    report({"namespaces": NAMESPACES})
    assert tiles(browse("aud")) == [("sales", 6, "good"), ("hr", 2, "bad")]


def test_a_damaged_report_breaks_only_its_section(browse, report, folder):
    run = report({"namespaces": NAMESPACES})
    next((folder / run.result_path / "namespaces").iterdir()).write_bytes(b"nothing")
    page = browse("aud").get("/")
    assert page.status_code == 200 and "cannot be read" in page_html(page)


def test_attention_lists_problems_of_the_newest_reports(browse, report):
    client = browse("ada")
    assert client.get("/").context["missing_reports"] == [
        "Delete readiness",
        "Stranded entities",
        "Ghost grants",
    ]
    report({"rows": [], "namespaces": NAMESPACES}, summary=SUMMARY)
    report(
        {},
        analysis="stranded",
        options={"generation": "core"},
        summary={"entities_nobody_administers": 4, "entities_one_user_administers": 1},
    )
    report(
        {},
        analysis="ghost-grants",
        options={"generation": "core"},
        summary={"grants_on_deleted_addresses": 2, "grants_on_planned_addresses": 1},
    )
    report(
        {},
        analysis="policy-impact",
        options={"generation": "final", "to_generation": "core"},
        summary={"users_affected": 2, "answers_gained": 1, "answers_lost": 1_200},
    )
    assert attention_texts(client) == [
        "1 namespace that no user can delete",
        "4 live entities without an ADMIN holder",
        NO_BACKUP,
        "1 live entity with only one ADMIN holder",
        "1 grant on deleted addresses, which apply again if the entities are recreated",
        "1 grant on planned addresses, waiting for their entities",
        "Impact report available, from generation final to core: 1 permission gained, 1,200 lost",
    ]
    assert client.get("/").context["missing_reports"] == []
    for item in client.get("/").context["problems"]:
        assert client.get(item.url).status_code == 200


NO_BACKUP = "No backup was written"
LEFTOVER = "1 grant on deleted addresses, which apply again if the entities are recreated"


def test_ghost_grants_are_counted_without_a_report_as_a_report_counts_them(browse):
    client = browse("ada")
    assert attention_texts(client) == [
        NO_BACKUP,
        LEFTOVER,
        "1 grant on planned addresses, waiting for their entities",
    ]
    GroupGrant.objects.filter(content_object__state="planned").update(
        granted_at=timezone.now() - timedelta(days=100)
    )
    assert attention_texts(client) == [
        NO_BACKUP,
        LEFTOVER,
        "1 grant on planned addresses for more than 90 days",
    ]
    leftover = Finding.objects.get(kind="leftover-grants")
    User.objects.filter(username="dee").update(is_active=False)
    # as in the report and its trend
    assert attention_texts(client) == [NO_BACKUP, "1 grant on planned addresses for more than 90 days"]
    leftover.refresh_from_db()
    assert leftover.resolved_at is not None
    client.post("/plans/ghosts")
    assert Plan.objects.get().effect["revokes"] == 1
    assert attention_texts(client)[-1] == "1 proposed plan to apply or discard"


def test_problems_of_the_console_come_first(browse):
    create_plan_from_changes(grant=[("user:out", "dataset:sales.orders", "READ")])
    add_grant("user:out", "dataset:sales.orders", "WRITE")
    AnalysisRun.objects.create(type="stranded", state="failed", error="Java is missing.")
    record_maintenance(MaintenanceTask.JOURNAL_VERIFICATION, revision=3, fault="line 2 was changed")
    JournalHead.objects.update(hash="0" * 64)
    client = browse("aud")
    texts = attention_texts(client)
    assert texts[0].startswith("The console is read-only: ")
    assert texts[1] == "Journal verification failed: line 2 was changed"
    assert texts[-3:] == [
        "The last run of Stranded entities failed",
        "1 stale plan to renew or discard",
        "1 grant on planned addresses, waiting for their entities",
    ]
    for item in client.get("/").context["problems"]:
        assert client.get(item.url).status_code == 200


def test_a_failed_run_is_repeated_with_one_click(browse, report):
    failed = AnalysisRun.objects.create(type="stranded", state="failed", error="Java is missing.")
    item = next(item for item in browse("ada").get("/").context["problems"] if "failed" in item.text)
    assert browse("ada").post(item.fix.url, item.fix.fields).status_code == 303
    assert AnalysisRun.objects.filter(type="stranded").exclude(pk=failed.pk).exists()
    assert "Run again" in browse("ada").html("/") and "Run again" not in browse("aud").html("/")


def test_a_line_leads_to_its_finding_or_to_the_list_of_several(browse, report):
    report(
        {
            "rows": [
                ("dataset:hr.salaries", 0, ""),
                ("dataset:sales.orders", 1, "ned"),
                ("namespace:hr", 0, ""),
            ]
        },
        analysis="stranded",
        options={"generation": "core"},
        summary={"entities_nobody_administers": 2, "entities_one_user_administers": 1},
    )
    client = browse("aud")
    urls = {
        item.text: item.url for item in client.get("/").context["problems"] if "ADMIN holder" in item.text
    }
    assert urls == {
        "1 live entity with only one ADMIN holder": f"/findings/{Finding.objects.get(kind='one-admin-holder').pk}/",
        "2 live entities without an ADMIN holder": f"/findings/{Finding.objects.get(kind='no-admin-holder').pk}/",
    }
    add_grant("user:dee", "namespace:sales", "ADMIN")
    User.objects.filter(username="ned").update(is_active=False)
    item = next(item for item in client.get("/").context["problems"] if item.findings > 1)
    listed = client.get(item.url).context["rows"]
    assert len(listed) == item.findings and sum(row["finding"].figure for row in listed) == int(item.figure)


def test_requests_that_wait_for_a_decision_are_counted(browse, cast):
    wanted = [WantedAccess(parse_address("dataset:sales.orders"), "write")]
    create_request(author=author_named("dee"), draft=RequestDraft("quarterly close", wanted))
    assert "1 request waits for your decision" in attention_texts(browse("ada"))
    assert not any("decision" in text for text in attention_texts(browse("aud")))


def test_the_tiles_of_namespaces_are_shaded_by_the_share_that_is_missing(browse, report):
    report({"namespaces": [("hr", 2, 1, 0, 1, "dee", True), ("sales", 6, 3, 2, 0, "ned", False)]})
    shades = {tile.item.name: tile.item.shade for tile in browse("aud").get("/").context["chart"]["tiles"]}
    assert shades == {"hr": 3, "sales": 0}
    assert "shade-3" in browse("aud").html("/")


def test_the_first_runs_are_shown_until_they_end(browse, report, settings, htmx):
    settings.FIRST_ANALYSES = True
    page = browse("aud").get("/")
    text = page_html(page)
    assert (
        f"Analyses are running</a> (0 of {len(ANALYSES)} finished)" in text
        and 'hx-trigger="every 3s"' in text
    )
    assert (
        '<noscript><meta http-equiv="refresh" content="10"></noscript>' in text and 'id="chart"' not in text
    )
    assert "HX-Refresh" not in browse("aud").get("/", headers=htmx("attention")).headers
    report({"namespaces": NAMESPACES})
    for name in ANALYSES.keys() - {"delete-readiness"}:
        AnalysisRun.objects.create(type=name, state="done", revision=3, finished_at=timezone.now())
    assert browse("aud").get("/", headers=htmx("attention")).headers["HX-Refresh"] == "true"
    text = browse("aud").html("/")
    assert "every 3s" not in text and 'id="chart"' in text


def test_the_poll_of_the_age_of_reports_reads_reports_only(browse, report, htmx):
    report({"namespaces": NAMESPACES})
    client = browse("aud")
    with CaptureQueriesContext(connection) as queries:
        answer = client.get("/", headers=htmx("report-age"))
    assert answer["HX-Refresh"] == "true" and "Reports:" in page_html(answer)
    read = " ".join(query["sql"] for query in queries)
    assert "grants_job" in read and "entities_entity" not in read


def test_the_applications_in_a_tile_are_coloured_by_what_blocks_the_deletion(browse, report):
    namespaces = [("hr", 2, 1, 0, None, None, True), ("sales", 6, 3, 0, 3, "ned", True)]
    missing = [
        ("sales", "ned", address)
        for address in ("application:sales.shop", "dataset:sales.orders", "program:sales.shop.workflow.daily")
    ]
    other_user = [("sales", "dee", "dataset:sales.orders")]
    report({"namespaces": namespaces, "detail": sorted([*missing, *other_user])})
    page = browse("aud").get("/")
    sales, hr = page.context["chart"]["tiles"]
    assert [
        (part.item.name, part.item.area, part.item.caption, part.item.meaning, part.item.url)
        for part in sales.parts
    ] == [
        ("other entities", 4, "1 of 4 block", "bad", "/entities/namespace:sales"),
        ("shop", 2, "2 of 2 block", "bad", "/entities/application:sales.shop"),
    ]
    assert not hr.parts, "without an ADMIN holder of the namespace, every entity in it blocks its deletion"
    assert "ned is missing ADMIN on 2 of them, which blocks the deletion" in page_html(page)
    assert page_html(page).count('<g class="part bad ') == 4, "in landscape and in portrait"
    inside = sales.parts[0]
    assert sales.x < inside.x and inside.x + inside.width < sales.x + sales.width
    assert sales.y + 20 < inside.y and inside.y + inside.height < sales.y + sales.height


def test_nothing_blocks_in_a_namespace_that_a_user_can_delete(browse, report):
    report({"namespaces": [("sales", 6, 3, 2, 0, "ned", False)]})
    sales, _ = browse("aud").get("/").context["chart"]["tiles"]
    assert {part.item.meaning for part in sales.parts} == {"good"} and len(sales.parts) == 2


def test_a_report_without_details_leaves_the_applications_out(browse, report):
    report({"namespaces": [("sales", 6, 3, 0, 3, "ned", True)]})
    sales, _ = browse("aud").get("/").context["chart"]["tiles"]
    assert sales.item.meaning == "bad" and not sales.parts


def test_the_latest_changes_are_listed_newest_first(browse):
    revisions = [row["line"].revision for row in browse("aud").get("/").context["lines"]]
    assert len(revisions) == 5 and revisions == sorted(revisions, reverse=True)


def test_the_latest_changes_leave_out_the_work_of_the_console(browse, cast):
    client = browse("ada")
    before = [row["line"].revision for row in client.get("/").context["lines"]]
    client.post("/analyses/start", {"analysis": "stranded"})
    line = JournalLine.objects.order_by("-pk")[0]
    assert line.action == "run-start"
    page = client.get("/")
    assert [row["line"].revision for row in page.context["lines"]] == before
    add_grant("user:out", "dataset:sales.orders", "WRITE")
    assert client.get("/").context["lines"][0]["line"].action == "grant"


def test_the_latest_changes_have_one_line_for_the_grants_of_a_plan(browse):
    grants = [("user:out", "dataset:sales.orders", name) for name in ("READ", "WRITE", "EXECUTE")]
    plan = create_plan_from_changes(grant=grants)
    apply_plan(author=author_named("ada"), plan_id=plan.pk, shown=Shown(accepts_beyond=True))
    actions = [row["line"].action for row in browse("ada").get("/").context["lines"]]
    assert actions[:2] == ["plan-apply", "plan-create"]


def test_an_empty_console_has_no_overview(client, db):
    client.force_login(User.objects.create(username="ada", role="administrator", is_principal=False))
    assert "figures" not in client.get("/").context


def test_the_table_of_namespaces_says_how_old_its_report_is(browse, report):
    add_grant("user:dee", "namespace:hr", "READ")
    run = report(
        {"rows": [], "namespaces": []},
        options={"generation": active_generation().name, "namespace": ""},
        summary=SUMMARY,
        revision=current_revision(),
    )
    section = browse("ada").html("/").split('id="namespaces"')[1]
    assert "as of" in section and "since" not in section and "Check again" not in section
    add_grant("user:dee", "namespace:hr", "ADMIN")
    section = browse("ada").html("/").split('id="namespaces"')[1]
    assert "1 change since" in section and 'name="analysis" value="delete-readiness"' in section
    assert "Check again" not in browse("aud").html("/").split('id="namespaces"')[1]
    assert AnalysisRun.objects.get() == run


def test_the_overview_counts_open_findings_as_the_inbox_does(browse):
    page = browse("ada").get("/")
    listed = browse("ada").get("/findings/").context["rows"]
    assert page.context["open_total"] == len(listed) > 0
    total = page.context["open_total"]
    assert f"{total} open finding" in page_html(page)


def test_the_overview_names_the_five_users_with_the_broadest_access(browse, report):
    client, offer = browse("ada"), '<input type="hidden" name="analysis" value="blast-radius">'
    assert "Broadest access" in client.html("/") and offer in client.html("/")
    assert "Broadest access" in browse("aud").html("/") and offer not in browse("aud").html("/")
    people = [(f"user{number}", 10 * number, number, 1, 0, 0, 0, 1) for number in range(1, 8)]
    tables = {"rows": [], "people": people}
    run = report(tables, analysis="blast-radius", revision=current_revision(), summary={})
    page = client.get("/")
    assert [(bar["row"]["user"], bar["url"]) for bar in page.context["reach"]["chart"]["bars"]] == [
        (f"user{number}", f"/analyses/{run.pk}/?user=%22user{number}%22") for number in (7, 6, 5, 4, 3)
    ]
    assert "can change 7 of 70" in text_of(page)
    assert f"From run {run.pk}" in text_of(page) and "change since" not in text_of(page)
    add_grant("user:out", "dataset:sales.orders", Privilege.READ)
    assert "1 change since" in text_of(client.get("/")) and offer in client.html("/")


def test_a_damaged_report_on_the_broadest_access_breaks_only_its_card(browse, report, folder):
    tables = {"rows": [], "people": []}
    run = report(tables, analysis="blast-radius", revision=current_revision(), summary={})
    assert "No user reaches anything" in browse("aud").html("/")
    run = report(tables, analysis="blast-radius", revision=current_revision(), summary={})
    next((folder / run.result_path / "people").iterdir()).write_bytes(b"nothing")
    text = browse("aud").html("/")
    assert f"The report of run {run.pk} cannot be read" in text and "Latest changes" in text
