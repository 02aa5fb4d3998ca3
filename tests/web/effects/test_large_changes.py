"""The effect of a single change above the limits: requested from a run, shown in the form and on its page,
and checked when the change is made.

`tests.grants.effects.test_large_effects` tests the computation.
"""

import json
from datetime import timedelta
from urllib.parse import urlencode

import pytest
from django.utils import timezone

from authzconsole.web.effects.wording import button_numbers
from grants.models import Job, JobState, JournalLine
from tests.support.authors import database_state
from tests.support.changes import add_grant
from tests.support.jobs import execute_effect
from tests.support.pages import page_html, shown_effect, with_effect

pytestmark = pytest.mark.django_db

QUERY = urlencode(
    {"change": json.dumps(["delete", "namespace:sales"], separators=(",", ":")), "generation": "final"}
)
PAGE, RUN, CANCEL = f"/effect?{QUERY}", f"/effect/run?{QUERY}", f"/effect/run/cancel?{QUERY}"
FORM = "/lifecycle/delete/namespace:sales"
PART = "change-effect"


@pytest.fixture(autouse=True)
def limits(settings):
    settings.EFFECT_MAX_ENTITIES = 1


def finished_run():
    """Finish the run that was requested last."""
    return execute_effect(Job.objects.latest("pk"))


def test_the_form_requests_the_run_shows_its_progress_and_then_its_result(browse, sent_tasks, htmx):
    client = browse("ada")
    assert "Computing the effect" in client.html(FORM)
    part = client.html(FORM, headers=htmx(PART))
    # the page requests the run itself, once it knows that the effect is above the limits
    assert "because the change reaches more than 1 entities" in part and 'hx-trigger="click, load"' in part
    started = client.post(RUN, {"change": "a field of the form"}, headers=htmx("x"))
    assert started.status_code == 204 and started["HX-Trigger"] == "effect-changed"
    run = Job.objects.get()
    assert run.options == {
        "changes": '["delete","namespace:sales"]',
        "generation": "final",
        "active": "final",
    }
    assert JournalLine.objects.latest("pk").action == "run-start"
    client.post(RUN)
    assert Job.objects.count() == 1
    Job.objects.update(state=JobState.RUNNING, stage="computing", steps_done=2, steps_total=5)
    part = client.get(FORM, headers=htmx(PART))
    text = page_html(part)
    assert f"The worker computes the effect in run {run.pk}" in text and "2 of 5 tasks" in text
    assert 'hx-trigger="every 2s, ' in text and "Cancel computation" in text
    assert 'type="submit" disabled>Delete namespace' in text and not shown_effect(part)
    effect = finished_run()
    text = client.html(FORM, headers=htmx(PART))
    assert (
        f"Removes {effect.tally.total} permissions, on 6 entities." in text
        and f"Computed by run {run.pk}" in text
    )
    assert f'type="submit">Delete namespace: {effect.tally.total} permissions lost' in text
    assert "every 2s" not in text and f"All {effect.tally.total} changed permissions" in text


def test_a_page_requests_one_run_at_a_time_and_none_again_that_just_ended(browse, sent_tasks, htmx):
    client = browse("ada")
    client.post(RUN)
    other = "/lifecycle/delete/namespace:hr"
    assert 'hx-trigger="click"' in client.html(other, headers=htmx(PART))
    for state, words in (
        (JobState.CANCELLED, "The computation was cancelled"),
        (JobState.FAILED, "The computation failed: out of memory"),
    ):
        Job.objects.update(state=state, error="out of memory", finished_at=timezone.now())
        part = client.html(FORM, headers=htmx(PART))
        assert words in part and 'hx-trigger="click"' in part and "Compute the effect" in part
        assert 'hx-trigger="click, load"' in client.html(other, headers=htmx(PART))
    Job.objects.update(finished_at=timezone.now() - timedelta(hours=1))
    assert 'hx-trigger="click, load"' in client.html(FORM, headers=htmx(PART))


def test_the_form_cancels_the_run_and_then_makes_the_change_only_if_the_unknown_effect_is_accepted(
    browse, sent_tasks, htmx
):
    client, form = browse("ada"), {"confirmed_name": "sales"}
    client.post(RUN)
    Job.objects.update(state=JobState.RUNNING)
    assert client.post(CANCEL, headers=htmx("x"))["HX-Trigger"] == "effect-changed"
    assert "It is being cancelled" in client.html(FORM, headers=htmx(PART))
    Job.objects.update(state=JobState.CANCELLED, finished_at=timezone.now())
    part = client.get(FORM, headers=htmx(PART))
    assert "Make the change although its effect is not known" in page_html(part)
    shown, before = shown_effect(part), database_state()
    refused = client.post(FORM, form | shown)
    assert refused.status_code == 200 and "The effect is not known yet" in page_html(refused)
    assert database_state() == before
    assert client.post(FORM, form | shown | {"beyond": "yes"}).status_code == 303


def test_without_scripts_the_form_leads_to_the_page_that_shows_the_progress(browse, sent_tasks):
    client = browse("ada")
    started = client.post(RUN, {"form_version": "1"})
    assert started.status_code == 303 and started["Location"] == with_effect(PAGE)
    page = client.html(with_effect(PAGE))
    assert (
        "The worker computes the effect in run" in page
        and "Update the progress" in page
        and "Cancel computation" in page
    )
    cancelled = client.post(
        "/effect/run/cancel", {"change": '["delete","namespace:sales"]', "generation": "final"}, follow=True
    )
    assert "The computation was cancelled" in page_html(cancelled) and "Compute the effect" in page_html(
        cancelled
    )
    again = client.post(f"/effect/run/cancel?{QUERY}", follow=True)
    assert "The effect is not being computed" in page_html(again)


