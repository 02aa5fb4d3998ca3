"""The pages from which a job applies many changes: a plan, and a grant on a pattern that matches many addresses."""

import pytest

from grants.jobs import run_job
from grants.models import Job, JobState, JournalLine, Plan, PlanState
from grants.plans.application import APPLICATION_JOB
from tests.support.authors import all_grants, database_state, is_permitted
from tests.support.changes import add_grant, create_plan_from_changes, revoke_grant
from tests.support.guardrails import add_guardrail
from tests.support.pages import (
    page_html,
    post_as_shown,
    shown_effect,
    shown_effect_of_plan,
    text_of,
    with_effect,
)

PATTERN = "dataset:sales.*"
GRANT = "/grant/dataset:sales.%2A"
REVOKE = "/revoke/dataset:sales.%2A"
FORM = {"principal": "user:out", "privilege": "READ", "reason": "quarterly close"}
QUERY = "?principal=user:out&privilege=READ"


@pytest.fixture(autouse=True)
def limit(settings, sent_tasks):
    settings.APPLY_MAX_CHANGES = 1


@pytest.fixture
def plan(cast):
    return create_plan_from_changes(
        grant=[("user:out", f"dataset:sales.{name}", "READ") for name in ("orders", "customers")]
    )


def requested_job() -> Job:
    return Job.objects.get(type=APPLICATION_JOB)


def start(client, plan) -> Job:
    form = shown_effect_of_plan(client, plan) | {"reason": "quarterly close", "beyond": "yes"}
    assert client.post(f"/plans/{plan.pk}/apply", form).status_code == 303
    return requested_job()


def test_the_form_of_a_large_plan_says_that_a_job_makes_and_checks_its_changes(browse, plan, settings):
    url = f"/plans/{plan.pk}/"
    add_guardrail("no-readers", {"forbid": {"privileges": ["READ"], "within": "namespace:sales"}})
    text = text_of(browse("ada").get(with_effect(url)))
    assert "A job makes these 2 changes in the background, checks the guardrails" in text
    # making them for the page would lock the journal
    assert "no-readers" not in text
    settings.APPLY_MAX_CHANGES = 2
    text = text_of(browse("ada").get(with_effect(url)))
    assert "A job makes" not in text and "no-readers" in text


def test_the_page_shows_the_job_until_the_plan_is_applied(browse, plan, htmx):
    ada, url = browse("ada"), f"/plans/{plan.pk}/"
    job = start(ada, plan)
    Job.objects.filter(pk=job.pk).update(state=JobState.RUNNING, steps_done=1, steps_total=2)
    text = page_html(ada.get(url))
    assert "A job applies this plan" in text and "1 of 2 changes" in text and "every 2s" in text
    assert f'action="{url}apply"' not in text and f"{url}apply/cancel" in text
    part = ada.get(url, headers=htmx("application"))
    assert "1 of 2 changes" in page_html(part) and "HX-Refresh" not in part
    # the part with the effect does not bring the form back
    assert "apply-effect" not in page_html(ada.get(url, headers=htmx("permissions")))
    Job.objects.filter(pk=job.pk).update(state=JobState.WAITING)
    run_job(job.pk)
    part = ada.get(url, headers=htmx("application"))
    assert part.headers["HX-Refresh"] == "true"
    plan.refresh_from_db()
    assert (plan.state, plan.decided_by, plan.reason) == (PlanState.APPLIED, "ada", "quarterly close")
    assert "Outcome" in text_of(ada.get(url))


def test_auditors_see_the_job_and_cannot_end_it(browse, plan):
    job = start(browse("ada"), plan)
    aud, url = browse("aud"), f"/plans/{plan.pk}/"
    text = page_html(aud.get(url))
    assert "A job applies this plan" in text and f"{url}apply/cancel" not in text
    assert aud.post(f"{url}apply/cancel").status_code == 403
    for name in ("ned", "out"):
        assert browse(name).post(f"{url}apply/cancel").status_code in (403, 404)
        assert browse(name).get(url).status_code in (403, 404)
    job.refresh_from_db()
    assert job.state == JobState.WAITING and job.cancel_requested_at is None


