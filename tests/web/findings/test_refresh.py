"""Findings are opened, changed, resolved and announced by what reports, guardrails and the tenant say."""

import time
from datetime import timedelta
from functools import partial
from threading import Thread

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from analytics.analyses import ANALYSES
from analytics.models import AnalysisRun
from authzconsole.connections.jobs import SYNC_JOB, TEST_JOB
from authzconsole.findings.kinds import JOB_WORDS
from authzconsole.findings.refresh import (
    GUARDRAIL_JOB,
    announce_errors,
    refresh_findings,
    request_guardrail_check,
    store_findings,
    sweep_findings,
)
from authzconsole.findings.rules import matches
from authzconsole.findings.services import accept_findings, add_rule, end_rule
from authzconsole.findings.sources import Found
from authzconsole.models import AcceptanceRule, Finding, FindingState
from authzconsole.tasks import sweep_stored_findings
from entities.address import parse_address
from entities.services import ensure_entities
from grants.changes import Shown
from grants.jobs import run_job
from grants.jobs.types import JOB_TYPES
from grants.journal import Author, current_revision
from grants.models import EFFECT_JOBS, Job, JobState, JournalHead, JournalLine
from grants.plans.application import request_application
from grants.plans.apply import apply_plan
from tests.support.authors import author_named
from tests.support.changes import activate_generation, add_grant, create_plan_from_changes, revoke_grant
from tests.support.guardrails import add_exception, add_guardrail
from tests.support.reports import create_report

pytestmark = pytest.mark.django_db
AUTHOR = Author("the tests", reason="known")
FORBID = {"forbid": {"privileges": ["ADMIN"], "within": "namespace:sales"}}
LATER = timezone.now() + timedelta(days=90)
STRANDED = [
    ("dataset:hr.salaries", 0, ""),
    ("dataset:sales.orders", 1, "ned"),
    ("kerberosprincipal:etl/host.com@REALM", 0, ""),
    ("namespace:hr", 0, ""),
    ("program:sales.shop.workflow.daily", 0, ""),
]


@pytest.fixture
def report(cast, settings, tmp_path):
    """Return a function that stores a report with these tables."""
    settings.SNAPSHOT_URI = str(tmp_path)
    revision = current_revision()
    return partial(create_report, tmp_path, revision=revision, finished_at=timezone.now())


def stranded_report(report, rows=STRANDED) -> AnalysisRun:
    figures = {0: "entities_nobody_administers", 1: "entities_one_user_administers"}
    summary = {name: sum(row[1] == admins for row in rows) for admins, name in figures.items()}
    return report({"rows": rows}, analysis="stranded", options={"generation": "core"}, summary=summary)


def found(kind: str) -> dict[str, int]:
    """Refresh, and return the figure of each unresolved finding of a kind, by subject."""
    refresh_findings()
    return dict(Finding.objects.filter(kind=kind, resolved_at=None).values_list("subject", "figure"))


def finding(kind: str, subject: str = "") -> Finding:
    return Finding.objects.get(kind=kind, subject=subject)


def events(row: Finding) -> list[str]:
    row.refresh_from_db()
    return [event["what"] for event in row.history]


def test_a_report_has_one_finding_for_each_namespace_and_one_for_the_rest(report):
    stranded_report(report)
    assert found("no-admin-holder") == {"namespace:hr": 2, "namespace:sales": 1, "": 1}
    assert found("one-admin-holder") == {"namespace:sales": 1}


def test_the_findings_of_a_report_about_another_generation_are_resolved(report):
    activate_generation("core")
    summary = {"namespaces_nobody_can_delete": 1}
    report({"rows": [], "namespaces": []}, options={"generation": "core", "namespace": ""}, summary=summary)
    assert found("undeletable") == {"": 1}
    activate_generation("final")
    assert found("undeletable") == {}


def test_the_number_of_findings_does_not_grow_with_the_namespaces(report, monkeypatch):
    monkeypatch.setattr("authzconsole.findings.sources.MAX_NAMESPACES", 2)
    rows = sorted((f"dataset:n{number}.d{item}", 0, "") for number in range(9) for item in range(number + 1))
    stranded_report(report, rows)
    assert found("no-admin-holder") == {"namespace:n8": 9, "namespace:n7": 8, "": 45 - 17}


def test_a_report_that_cannot_be_read_has_one_finding_with_its_total(report):
    report(
        {}, analysis="stranded", options={"generation": "core"}, summary={"entities_nobody_administers": 4}
    )
    assert found("no-admin-holder") == {"": 4}