def test_the_page_lists_the_result_of_the_run(browse, sent_tasks):
    client = browse("ada")
    client.post(RUN)
    effect = finished_run()
    section = client.get(with_effect(PAGE)).context["permissions"]
    assert section["effect"].tally == effect.tally and section["page"].total == effect.tally.total
    assert (
        client.get(with_effect(f"{PAGE}&effect_user=ned")).context["permissions"]["page"].total
        < effect.tally.total
    )
    rows = client.get(section["downloads"][1][1]).getvalue().splitlines()
    assert len(rows) == effect.tally.total
    assert (
        client.get(with_effect(f"/effect?{QUERY.replace('final', 'existing')}"))
        .context["permissions"]
        .get("effect")
        is None
    )


def test_the_change_is_made_only_with_the_effect_that_was_shown(browse, sent_tasks):
    client, form = browse("ada"), {"confirmed_name": "sales"}
    unknown = shown_effect(client.get(with_effect(FORM))) | {"beyond": "yes"}
    assert unknown["effect"] == "too-large"
    client.post(RUN)
    finished_run()
    before = database_state()
    refused = client.post(FORM, form | unknown)
    assert refused.status_code == 409 and "Removes " in page_html(refused) and database_state() == before
    shown = shown_effect(refused)
    assert shown["effect"].startswith("run-")
    add_grant("user:out", "dataset:sales.orders", "READ")
    outdated = client.post(FORM, form | shown)
    assert outdated.status_code == 409 and "Data has changed since the effect was computed" in page_html(
        outdated
    )
    client.post(RUN)
    assert Job.objects.count() == 2
    finished_run()
    assert client.post(FORM, form | shown_effect(client.get(with_effect(FORM)))).status_code == 303


def test_a_dry_run_has_the_effect_that_the_run_computed(browse, sent_tasks):
    client, url = browse("ada"), "/api/v1/entities/namespace:sales"
    assert client.delete(f"{url}?dry_run=true").json()["effect"]["digest"] == "too-large"
    client.post(RUN)
    expected = finished_run()
    effect = client.delete(f"{url}?dry_run=true").json()["effect"]
    assert effect["for"] == {"gained": 0, "lost": expected.tally.lost_for} and effect["stranded_none"] == 0
    assert client.delete(f"{url}?effect_digest=run-other").status_code == 409
    assert client.delete(f"{url}?effect_digest={effect['digest']}").status_code == 200


def test_rest_requests_the_run_and_then_returns_the_effect(browse, sent_tasks):
    client, url, body = browse("ada"), "/api/v1/effects", {"changes": [["delete", "namespace:sales"]]}
    started = client.post(url, body, content_type="application/json")
    run = Job.objects.get()
    assert started.status_code == 202 and started.json() == {
        "state": "computing",
        "run": f"/api/v1/runs/{run.pk}",
    }
    assert (
        client.post(url, body, content_type="application/json").status_code == 202
        and Job.objects.count() == 1
    )
    expected = finished_run()
    effect = client.post(url, body, content_type="application/json").json()
    assert effect["for"]["lost"] == expected.tally.lost_for and effect["digest"] == expected.digest
    unknown = client.post(url, {"changes": [["delete", "nothing"]]}, content_type="application/json")
    assert unknown.status_code == 400 and "`changes`" in unknown.json()["detail"]
    assert (
        client.post(
            url, {"changes": [["leave", "grp", "operators"]]}, content_type="application/json"
        ).status_code
        == 202
    )


def test_who_may_make_the_change_may_request_the_run_and_who_sees_everything_reads_it(
    browse, sent_tasks, htmx
):
    statuses = {
        name: [
            browse(name).post(RUN).status_code,
            browse(name).post(CANCEL).status_code,
            browse(name).get(PAGE, headers=htmx("permissions")).status_code,
        ]
        for name in ("ada", "aud", "ned", "dee")
    }
    assert statuses == {
        "ada": [303, 303, 200],
        "aud": [403, 403, 200],
        "ned": [404, 404, 404],
        "dee": [404, 404, 404],
    }
    assert Job.objects.count() == 1
    part = browse("aud").html(PAGE, headers=htmx("permissions"))
    assert "The computation was cancelled" in part and "Compute the effect" not in part


def test_an_effect_below_the_limits_needs_no_run(browse, settings):
    settings.EFFECT_MAX_ENTITIES = 1_000
    assert browse("ada").post(RUN).status_code == 303 and not Job.objects.exists()


def test_another_generation_is_evaluated_alone(browse, sent_tasks):
    client = browse("ada")
    change = urlencode({"change": '["generation","existing"]'})
    page = client.post(f"/effect/run?{change}&{QUERY}", follow=True)
    assert "another active generation are evaluated without other changes" in page_html(page)
    client.post(f"/effect/run?{change}")
    effect = execute_effect(Job.objects.get())
    page = client.html(with_effect("/policies/existing/activate"))
    assert f"Computed by run {effect.job.pk}" in page and button_numbers(effect.tally) in page


@pytest.mark.parametrize(("url", "part", "max_queries"), [(FORM, PART, 35), (PAGE, "permissions", 33)])
def test_the_number_of_queries_is_limited(
    browse, sent_tasks, django_assert_max_num_queries, htmx, url, part, max_queries
):
    client = browse("ada")
    client.post(RUN)
    finished_run()
    for headers in ({}, htmx(part)):
        client.get(url, headers=headers)
        with django_assert_max_num_queries(max_queries):
            client.get(url, headers=headers)