def test_a_cancelled_job_leaves_the_plan_as_it_was(browse, plan):
    ada, url, before = browse("ada"), f"/plans/{plan.pk}/", all_grants()
    start(ada, plan)
    assert "is being cancelled" in text_of(ada.post(f"{url}apply/cancel", follow=True))
    text = page_html(ada.get(url))
    assert "was cancelled" in text and f'action="{url}apply"' in text
    assert all_grants() == before
    assert "has ended already" in text_of(ada.post(f"{url}apply/cancel", follow=True))


def test_a_failed_job_says_why_beside_the_plan(browse, plan):
    ada, url = browse("ada"), f"/plans/{plan.pk}/"
    job = start(ada, plan)
    revoke_grant("user:ned", "dataset:sales.orders", "ADMIN")
    run_job(job.pk)
    text = text_of(ada.get(url))
    assert "Nothing was changed: " in text and "This plan is stale" in text


def test_a_large_plan_without_a_reason_or_confirmation_starts_no_job(browse, plan):
    ada = browse("ada")
    for form in ({"reason": ""}, {"reason": "x", "effect": "another"}):
        answer = ada.post(f"/plans/{plan.pk}/apply", shown_effect_of_plan(ada, plan) | form)
        assert answer.status_code in (400, 409)
    assert not Job.objects.exists()


def test_a_grant_on_a_pattern_with_many_addresses_becomes_a_plan_that_a_job_applies(browse, htmx):
    ada = browse("ada")
    part = text_of(ada.get(GRANT + QUERY, headers=htmx("change-form-standalone-effect")))
    assert "A job makes these 5 changes in the background" in part
    answer = post_as_shown(ada, GRANT, FORM)
    plan = Plan.objects.get()
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/plans/{plan.pk}/")
    page = text_of(ada.get(with_effect(f"/plans/{plan.pk}/")))
    assert f"Grant READ on {PATTERN} for user:out" in page and "planned" not in page
    assert not is_permitted("out", "read", "dataset:sales.orders")
    run_job(requested_job().pk)
    assert requested_job().error == ""
    assert is_permitted("out", "read", "dataset:sales.orders")
    line = JournalLine.objects.get(action="grant", entity=PATTERN)
    assert (line.actor, line.reason) == ("ada", "quarterly close")


def test_a_dialog_leads_to_the_page_of_the_plan(browse):
    ada = browse("ada")
    answer = post_as_shown(ada, GRANT, FORM, headers={"HX-Request": "true"})
    assert answer.headers["HX-Redirect"] == f"/plans/{Plan.objects.get().pk}/"


def test_a_revocation_of_a_pattern_with_many_addresses_is_made_by_a_job(browse):
    add_grant("user:out", PATTERN, "READ")
    post_as_shown(browse("ada"), REVOKE, FORM)
    assert is_permitted("out", "read", "dataset:sales.orders")
    run_job(requested_job().pk)
    assert not is_permitted("out", "read", "dataset:sales.orders")
    assert ("user:out", PATTERN, "READ") not in all_grants()


def test_a_large_grant_with_an_effect_that_was_not_shown_leaves_no_plan(browse, settings):
    add_grant("user:dee", "dataset:hr.salaries", "READ")
    ada, before = browse("ada"), database_state()
    form = FORM | {"principal": "group:operators"}
    for answer, status in (
        (ada.post(GRANT, form | {"effect": "another", "effect_of": ""}), 409),
        (post_as_shown(ada, GRANT, form | {"reason": ""}), 400),
    ):
        assert answer.status_code == status
    settings.FOUR_EYES, settings.FOUR_EYES_MAX_ITEMS = True, 3
    answer = post_as_shown(ada, GRANT, form)
    assert answer.status_code == 400 and "create a plan" in page_html(answer)
    assert database_state() == before and not Job.objects.exists()


def test_the_effect_of_a_large_grant_is_compared_again_by_the_job(browse):
    ada = browse("ada")
    fields = shown_effect(ada.get(with_effect(f"{GRANT}?principal=group:operators&privilege=READ")))
    ada.post(GRANT, FORM | fields | {"principal": "group:operators"})
    add_grant("group:operators", "dataset:sales.orders", "READ")
    run_job(requested_job().pk)
    assert "has changed since it was shown" in requested_job().error
    assert ("group:operators", PATTERN, "READ") not in all_grants()