def test_a_finding_keeps_its_beginning_until_it_is_resolved_and_found_again(report):
    stranded_report(report)
    refresh_findings()
    Finding.objects.update(since=timezone.now() - timedelta(days=9))
    stranded_report(report, STRANDED[:1])
    assert found("no-admin-holder") == {"namespace:hr": 1}
    row = finding("no-admin-holder", "namespace:hr")
    assert row.since < timezone.now() - timedelta(days=8) and events(row) == ["opened", "changed"]
    assert finding("no-admin-holder", "namespace:sales").state == FindingState.RESOLVED
    stranded_report(report)
    refresh_findings()
    again = finding("no-admin-holder", "namespace:sales")
    assert again.state == FindingState.OPEN and again.since > timezone.now() - timedelta(days=1)
    assert events(again) == ["opened", "resolved", "opened"]


def test_an_acceptance_ends_with_its_time_and_when_more_is_found(report):
    stranded_report(report)
    refresh_findings()
    row = finding("no-admin-holder", "namespace:hr")
    accept_findings([row.pk], until=LATER, author=AUTHOR)
    stranded_report(report, STRANDED[:1])
    refresh_findings()
    row.refresh_from_db()
    assert (row.state, row.figure) == (FindingState.ACCEPTED, 1), "less than what was accepted"
    stranded_report(report, [*STRANDED[:1], ("dataset:hr.a", 0, ""), ("dataset:hr.b", 0, "")])
    refresh_findings()
    row.refresh_from_db()
    assert (row.state, row.figure, row.accepted_reason) == (FindingState.OPEN, 3, "")
    accept_findings([row.pk], until=LATER, author=AUTHOR)
    Finding.objects.update(accepted_until=timezone.now())
    row.refresh_from_db()
    assert row.state == FindingState.OPEN


def test_a_rule_accepts_later_findings_until_it_is_ended(report):
    stranded_report(report, STRANDED[:1])
    refresh_findings()
    rule, outcome = add_rule(kind="no-admin-holder", pattern="namespace:*", until=LATER, author=AUTHOR)
    assert "accepts finding" in outcome.sentence
    stranded_report(report)
    refresh_findings()
    states = {row.subject: row.state for row in Finding.objects.filter(kind="no-admin-holder")}
    assert states == {"namespace:hr": "accepted", "namespace:sales": "accepted", "": "open"}
    end_rule(rule.pk, author=AUTHOR)
    assert {row.state for row in Finding.objects.filter(kind="no-admin-holder")} == {"open"}
    assert not AcceptanceRule.objects.exists()


@pytest.mark.parametrize(
    ("pattern", "subject", "is_match"),
    [
        ("namespace:sandbox*", "namespace:sandbox_2", True),
        ("namespace:sandbox*", "namespace:sales", False),
        ("*:s*e*", "namespace:sales", True),
        ("a*b*b", "ab", False),
        ("a**b", "ab", True),
        ("*", "", True),
        ("", "", True),
        ("a.c", "abc", False),
    ],
)
def test_a_pattern_matches_the_whole_subject(pattern, subject, is_match):
    assert matches(pattern, subject) == is_match


def test_a_pattern_with_many_stars_takes_no_exponential_time():
    start = time.monotonic()
    assert not matches("*a" * 12 + "*b", "namespace:" + "a" * 200)
    assert not matches("*a" * 148 + "*b", "namespace:" + "a" * 200)
    assert time.monotonic() - start < 1


def test_guardrails_are_findings_by_their_level_without_accepted_violations(cast):
    add_guardrail("writers", FORBID)
    assert found("guardrail-violations")["guardrail:writers"] > 0
    add_guardrail("writers", FORBID | {"level": "warn"})
    assert found("guardrail-violations") == {} and "guardrail:writers" in found("guardrail-warnings")
    add_exception("writers", until=LATER)
    assert found("guardrail-warnings") == {}


def test_a_large_tenant_counts_violations_in_a_job_once_a_day(cast, monkeypatch):
    add_guardrail("writers", FORBID)
    monkeypatch.setattr("authzconsole.common.row_estimates.MAX_COUNTED", 3)
    sweep_findings()
    sweep_findings()
    assert not Finding.objects.filter(kind="guardrail-violations").exists()
    job = Job.objects.get(type=GUARDRAIL_JOB)
    run_job(job.pk)
    job.refresh_from_db()
    assert job.state == JobState.DONE and job.summary["violations"] > 0
    assert finding("guardrail-violations", "guardrail:writers").figure == job.summary["violations"]
    assert "guardrail:writers" in found("guardrail-violations"), "a page does not resolve it"


