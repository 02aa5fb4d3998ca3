"""The pages that start, follow and cancel runs of analyses."""

import re
from datetime import timedelta

import pytest
from django.conf import settings
from django.utils import timezone

from analytics.analyses import ANALYSES, OPTIONS
from analytics.models import AnalysisRun
from authzconsole.web.shared.times import day_text
from grants.models import JobState
from grants.usage.storage import UsageRecord, add_usage
from tests.support.pages import form_faults, page_html, text_of
from tests.support.readiness_report import ANALYSIS
from tests.support.reports import create_report
from tests.support.runs import create_waiting_run

pytestmark = pytest.mark.usefixtures("sent_runs")


@pytest.mark.parametrize(
    ("namespace", "scope"),
    [("", "every namespace"), ("sales", "namespace:sales"), ("namespace:sales", "namespace:sales")],
)
def test_starting_a_run_sends_it_to_the_worker(
    namespace, scope, browse, sent_runs, django_capture_on_commit_callbacks
):
    with django_capture_on_commit_callbacks(execute=True):
        response = browse("ada").post("/analyses/start", {"analysis": ANALYSIS, "namespace": namespace})
    run = AnalysisRun.objects.get()
    assert (response.status_code, response.headers["Location"]) == (303, f"/analyses/{run.pk}/")
    assert (sent_runs, run.requested_by.username, run.options["generation"]) == ([run], "ada", "final")
    page = browse("aud").get(response.headers["Location"])
    assert scope in page_html(page) and "It starts within seconds." in page_html(page)


@pytest.mark.parametrize(
    ("form", "fault"),
    [
        ({"analysis": "nonsense"}, "`nonsense` is not an analysis"),
        ({}, "`` is not an analysis"),
        ({"analysis": ANALYSIS, "namespace": "nowhere"}, "namespace:nowhere is not registered"),
        ({"analysis": ANALYSIS, "namespace": "a b"}, "contains a character"),
        ({"analysis": "policy-impact", "generation": "core", "to_generation": "core"}, "both are core"),
        ({"analysis": ANALYSIS, "generation": "newest"}, "`newest` is not a generation"),
    ],
)
def test_an_invalid_run_is_explained_and_not_stored(form, fault, browse):
    response = browse("ada").post("/analyses/start", form)
    assert response.status_code == 400 and fault in form_faults(response)
    assert fault in text_of(response)
    assert not AnalysisRun.objects.exists()


def test_hidden_options_are_not_passed_to_the_analysis(browse):
    form = {"analysis": "visibility", "generation": "core", "to_generation": "final", "namespace": "hr"}
    assert browse("ada").post("/analyses/start", form).status_code == 303
    assert AnalysisRun.objects.get().options == {"generation": "core"}


def test_a_refused_form_keeps_its_values(browse):
    form = {"analysis": "policy-impact", "generation": "core", "to_generation": "core"}
    text = page_html(browse("ada").post("/analyses/start", form))
    assert re.search(
        r'<option value="policy-impact" class="has-generation has-to_generation" selected>', text
    )
    for name in OPTIONS:
        takers = [analysis for analysis in ANALYSES.values() if name in analysis.options]
        assert len(re.findall(rf"has-{name}\b", text)) == len(takers)


def test_each_option_is_hidden_while_an_analysis_without_it_is_selected():
    style = (settings.BASE_DIR / "authzconsole/static/css/pages.css").read_text()
    for name in OPTIONS:
        is_of_all = all(name in analysis.options for analysis in ANALYSES.values())
        assert is_of_all or f":not(:has(.has-{name}:checked)) > .if-{name}" in style


def test_the_page_of_a_waiting_run_states_the_reason(browse, monkeypatch):
    run = create_waiting_run()
    monkeypatch.setattr(
        "analytics.runs.selectors.redis_problem", lambda: "Redis does not answer at redis://here"
    )
    text = browse("aud").html(f"/analyses/{run.pk}/")
    assert "Redis does not answer at redis://here. The run is kept and starts when it does." in text


def test_a_run_is_cancelled_by_an_administrator(browse):
    run = create_waiting_run()
    response = browse("ada").post(f"/analyses/{run.pk}/cancel", follow=True)
    assert "Run " in page_html(response) and "it has no report" in page_html(response)
    run.refresh_from_db()
    assert run.state == JobState.CANCELLED
    again = browse("ada").post(f"/analyses/{run.pk}/cancel", follow=True)
    assert "has already finished. Nothing changed" in page_html(again)


