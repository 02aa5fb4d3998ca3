"""The effect of a single change above the limits: requested from a run, shown in the form and on its page,
and checked when the change is made.

`tests.grants.effects.test_large_effects` tests the computation.
"""

import json
from urllib.parse import urlencode

import pytest

from authzconsole.web.effects.wording import button_numbers
from grants.models import Job, JobState, JournalLine
from tests.support.authors import database_state
from tests.support.changes import add_grant
from tests.support.jobs import execute_effect
from tests.support.pages import page_html, shown_effect

pytestmark = pytest.mark.django_db

QUERY = urlencode(
    {"change": json.dumps(["delete", "namespace:sales"], separators=(",", ":")), "generation": "final"}
)
PAGE, FORM_PART, RUN = f"/effect?{QUERY}", f"/effect/form?{QUERY}", f"/effect/run?{QUERY}"
FORM = "/lifecycle/delete/namespace:sales"


@pytest.fixture(autouse=True)
def limits(settings):
    settings.EFFECT_MAX_ENTITIES = 1


def finished_run():
    """Finish the run that was requested last."""
    return execute_effect(Job.objects.latest("pk"))


def test_the_form_requests_the_run_shows_its_progress_and_then_its_result(browse, sent_tasks, htmx):
    client = browse("ada")
    page = client.html(FORM)
    assert (
        "The effect is not known: the change reaches more than 1 entities." in page
        and "Compute the effect" in page
    )
    started = client.post(f"{RUN}&forecast=1", {"change": "a field of the form"}, headers=htmx("x"))
    part = page_html(started)
    run = Job.objects.get()
    assert (
        f"The worker computes the effect in run {run.pk}" in part
        and 'hx-trigger="every 2s"' in part
        and "<html" not in part
    )
    assert run.options == {
        "changes": '["delete","namespace:sales"]',
        "generation": "final",
        "active": "final",
    }
    assert JournalLine.objects.latest("pk").action == "run-start"
    client.post(RUN)
    assert Job.objects.count() == 1
    Job.objects.update(state=JobState.RUNNING, stage="computing", steps_done=2, steps_total=5)
    assert "2 of 5 tasks" in client.html(FORM_PART) and 'hx-trigger="every 2s"' in client.html(FORM)
    effect = finished_run()
    part, page = client.html(FORM_PART), client.html(FORM)
    sentence = f"Takes {effect.tally.total} permissions."
    assert (
        sentence in part
        and sentence in page
        and 'hx-trigger="every 2s"' not in part
        and f"Computed by run {run.pk}" in page
    )
    assert (
        f'Delete namespace<span class="effect-numbers">: {effect.tally.total} permissions lost</span>' in page
    )
    assert (
        f'<span hx-swap-oob="innerHTML:.effect-numbers">: {effect.tally.total} permissions lost</span>'
        in part
    )
    assert f"All {effect.tally.total} changed permissions" in page


def test_without_scripts_the_form_leads_to_the_page_that_shows_the_progress(browse, sent_tasks):
    client = browse("ada")
    started = client.post(RUN, {"form_version": "1"})
    assert started.status_code == 303 and started["Location"] == PAGE
    page = client.html(PAGE)
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
    section = client.get(PAGE).context["permissions"]
    assert section["effect"].tally == effect.tally and section["page"].total == effect.tally.total
    assert client.get(f"{PAGE}&effect_user=ned").context["permissions"]["page"].total < effect.tally.total
    rows = client.get(section["downloads"][1][1]).getvalue().splitlines()
    assert len(rows) == effect.tally.total
    assert (
        client.get(f"/effect?{QUERY.replace('final', 'existing')}").context["permissions"].get("effect")
        is None
    )


def test_the_change_is_made_only_with_the_effect_that_was_shown(browse, sent_tasks):
    client, form = browse("ada"), {"confirmed_name": "sales"}
    unknown = shown_effect(client.get(FORM))
    assert unknown["effect"] == "too-large"
    client.post(RUN)
    finished_run()
    before = database_state()
    refused = client.post(FORM, form | unknown)
    assert refused.status_code == 409 and "Takes " in page_html(refused) and database_state() == before
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
    assert client.post(FORM, form | shown_effect(client.get(FORM))).status_code == 303


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
    browse, sent_tasks, cast
):
    statuses = {
        name: [
            browse(name).post(RUN).status_code,
            browse(name).post(f"/effect/run/cancel?{QUERY}").status_code,
            browse(name).get(FORM_PART).status_code,
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
    part = browse("aud").html(FORM_PART)
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
    page = client.html("/policies/existing/activate")
    assert f"Computed by run {effect.job.pk}" in page and button_numbers(effect.tally) in page


@pytest.mark.parametrize(("url", "max_queries"), [(FORM, 31), (PAGE, 32), (FORM_PART, 32)])
def test_the_number_of_queries_is_limited(
    browse, sent_tasks, django_assert_max_num_queries, url, max_queries
):
    client = browse("ada")
    client.post(RUN)
    finished_run()
    client.get(url)
    with django_assert_max_num_queries(max_queries):
        client.get(url)