@pytest.mark.django_db(transaction=True)
def test_two_requests_at_the_same_time_start_one_check_of_guardrails(cast, sent_tasks):
    add_guardrail("writers", FORBID)

    def request() -> None:
        request_guardrail_check()
        connection.close()

    other = Thread(target=request)
    with transaction.atomic():
        request_guardrail_check()
        other.start()
        other.join(1)
    other.join()
    assert Job.objects.filter(type=GUARDRAIL_JOB).count() == 1


def test_failed_jobs_of_the_last_week_are_findings(cast):
    now = timezone.now()
    for days in (1, 2, 9):
        Job.objects.create(type="evidence", state="failed", finished_at=now - timedelta(days=days))
    assert found("failed-job") == {"job:evidence": 2}
    assert str(finding("failed-job", "job:evidence").note).startswith("2 bundles of evidence failed")


def test_a_failed_sync_leads_to_the_connections_and_a_failed_test_is_no_finding(browse):
    for job_type in (SYNC_JOB, TEST_JOB):
        Job.objects.create(type=job_type, state="failed", finished_at=timezone.now())
    assert found("failed-job") == {f"job:{SYNC_JOB}": 1}
    page = browse("aud").html("/findings/?kind=failed-job")
    assert "1 sync with a platform failed in the last 7 days" in page
    assert f'href="/connections/">job:{SYNC_JOB}</a>' in page


def test_every_job_that_can_be_a_finding_has_words():
    assert JOB_WORDS.keys() == JOB_TYPES.keys() - {*ANALYSES, *EFFECT_JOBS, TEST_JOB}


def test_a_refused_application_of_a_plan_is_no_failed_job_and_its_plan_waits(cast, sent_tasks):
    plan = create_plan_from_changes(revoke=[("user:ned", "dataset:sales.orders", "ADMIN")])
    shown = Shown(accepts_beyond=True)
    refused = request_application(author=author_named("ada"), plan_id=plan.pk, shown=shown)
    revoke_grant("user:ned", "dataset:sales.orders", "ADMIN")
    run_job(refused.pk)
    refused.refresh_from_db()
    assert refused.state == JobState.FAILED and f"plan {plan.pk}" in refused.error
    assert found("failed-job") == {} and found("stale-plans") == {"": 1}
    broken = Job.objects.create(type=refused.type, options={"plan": 0})
    run_job(broken.pk)
    assert found("failed-job") == {f"job:{refused.type}": 1}


def test_new_errors_have_one_journal_line_each_that_webhooks_deliver(report):
    stranded_report(report)
    sweep_findings()
    sweep_findings()
    lines = JournalLine.objects.filter(action="finding-open")
    assert lines.count() == 3 and all(line.actor == "findings" and not line.entity for line in lines)
    accept_findings([finding("no-admin-holder", "namespace:hr").pk], until=LATER, author=AUTHOR)
    Finding.objects.update(is_announced=False)
    assert announce_errors() == 2, "an accepted error is not announced"


def test_a_refresh_without_news_writes_nothing_and_reads_no_report(report, tmp_path):
    run = stranded_report(report)
    refresh_findings()
    next((tmp_path / run.result_path / "rows").iterdir()).unlink()
    with CaptureQueriesContext(connection) as captured:
        refresh_findings()
    statements = [query["sql"].split()[0] for query in captured]
    assert set(statements) == {"SELECT"} and len(statements) <= 25


def test_a_page_of_a_large_tenant_does_not_wait_for_reports(report, monkeypatch):
    monkeypatch.setattr("authzconsole.common.row_estimates.MAX_COUNTED", 3)
    stranded_report(report)
    refresh_findings(is_page=True)
    assert not Finding.objects.filter(kind="no-admin-holder").exists()
    sweep_findings()
    assert Finding.objects.filter(kind="no-admin-holder").count() == 3


def test_resolved_findings_are_deleted_after_more_than_a_year(report):
    stranded_report(report)
    refresh_findings()
    stranded_report(report, [])
    refresh_findings()
    Finding.objects.filter(subject="namespace:hr").update(resolved_at=timezone.now() - timedelta(days=401))
    sweep_findings()
    subjects = set(Finding.objects.filter(kind="no-admin-holder").values_list("subject", flat=True))
    assert subjects == {"namespace:sales", ""}


def test_the_history_of_a_finding_is_bounded(report):
    stranded_report(report)
    refresh_findings()
    row = finding("no-admin-holder", "namespace:hr")
    for number in range(60):
        row.record("changed", text=str(number))
    assert len(row.history) == Finding.MAX_HISTORY and row.history[-1]["text"] == "59"