def test_a_failed_run_shows_its_error(browse):
    run = create_waiting_run(
        state="failed",
        error="Spark ran out of memory",
    )
    assert "Spark ran out of memory" in browse("aud").html(f"/analyses/{run.pk}/")


def test_a_running_run_shows_its_stage_and_progress(browse):
    run = create_waiting_run(
        state="running",
        stage="computing",
        steps_done=3,
        steps_total=12,
        started_at=timezone.now(),
    )
    text = browse("aud").html(f"/analyses/{run.pk}/")
    assert '<progress value="225" max="400"' in text and "3 of 12 tasks" in text
    assert re.search(r'class="present" aria-current="step"\s*>\s*Computing', text)


def test_missing_java_is_reported_where_runs_are_started(browse, monkeypatch):
    monkeypatch.setattr(
        "authzconsole.web.reports.run_pages.java_problem", lambda: "Java is missing: install it"
    )
    assert "Java is missing: install it" in browse("ada").html("/analyses/")


UNUSED_FIGURES = {
    "days_with_records_of_use": 30,
    "days_of_the_window": 30,
    "unused_privileges": 4711,
    "grants_that_nobody_used": 4712,
}


@pytest.mark.parametrize("ran_with_records", [False, True])
def test_without_records_of_use_a_report_calls_nothing_unused(ran_with_records, browse, tmp_path):
    figures = UNUSED_FIGURES if ran_with_records else dict.fromkeys(UNUSED_FIGURES, 0)
    run = create_report(
        tmp_path,
        {"rows": [("dee", "dataset:sales.orders", "READ", "user:dee", "2026-01-01T00:00:00Z", "")]},
        analysis="unused",
        revision=1,
        finished_at=timezone.now(),
        summary=figures | {"changes": {"run": 1, "revision": 1, "added": 4713, "removed": 0, "changed": 0}},
    )
    page = browse("ada").get(f"/analyses/{run.pk}/")
    text = text_of(page)
    assert "No use is recorded, so nothing is known to be unused." in text
    assert "manage.py import_usage FILE" in text and "POST /api/v1/usage" in text
    assert "/docs/guides/reviews.html#evidence-of-an-item" in page_html(page)
    assert "/plans/unused" not in page_html(page) and "dataset:sales.orders" not in text
    assert not {"figures", "chart", "trends", "table"} & page.context.keys()
    assert not re.search("47(11|12|13)", text)

    table = browse("ada").get(f"/analyses/{run.pk}/tables/rows")
    assert "No use is recorded, so nothing is known to be unused." in text_of(table)
    assert "dataset:sales.orders" not in text_of(table) and "table" not in table.context


def test_a_report_of_unused_access_says_how_much_history_the_records_cover(browse, tmp_path):
    now = timezone.now()
    first_day = now.date() - timedelta(days=30)
    add_usage([UsageRecord("ned", "dataset", "sales.orders", first_day)])
    run = create_report(
        tmp_path,
        {"rows": []},
        analysis="unused",
        revision=1,
        started_at=now,
        finished_at=now,
        summary=UNUSED_FIGURES | {"days_of_the_window": 20},
    )
    page = browse("ada").get(f"/analyses/{run.pk}/")
    assert f"Uses are recorded since {day_text(first_day)} (30 days); earlier use is unknown." in text_of(
        page
    )
    assert "without a recorded use in the last 20 days." in text_of(page)
    assert "/plans/unused" in page_html(page)

    run.summary = dict.fromkeys(UNUSED_FIGURES, 0)
    run.save()
    page = browse("ada").get(f"/analyses/{run.pk}/")
    assert "When the analysis ran, no full day of use was recorded" in text_of(page)
    assert "run it again" in text_of(page) and "/plans/unused" not in page_html(page)


