"""The inbox: who sees what, filters, decisions about findings, and rules."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from analytics.models import AnalysisRun, Figure
from analytics.runs.figures import record_figures
from analytics.runs.selectors import changes_since_each
from authzconsole.findings.refresh import GUARDRAIL_JOB, refresh_findings
from authzconsole.findings.services import (
    FindingError,
    FindingResolved,
    accept_findings,
    add_rule,
    assign_findings,
    reopen_findings,
)
from authzconsole.findings.sources import REPORTING
from authzconsole.models import AcceptanceRule, Finding, FindingState
from authzconsole.web.journal.rows import with_reader_times
from authzconsole.web.reports.charts.trends import TRENDS
from entities.address import parse_address
from entities.models import Entity
from grants.errors import NotAdministrator
from grants.jobs import run_job
from grants.journal import Author, current_revision
from grants.models import GroupGrant, Job, JournalLine, User, UserGrant
from grants.requests.create import RequestDraft, WantedAccess, create_request
from tests.support.authors import author_named
from tests.support.changes import activate_generation, add_grant, create_plan_from_changes
from tests.support.guardrails import add_guardrail
from tests.support.pages import page_html
from tests.support.reports import create_report

FORBID = {"forbid": {"privileges": ["ADMIN"], "within": "namespace:sales"}}
LATER = timezone.now() + timedelta(days=90)
DAY = f"{LATER:%Y-%m-%d}"


@pytest.fixture
def findings(cast) -> dict[str, Finding]:
    """Return the findings of the sample tenant, by kind."""
    AnalysisRun.objects.create(type="stranded", state="failed", error="Java is missing.")
    add_guardrail("writers", FORBID)
    refresh_findings()
    return {row.kind: row for row in Finding.objects.all()}


def texts(page) -> list[str]:
    return [row["text"] for row in page.context["rows"]]


def test_administrators_and_auditors_see_the_inbox_most_severe_first(browse, findings):
    page = browse("aud").get("/findings/")
    assert "violation" in texts(page)[0] and "No backup was written" in texts(page)
    assert 'name="number"' not in page_html(page) and "Run again" not in page_html(page)
    page = page_html(browse("ada").get("/findings/"))
    assert 'name="number"' in page and "Run again" in page and "Clean up" in page


@pytest.mark.parametrize("name", ["ned", "dee", "out"])
def test_other_accounts_see_only_what_waits_for_them(name, browse, findings):
    client = browse(name)
    page = client.html("/findings/")
    assert "Nothing waits for you" in page
    assert not any(word in page for word in ("writers", "backup", "grants on deleted", "namespace:"))
    for url in (
        "/findings.csv",
        "/findings.jsonl",
        "/findings/rules",
        f"/findings/{findings['no-backup'].pk}/",
    ):
        assert client.get(url).status_code == 404
    assert client.get("/findings/count").status_code == 204
    wanted = [WantedAccess(parse_address("dataset:sales.orders"), "write")]
    create_request(author=author_named(name), draft=RequestDraft("quarterly close", wanted))
    assert "request waits for your decision" in browse("ada").html("/findings/")
    assert "hr.salaries" not in client.html("/findings/")


def test_the_badge_counts_open_errors(browse, findings):
    client = browse("ada")
    assert ">1<" in client.html("/findings/count")
    accept_findings([findings["guardrail-violations"].pk], until=LATER, author=author_named("ada"))
    assert client.get("/findings/count").status_code == 204


def test_the_inbox_is_filtered_and_downloaded(browse, findings):
    client = browse("aud")
    leftover = "1 grant on deleted addresses, which apply again if the entities are recreated"
    assert texts(client.get("/findings/?namespace=sales&severity=warning")) == [leftover]
    assert texts(client.get("/findings/?kind=no-backup")) == ["No backup was written"]
    assert texts(client.get("/findings/?state=accepted")) == []
    assert texts(client.get("/findings/?owner=user:ada")) == []
    lines = b"".join(client.get("/findings.csv?kind=no-backup").streaming_content).decode().splitlines()
    assert len(lines) == 2 and "No backup was written" in lines[1]


def test_several_findings_are_accepted_with_a_reason_until_a_day(browse, findings):
    client, rows = browse("ada"), [findings["no-backup"], findings["leftover-grants"]]
    numbers = [row.pk for row in rows]
    form = client.html("/findings/change", {"verb": "accept", "number": numbers})
    assert "No backup was written" in form and "grant on deleted addresses" in form
    sent = {"verb": "accept", "number": numbers, "until": DAY, "reason": "until the move"}
    answer = client.post("/findings/change", sent, follow=True)
    assert "2 findings accepted." in page_html(answer)
    assert not {"No backup was written"} & set(texts(client.get("/findings/")))
    assert len(texts(client.get("/findings/?state=accepted"))) == 2
    lines = JournalLine.objects.filter(action="finding-accept")
    assert lines.count() == 2 and {line.reason for line in lines} == {"until the move"}
    assert "No backup was written" not in [item.text for item in client.get("/").context["problems"]]
    page = client.html(f"/findings/{rows[0].pk}/")
    assert "until the move" in page and "Open again" in page and f"{LATER.year}-" not in page


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"until": "2020-01-01"}, "2020-01-01 is in the past"),
        ({"until": ""}, "Enter the last day"),
        ({"until": "soon"}, "is not a date"),
        ({"reason": "  "}, "Enter a reason"),
        ({"number": []}, "Select at least one finding"),
    ],
)
def test_a_wrong_acceptance_is_refused_and_loses_nothing(changes, message, browse, findings):
    sent = {"verb": "accept", "number": [findings["no-backup"].pk], "until": DAY, "reason": "known"} | changes
    answer = browse("ada").post("/findings/change", sent)
    page = page_html(answer)
    assert answer.status_code == 400 and message in page
    assert changes.get("reason") is not None or 'value="known"' in page
    assert Finding.objects.get(kind="no-backup").state == FindingState.OPEN


def test_a_finding_that_was_resolved_meanwhile_is_not_accepted(browse, findings):
    Finding.objects.filter(kind="no-backup").update(resolved_at=timezone.now())
    sent = {"verb": "accept", "number": [findings["no-backup"].pk], "until": DAY, "reason": "known"}
    answer = browse("ada").post("/findings/change", sent)
    assert answer.status_code == 409 and "resolved meanwhile" in page_html(answer)
    with pytest.raises(FindingResolved):
        assign_findings([findings["no-backup"].pk], owner="ada", author=author_named("ada"))


def test_findings_are_opened_again_and_assigned(browse, findings):
    client, number = browse("ada"), findings["no-backup"].pk
    accept_findings([number], until=LATER, author=author_named("ada"))
    client.post("/findings/change", {"verb": "reopen", "number": [number], "reason": "not so"})
    row = Finding.objects.get(pk=number)
    assert row.state == FindingState.OPEN and not row.accepted_reason
    client.post("/findings/change", {"verb": "assign", "number": [number], "owner": "user:aud"})
    assert texts(client.get("/findings/?owner=aud")) == ["No backup was written"]
    refused = client.post("/findings/change", {"verb": "assign", "number": [number], "owner": "ned"})
    assert refused.status_code == 400 and "cannot own findings" in page_html(refused)
    client.post("/findings/change", {"verb": "assign", "number": [number], "owner": ""})
    assert Finding.objects.get(pk=number).owner is None
    history = client.html(f"/findings/{number}/")
    assert "reopened" in history and "to aud" in history and "to nobody" in history


@pytest.mark.parametrize("text", ["2026-99-99T00:00:00Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"])
def test_a_reason_that_looks_like_a_time_breaks_no_page(text, browse, findings):
    number = findings["no-backup"].pk
    accept_findings([number], until=LATER, author=Author("ada", reason=f"see {text}"))
    with timezone.override("Asia/Tokyo" if text > "2" else "America/Lima"):
        assert with_reader_times(text)
        assert text[:4].lstrip("0") in browse("ada").html(f"/findings/{number}/")


def test_only_administrators_decide(findings):
    number = findings["no-backup"].pk
    for name in ("aud", "ned"):
        author = Author(name, reason="known", user_id=User.objects.get(username=name).pk)
        for change in (
            lambda author=author: accept_findings([number], until=LATER, author=author),
            lambda author=author: reopen_findings([number], author=author),
            lambda author=author: assign_findings([number], owner="ada", author=author),
            lambda author=author: add_rule(kind="no-backup", pattern="*", until=LATER, author=author),
        ):
            with pytest.raises(NotAdministrator):
                change()
    assert not JournalLine.objects.filter(action__startswith="finding-").exists()


def test_a_rule_is_added_and_ended_on_its_page(browse, findings):
    client = browse("ada")
    sent = {"kind": "leftover-grants", "pattern": "namespace:s*", "until": DAY, "reason": "sandboxes"}
    assert "was added" in page_html(client.post("/findings/rules", sent, follow=True))
    row = Finding.objects.get(kind="leftover-grants")
    assert row.state == FindingState.ACCEPTED and row.accepted_reason == "sandboxes"
    refused = client.post("/findings/change", {"verb": "reopen", "number": [row.pk]})
    assert "end the rule" in page_html(refused)
    client.post("/findings/rules", {"verb": "end", "number": AcceptanceRule.objects.get().pk})
    row.refresh_from_db()
    assert row.state == FindingState.OPEN
    assert client.post("/findings/rules", {"verb": "end", "number": "77"}).status_code == 404


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "nothing"}, "is not one of"),
        ({"pattern": ""}, "Enter a pattern"),
        ({"pattern": "namespace:nowhere*"}, "matches no leftover grants"),
        ({"pattern": "*:sales"}, "overlaps rule"),
        ({"until": "2020-01-01"}, "in the past"),
        ({"reason": ""}, "Enter a reason"),
    ],
)
def test_a_wrong_rule_is_refused_and_loses_nothing(changes, message, browse, findings):
    author = author_named("ada")
    if "overlaps" in message:
        add_rule(kind="leftover-grants", pattern="namespace:s*", until=LATER, author=author)
    sent = {"kind": "leftover-grants", "pattern": "namespace:*", "until": DAY, "reason": "known"} | changes
    answer = browse("ada").post("/findings/rules", sent)
    page = page_html(answer)
    assert answer.status_code == 400 and message in page and f'value="{sent["until"]}"' in page


def test_a_rule_of_an_unknown_kind_is_refused_with_the_kinds(findings):
    with pytest.raises(FindingError, match="`nothing` is not a kind of findings; the kinds are read-only"):
        add_rule(kind="nothing", pattern="*", until=LATER, author=author_named("ada"))


def test_every_finding_leads_to_pages_that_open(browse, findings):
    create_plan_from_changes(grant=[("user:out", "dataset:sales.orders", "READ")])
    client = browse("ada")
    for row in client.get("/findings/").context["rows"]:
        assert client.get(row["url"]).status_code == 200
        if row["fix"] and row["fix"].is_link:
            assert client.get(row["fix"].url).status_code == 200
        assert client.get(f"/findings/{row['finding'].pk}/").status_code == 200


@pytest.fixture
def old_report(cast, settings, tmp_path):
    """A report of two hours ago about a namespace without an ADMIN holder, and two grants that were made since."""
    settings.SNAPSHOT_URI = str(tmp_path)
    run = create_report(
        tmp_path,
        {"rows": [("namespace:hr", 0, ""), ("dataset:hr.salaries", 0, "")]},
        analysis="stranded",
        options={"generation": "final"},
        summary={"entities_nobody_administers": 2},
        revision=current_revision(),
        finished_at=timezone.now() - timedelta(hours=2),
    )
    for user in ("dee", "ned"):
        add_grant(f"user:{user}", "namespace:hr", "ADMIN")
    return run


def test_the_inbox_says_how_old_its_reports_are_and_checks_again(browse, old_report, sent_tasks, htmx):
    page = browse("ada").html("/findings/")
    assert "2 hours ago" in page and "2 changes since" in page and "Check again" in page
    assert "1 live entity without an ADMIN holder" in page, "the other one was solved since"
    assert "Check again" not in browse("aud").html("/findings/")
    answer = browse("ada").post("/analyses/check", follow=True)
    assert "1 analysis was started" in page_html(answer)
    assert "1 analysis is running" in page_html(answer) and "Check again" not in page_html(answer)
    poll = browse("ada").get("/findings/", headers=htmx("report-age"))
    assert "1 analysis is running" in page_html(poll) and "HX-Refresh" not in poll
    run = AnalysisRun.objects.get(state="waiting")
    assert (run.type, run.options) == ("stranded", old_report.options)
    assert "running already" in page_html(browse("ada").post("/analyses/check", follow=True))
    AnalysisRun.objects.filter(pk=run.pk).update(state="cancelled")
    assert browse("ada").get("/findings/", headers=htmx("report-age"))["HX-Refresh"] == "true"


def test_a_check_starts_every_analysis_that_the_inbox_and_the_trends_show(
    browse, old_report, tmp_path, sent_tasks
):
    assert set(TRENDS) <= set(REPORTING)
    for name in ("blast-radius", "guardrails"):
        create_report(tmp_path, {}, analysis=name, summary={}, revision=old_report.revision)
    client = browse("ada")
    client.post("/analyses/check")
    started = AnalysisRun.objects.filter(state="waiting")
    assert {run.type for run in started} == {"stranded", "blast-radius", "guardrails"}


def test_a_written_guardrail_is_a_change_since_the_report_on_guardrails(cast, tmp_path):
    guardrails, other = (
        create_report(tmp_path, {}, analysis=name, summary={}, revision=current_revision())
        for name in ("guardrails", "blast-radius")
    )
    add_guardrail("writers", FORBID)
    assert changes_since_each([guardrails, other]) == {guardrails.pk: 1, other.pk: 0}


def test_an_activation_is_a_change_since_the_report_on_guardrails(cast, tmp_path):
    guardrails, other = (
        create_report(tmp_path, {}, analysis=name, summary={}, revision=current_revision())
        for name in ("guardrails", "blast-radius")
    )
    activate_generation("core")
    assert changes_since_each([guardrails, other]) == {guardrails.pk: 1, other.pk: 0}


def test_a_check_says_which_analysis_is_refused_and_starts_the_others(
    browse, old_report, tmp_path, sent_tasks, settings
):
    settings.USAGE_KEPT_DAYS = 90
    options = {"generation": "final", "since": "120"}
    create_report(tmp_path, {}, analysis="unused", options=options, summary={}, revision=old_report.revision)
    client = browse("ada")
    for text in ("1 analysis was started", "The analyses are running already"):
        answer = client.post("/analyses/check", headers={"Referer": "http://testserver/trends"})
        assert (answer.status_code, answer["Location"]) == (303, "/trends")
        page = page_html(client.get("/trends"))
        assert text in page and "was not started: " in page and "is not a number of days" in page
        assert "Nothing was changed" not in page
        assert [run.type for run in AnalysisRun.objects.filter(state="waiting")] == ["stranded"]
    answer = client.post("/analyses/check", {"analysis": "unused"}, follow=True)
    assert "was not started" in page_html(answer) and "Nothing was changed" not in page_html(answer)


@pytest.mark.django_db(transaction=True)
def test_two_checks_at_once_start_an_analysis_once(browse, old_report, sent_tasks):
    clients = [browse("ada"), browse("ada")]
    with ThreadPoolExecutor(2) as threads:
        answers = list(threads.map(_check_again, clients))
    assert [answer.status_code for answer in answers] == [303, 303]
    assert AnalysisRun.objects.filter(state="waiting").count() == 1


def _check_again(client):
    try:
        return client.post("/analyses/check")
    finally:
        connection.close()


def test_the_page_follows_the_check_of_guardrails_in_a_large_tenant(
    browse, old_report, tmp_path, sent_tasks, htmx, monkeypatch
):
    monkeypatch.setattr("authzconsole.common.row_estimates.MAX_COUNTED", 3)
    create_report(tmp_path, {}, analysis="guardrails", summary={}, revision=old_report.revision)
    add_guardrail("writers", FORBID)
    client = browse("ada")
    answer = client.post("/analyses/check", {"analysis": "guardrails"}, follow=True)
    assert "1 analysis is running" in page_html(answer), "the report and the job are one analysis"
    AnalysisRun.objects.filter(state="waiting").update(state="cancelled")
    job = Job.objects.get(type=GUARDRAIL_JOB)
    poll = client.get("/findings/", headers=htmx("report-age"))
    assert "1 analysis is running" in page_html(poll) and "HX-Refresh" not in poll
    run_job(job.pk)
    assert client.get("/findings/", headers=htmx("report-age"))["HX-Refresh"] == "true"


@pytest.mark.parametrize("url", ["/", "/trends", "/findings/?state=all"])
def test_a_check_returns_to_the_page_and_the_page_follows_it(url, browse, old_report, sent_tasks, htmx):
    for days in range(2):
        record_figures(
            old_report,
            {("entities_nobody_administers", ""): 2},
            finished_at=timezone.now() - timedelta(days=days),
        )
        Figure.objects.update(run_id=None)
    client = browse("ada")
    assert "2 changes since" in client.html(url) and "Check again" in client.html(url)
    answer = client.post("/analyses/check", headers={"Referer": f"http://testserver{url}"})
    assert (answer.status_code, answer["Location"]) == (303, url)
    assert "1 analysis is running" in client.html(url)
    AnalysisRun.objects.filter(state="waiting").update(state="cancelled")
    assert client.get(url, headers=htmx("report-age"))["HX-Refresh"] == "true"


def test_a_check_starts_nothing_without_a_change(browse, old_report, sent_tasks):
    AnalysisRun.objects.update(revision=current_revision())
    assert "Check again" not in browse("ada").html("/findings/")
    answer = browse("ada").post("/analyses/check", {"analysis": "stranded"}, follow=True)
    assert "Nothing was changed" in page_html(answer)
    assert not AnalysisRun.objects.filter(state="waiting").exists()


def test_the_page_of_a_finding_names_who_and_what_with_the_button_that_fixes_it(browse, old_report):
    refresh_findings()
    row = Finding.objects.get(kind="no-admin-holder")
    page = browse("ada").html(f"/findings/{row.pk}/")
    assert 'href="/entities/dataset:hr.salaries"' in page
    assert 'href="/grant/dataset:hr.salaries?privilege=ADMIN"' in page and "nobody holds ADMIN" in page
    assert "namespace:hr?privilege" not in page, "the namespace has two ADMIN holders since"
    assert f'name="number" value="{row.pk}"' in page and 'name="until"' in page and 'name="reason"' in page
    assert f"{timezone.localdate():%Y}" in page and "2 changes since" in page
    seen = browse("aud").html(f"/findings/{row.pk}/")
    assert "dataset:hr.salaries" in seen and "/grant/" not in seen and 'name="until"' not in seen


def test_the_rows_of_a_finding_in_a_large_tenant_are_loaded_after_the_page(
    browse, old_report, htmx, monkeypatch
):
    refresh_findings()
    url = f"/findings/{Finding.objects.get(kind='no-admin-holder').pk}/"
    monkeypatch.setattr("authzconsole.common.row_estimates.MAX_COUNTED", 3)
    client, fix = browse("ada"), 'href="/grant/dataset:hr.salaries?privilege=ADMIN"'
    page = client.html(url)
    assert f'hx-get="{url}"' in page and "nobody holds ADMIN" not in page
    section = client.html(url, headers=htmx("problems"))
    assert fix in section and "nobody holds ADMIN" in section and "<h1" not in section
    assert fix in client.html(f"{url}?rows=1")


def test_a_page_of_a_finding_refreshes_only_its_kind(browse, findings):
    rows = [findings["no-backup"], findings["leftover-grants"]]
    Finding.objects.filter(pk__in=[row.pk for row in rows]).update(figure=70)
    browse("ada").get(f"/findings/{rows[1].pk}/")
    for row in rows:
        row.refresh_from_db()
    assert rows[0].figure == 70 and rows[1].figure < 70


def test_the_page_of_a_leftover_grant_names_its_holder(browse, findings):
    page = browse("ada").html(f"/findings/{findings['leftover-grants'].pk}/")
    assert 'href="/entities/dataset:sales.legacy"' in page and 'href="/people/user:dee"' in page
    assert "/revoke/dataset:sales.legacy?principal=user:dee&amp;privilege=" in page


def test_the_pages_of_grants_on_planned_addresses_name_only_those_that_they_count(browse, cast):
    Entity.objects.filter(kind="dataset", key="sales.orders").update(state="planned")
    UserGrant.objects.filter(content_object__key="sales.orders").delete()
    GroupGrant.objects.filter(content_object__key="sales.orders").delete()
    for user in ("dee", "ned"):
        add_grant(f"user:{user}", "dataset:sales.orders", "READ")
    UserGrant.objects.filter(user__username="dee").update(granted_at=timezone.now() - timedelta(days=100))
    refresh_findings()
    for kind, name, other in (("old-planned-grants", "dee", "ned"), ("planned-grants", "ned", "dee")):
        finding = Finding.objects.get(kind=kind, subject="namespace:sales")
        rows = browse("ada").get(f"/findings/{finding.pk}/").context["problems"]
        principals = [row.principal for row in rows]
        assert f"user:{name}" in principals and f"user:{other}" not in principals
        assert len(rows) == finding.figure


def test_opening_a_finding_resolves_it_if_its_problem_is_solved(browse, old_report, sent_tasks):
    refresh_findings()
    row = Finding.objects.get(kind="no-admin-holder")
    for user in ("dee", "ned"):
        add_grant(f"user:{user}", "dataset:hr.salaries", "ADMIN")
    page = browse("ada").html(f"/findings/{row.pk}/")
    assert "resolved" in page and 'id="accept"' not in page and "Grant ADMIN" not in page


def test_the_queries_of_a_page_of_a_finding_are_bounded(browse, old_report, django_assert_max_num_queries):
    client = browse("ada")
    refresh_findings()
    url = f"/findings/{Finding.objects.get(kind='no-admin-holder').pk}/"
    client.get(url)
    with django_assert_max_num_queries(60):
        client.get(url)