def test_leftover_grants_are_counted_by_namespace_and_resolved_after_the_cleanup(browse):
    client = browse("ada")
    assert found("leftover-grants") == {"namespace:sales": 1}
    ensure_entities(states={parse_address("namespace:hr"): "deleted"})
    before = found("leftover-grants")
    assert before["namespace:sales"] == 1
    page = client.post("/plans/ghosts", {"namespace": "sales"}, follow=True)
    plan = page.context["plan"]
    apply_plan(author=author_named("ada"), plan_id=plan.pk)
    assert "namespace:sales" not in found("leftover-grants")


def test_a_refresh_keeps_a_decision_that_was_made_while_it_was_finding(report):
    stranded_report(report)
    refresh_findings()
    read_before = {(row.kind, row.subject): row for row in Finding.objects.filter(resolved_at=None)}
    row = finding("no-admin-holder", "namespace:hr")
    accept_findings([row.pk], until=LATER, author=AUTHOR)
    store_findings(("no-admin-holder",), [Found("no-admin-holder", "namespace:hr")], read_before)
    row.refresh_from_db()
    assert (row.state, row.figure, row.accepted_reason) == (FindingState.ACCEPTED, 1, "known")
    assert events(row) == ["opened", "accepted", "changed"]


def test_the_periodic_task_waits_while_the_journal_is_read_only(report):
    stranded_report(report)
    JournalHead.objects.update(hash="0" * 64)
    sweep_stored_findings()
    assert Finding.objects.filter(kind="read-only", is_announced=False).exists()
    assert not JournalLine.objects.filter(action="finding-open").exists()


def test_a_solved_problem_is_no_finding_any_more_before_the_next_analysis(report, cast):
    """`hr.salaries` has no ADMIN holder at first, and one afterwards; the namespace has two."""
    stranded_report(report)
    assert found("no-admin-holder")["namespace:hr"] == 2
    add_grant("user:dee", "dataset:hr.salaries", "ADMIN")
    for user in ("dee", "ned"):
        add_grant(f"user:{user}", "namespace:hr", "ADMIN")
    assert "namespace:hr" not in found("no-admin-holder")
    assert finding("no-admin-holder", "namespace:hr").state == FindingState.RESOLVED
    assert found("one-admin-holder")["namespace:hr"] == 1
    revoke_grant("user:dee", "dataset:hr.salaries", "ADMIN")
    assert found("no-admin-holder")["namespace:hr"] == 1, "the problem has returned"


def test_a_namespace_that_its_nearest_user_can_delete_now_is_resolved(report, cast):
    activate_generation("final")
    rows = [("hr", 2, 1, 0, 2, "dee", True), ("sales", 9, 1, 0, 9, "dee", True)]
    report(
        {"rows": [], "namespaces": rows},
        options={"generation": "final", "namespace": ""},
        summary={"namespaces_nobody_can_delete": 2},
        revision=current_revision(),
    )
    assert found("undeletable") == {"namespace:hr": 1, "namespace:sales": 1}
    for address in ("namespace:hr", "dataset:hr.salaries"):
        add_grant("user:dee", address, "ADMIN")
    assert found("undeletable") == {"namespace:sales": 1}


def test_a_revoked_grant_is_no_redundant_one(report, cast):
    add_grant("user:dee", "namespace:hr", "READ")
    report(
        {"rows": [("user:dee", "namespace:hr", "READ", "group:readers")]},
        analysis="redundant",
        options={"generation": "core"},
        summary={"redundant_grants": 1},
        revision=current_revision(),
    )
    assert found("redundant-grants") == {"namespace:hr": 1}
    revoke_grant("user:dee", "namespace:hr", "READ")
    assert found("redundant-grants") == {}


def test_many_rows_are_left_to_the_next_analysis(report, cast, monkeypatch):
    monkeypatch.setattr("authzconsole.findings.sources.MAX_ROWS_CHECKED", 2)
    stranded_report(report)
    before = found("no-admin-holder")
    add_grant("user:dee", "namespace:hr", "ADMIN")
    assert found("no-admin-holder") == before


def test_the_queries_of_a_check_do_not_grow_with_the_rows(report, cast):
    counts = []
    for total in (5, 300):
        rows = sorted([*STRANDED, *((f"dataset:sales.d{number}", 0, "") for number in range(total - 5))])
        stranded_report(report, rows)
        refresh_findings()
        add_grant("user:dee", "namespace:hr", "READ" if total == 5 else "WRITE")
        with CaptureQueriesContext(connection) as captured:
            refresh_findings()
        counts.append(len(captured))
    # the first refresh after the change also writes
    assert counts[1] <= counts[0] <= 40, counts