@pytest.mark.parametrize(
    ("analysis", "figures", "options", "words", "step"),
    [
        (
            "unused",
            UNUSED_FIGURES | {"users_with_unused_privileges": 1},
            {},
            "1 user did not use 4,711 privileges",
            "",
        ),
        (
            "outliers",
            {"users_who_differ": 2, "unusual_privileges": 7},
            {"share": "0.25"},
            "2 users hold 7 privileges that at most 25%",
            "",
        ),
        ("outliers", {"users_who_differ": 0}, {"share": "0.2"}, "Nobody holds anything that at most 20%", ""),
        ("patterns", {"grants_on_patterns": 0}, {}, "Nobody holds a grant on a pattern.", ""),
        (
            "patterns",
            {
                "grants_on_patterns": 3,
                "grants_on_patterns_with_unused_entities": 2,
                "grants_on_patterns_that_match_nothing": 1,
            },
            {},
            "Of 3 grants on patterns, 2 give something that nobody used, and 1 matches nothing.",
            "tables/narrower",
        ),
        (
            "drift",
            {"users_with_changes": 0},
            {},
            "In the 7 days before the data, no active user",
            "/analyses/",
        ),
        (
            "drift",
            {"users_with_changes": 1, "privileges_gained": 3, "privileges_lost": 1},
            {"from_revision": "1200", "to_revision": "1300"},
            "Since revision 1,200, up to revision 1,300, 1 user gained 3 and lost 1 privilege.",
            "tables/lines",
        ),
        (
            "role-mining",
            {"roles": 3, "roles_of_several_users": 1},
            {},
            "3 roles would give exactly what the direct grants give; 1 of them has",
            "",
        ),
        ("role-mining", {"roles": 3}, {}, "no role has several users", "prefer=teams"),
        ("guardrails", {"guardrails": 0}, {}, "No guardrail is defined", "/policies/guardrails"),
        ("guardrails", {"guardrails": 2}, {}, "The grants violate none of 2 guardrails.", ""),
        (
            "guardrails",
            {"guardrails": 2, "guardrails_violated": 1, "guardrail_violations": 4},
            {},
            "1 of 2 guardrails are violated, 4 times in all.",
            "/policies/guardrails",
        ),
    ],
)
def test_a_report_says_in_a_sentence_what_it_found_before_its_rows(
    analysis, figures, options, words, step, browse, tmp_path
):
    now = timezone.now()
    add_usage([UsageRecord("ned", "dataset", "sales.orders", now.date() - timedelta(days=30))])
    run = create_report(
        tmp_path,
        {"rows": []},
        analysis=analysis,
        options=options,
        revision=1,
        started_at=now,
        finished_at=now,
        summary=figures,
    )
    page = browse("aud").get(f"/analyses/{run.pk}/")
    text = text_of(page)
    assert words in text and text.index(words) < text.index(
        "Run again" if "Run again" in text else "requested"
    )
    summary = page.context["summary"]
    assert (summary.next_step[1] if summary.next_step else "").endswith(step) or step in summary.next_step[1]
    assert not step or browse("aud").get(summary.next_step[1]).status_code == 200


def test_the_form_that_starts_a_run_has_the_options_of_the_url(browse):
    fields = "analysis=role-mining&prefer=teams&surplus=0.1"
    page = browse("ada").get(f"/analyses/?{fields}").content.decode()
    assert re.search(r'<option value="teams"[^>]* selected', page)
    assert re.search(r'name="surplus"[^>]* value="0.1"', page)


def test_a_report_on_blast_radius_names_who_could_damage_most_and_leads_to_the_reason(browse, tmp_path):
    run = create_report(
        tmp_path,
        {
            "rows": [("dee", "dataset", "WRITE", 3)],
            "people": [("dee", 4, 3, 1, 1, 3, 0, 0)],
            "namespaces": [("dee", "sales", 4, 3)],
        },
        analysis="blast-radius",
        revision=1,
        finished_at=timezone.now(),
        summary={"at": "2026-11-01T08:00:00Z", "users_with_privileges": 1},
    )
    client = browse("aud")
    page = client.get(f"/analyses/{run.pk}/")
    assert "dee could damage the most: 3 of 4 live entities" in text_of(page)
    assert "data as of" in text_of(page) and "2026-11-01T08" not in text_of(page)
    page = client.get(page.context["summary"].next_step[1].removesuffix("#rows"))
    assert "dee can change 3 of 4 live entities that the user reaches." in text_of(page)
    assert "counts the entities on which an operation is permitted instead" in text_of(page)
    assert page.context["summary"].next_step == ("Open dee", "/people/user:dee")
    # without the chart, nothing is said about everybody
    assert client.get(f"/analyses/{run.pk}/?user=%22ned%22").context["summary"] is None
    AnalysisRun.objects.filter(pk=run.pk).update(result_removed_at=timezone.now())
    page = client.get(f"/analyses/{run.pk}/")
    assert page.context["summary"] is None and "was removed" in text_of(page)
    AnalysisRun.objects.filter(pk=run.pk).update(summary={"users_with_privileges": 0})
    assert "No active user holds a privilege" in text_of(client.get(f"/analyses/{run.pk}/"))
