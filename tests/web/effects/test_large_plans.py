"""The effect of a plan above the limits: requested from a run, shown on its page and over REST, and checked
when it is applied.

`tests.grants.effects.test_large_effects` tests the computation.
"""

import json

import pytest

from authzconsole.web.effects.wording import effect_sentence
from entities.address import parse_address
from grants.effects.large import large_effect, stored_effect
from grants.models import Job, JobState, JournalLine, Plan
from grants.plans.permission_effect import newest_plan_job, plan_effect
from grants.policies.times import parse_time
from grants.validity import Validity, at_time
from tests.support.authors import database_state
from tests.support.changes import add_grant, create_plan_from_changes
from tests.support.jobs import execute_effect
from tests.support.pages import page_html, shown_effect, with_effect

pytestmark = pytest.mark.django_db

ORDERS, LATER = parse_address("dataset:sales.orders"), "2126-01-01T00:00:00Z"


@pytest.fixture
def large_plan(cast, settings):
    """A plan above the limits."""
    plan = create_plan_from_changes(grant=[("user:out", ORDERS, "READ")])
    settings.EFFECT_MAX_GRANTS = -1
    return plan


def test_the_page_requests_the_run_shows_its_progress_and_then_its_result(
    large_plan, browse, sent_tasks, htmx
):
    client, url = browse("ada"), f"/plans/{large_plan.pk}/"
    page = client.html(with_effect(url))
    assert "because the change reaches more than -1 grants" in page and "Compute the effect" in page
    assert "Compute the effect" not in browse("aud").html(with_effect(url))
    assert [browse(name).post(f"{url}effect").status_code for name in ("aud", "ned")] == [403, 404]
    client.post(f"{url}effect", {"generation": "final"})
    client.post(f"{url}effect", {"generation": "final"})
    run = newest_plan_job(large_plan, "final")
    assert Job.objects.count() == 1 and JournalLine.objects.latest("pk").action == "run-start"
    Job.objects.update(state=JobState.RUNNING, stage="computing", steps_done=2, steps_total=5)
    section = client.html(f"{url}?generation=final", headers=htmx("permissions"))
    assert (
        "2 of 5 tasks" in section
        and 'hx-trigger="every 2s, ' in section
        and "Compute the effect" not in section
    )
    assert f"/analyses/{run.pk}/" not in client.html("/analyses/")
    assert 'type="submit" disabled>Apply plan' in section and 'hx-swap-oob="true"' in section
    execute_effect(run)
    page = client.get(with_effect(url))
    text = page_html(page)
    assert (
        f"Computed by run {run.pk}" in text
        and "1 permission" not in page.context["to_confirm"]["confirmation"]
    )
    assert page.context["to_confirm"]["digest"].startswith("run-") and "Accept 4 permissions" in text
    assert [row.operation for row in page.context["permissions"]["page"].rows] == [
        row.operation for row in large_effect(newest_plan_job(large_plan, "final")).rows()
    ]
    assert page.context["permissions"]["page"].total > 4
    section = client.get(with_effect(f"{url}?effect_purpose=beyond")).context["permissions"]
    # the report has only the totals of all changes, and the page says so
    assert (
        section["sentence"]
        == f"Without the filters, as in the tables below: {effect_sentence(section['effect']).lower()}"
    )
    filtered = section["page"]
    assert filtered.total == 4 and not any(row.intended for row in filtered.rows)


def test_the_page_appears_without_its_effect_and_cannot_be_confirmed_before_it_is_there(cast, browse, htmx):
    plan = create_plan_from_changes(grant=[("user:ned", ORDERS, "READ")])
    client, url = browse("ada"), f"/plans/{plan.pk}/"
    page = client.get(url)
    text = page_html(page)
    assert "Computing the effect" in text and not shown_effect(page)
    assert 'type="submit" disabled>Apply plan' in text and 'hx-trigger="load"' in text
    section = client.get(url, headers=htmx("permissions"))
    text = page_html(section)
    assert 'id="apply-effect" class="form effect-part" hx-swap-oob="true"' in text
    assert 'type="submit">Apply plan' in text and shown_effect(section)["effect"]
    before = database_state()
    refused = client.post(f"{url}apply", {"reason": "because", "beyond": "yes"})
    assert refused.status_code == 409 and database_state() == before
    add_grant("user:ned", "dataset:sales.customers", "READ")
    form = {"reason": "because", "beyond": "yes", "effect": shown_effect(section)["effect"]}
    assert client.post(f"{url}apply", form).status_code in (303, 409)
    for account, status in (("aud", 200), ("ned", 404), ("dee", 404)):
        assert browse(account).get(url, headers=htmx("permissions")).status_code == status
    assert "Apply plan" not in browse("aud").html(url)


def test_the_page_cancels_the_run(large_plan, browse, sent_tasks):
    client, url = browse("ada"), f"/plans/{large_plan.pk}/"
    assert "not being computed" in page_html(client.post(f"{url}effect/cancel", follow=True))
    client.post(f"{url}effect", {"generation": "final"})
    Job.objects.update(state=JobState.RUNNING)
    assert "Cancel computation" in client.html(with_effect(url))
    assert "Cancel computation" not in browse("aud").html(with_effect(url))
    assert [browse(name).post(f"{url}effect/cancel").status_code for name in ("aud", "ned")] == [403, 404]
    assert newest_plan_job(large_plan, "final").cancel_requested_at is None
    assert "Cancelling" in page_html(client.post(f"{url}effect/cancel", {"generation": "final"}, follow=True))
    assert JournalLine.objects.latest("pk").action == "run-cancel"
    Job.objects.update(state=JobState.CANCELLED)
    page = client.html(with_effect(url))
    assert "The computation was cancelled" in page and "Compute the effect" in page


def test_the_plan_is_applied_only_with_the_effect_that_was_shown(large_plan, browse, sent_tasks):
    client, url = browse("ada"), f"/plans/{large_plan.pk}/"
    client.post(f"{url}effect")
    execute_effect(newest_plan_job(large_plan, "final"))
    digest = client.get(with_effect(url)).context["to_confirm"]["digest"]
    form = {"reason": "because", "effect": digest}
    assert "permissions as side effects" in page_html(client.post(f"{url}apply", form))
    assert client.post(f"{url}apply", form | {"effect": "run-other", "beyond": "yes"}).status_code == 409
    add_grant("user:out", "dataset:hr.salaries", "READ")
    page = client.post(f"{url}apply", form | {"beyond": "yes"})
    assert page.status_code in (400, 409) and Plan.objects.get(pk=large_plan.pk).is_proposed
    assert "Data has changed since the effect was computed" in client.html(with_effect(url))
    client.post(f"{url}effect")
    assert Job.objects.count() == 2
    execute_effect(newest_plan_job(large_plan, "final"))
    fresh = client.get(with_effect(url)).context
    if fresh["stale"]:
        return
    client.post(
        f"{url}apply", {"reason": "because", "effect": fresh["to_confirm"]["digest"], "beyond": "yes"}
    )
    plan = Plan.objects.get(pk=large_plan.pk)
    assert plan.state == "applied" and plan.effect["permissions"]["beyond"]["gained"] == 4


def test_the_page_rest_and_downloads_have_the_effect_at_each_time(cast, settings, browse, sent_tasks):
    plan = create_plan_from_changes(
        grant=[
            ("user:out", ORDERS, "READ"),
            ("user:out", "dataset:hr.salaries", "READ", Validity.parse(LATER)),
        ]
    )
    expected = plan_effect(plan, "final")
    settings.EFFECT_MAX_GRANTS = -1
    client, url = browse("ada"), f"/api/v1/plans/{plan.pk}/effect"
    client.generic("POST", url)
    execute_effect(newest_plan_job(plan, "final"))
    effect = client.get(url).json()
    assert [one["for"] for one in effect["times"]] == [one.summary["for"] for one in expected.times]
    assert effect["times"][1]["at"] == LATER and effect["for"] == expected.summary["for"]
    later = client.get(url, {"at": LATER}).json()
    assert (later["for"], later["times"]) == (effect["times"][1]["for"], []) and later["digest"] != effect[
        "digest"
    ]
    assert "the run evaluated it at" in client.get(url, {"at": "2127-01-01T00:00:00Z"}).json()["detail"]
    section = client.get(f"/plans/{plan.pk}/?effect_at={LATER}&preview=yes").context["permissions"]
    assert [time["is_shown"] for time in section["times"]] == [False, True]
    assert section["page"].total == expected.times[1].tally.total
    rows = client.get(section["downloads"][1][1]).getvalue().decode().splitlines()
    assert len(rows) == expected.times[1].tally.total > expected.tally.total
    assert (
        client.get(f"/plans/{plan.pk}/?preview=yes").context["permissions"]["effect"].tally == expected.tally
    )


def test_the_effect_is_outdated_when_a_period_begins_or_ends(large_plan, browse, sent_tasks):
    client, url = browse("ada"), f"/plans/{large_plan.pk}/"
    client.post(f"{url}effect")
    run = newest_plan_job(large_plan, "final")
    execute_effect(run)
    run.refresh_from_db()
    run.summary["valid_until"] = LATER
    assert stored_effect(run) == large_effect(run)
    with at_time(parse_time(LATER)):
        assert stored_effect(run) is None
    run.summary["valid_until"] = "2026-01-01T00:00:00Z"
    run.save()
    assert "Data has changed since the effect was computed" in client.html(with_effect(url))


def test_rest_answers_202_until_the_effect_is_computed(large_plan, browse, sent_tasks):
    client, url = browse("ada"), f"/api/v1/plans/{large_plan.pk}/effect"
    refusal = client.get(url)
    assert refusal.status_code == 409 and "or compute it with POST" in refusal.json()["detail"]
    assert browse("aud").generic("POST", url).status_code == 403 and browse("ned").get(url).status_code == 403
    started = client.generic("POST", url)
    run = newest_plan_job(large_plan, "final")
    location = f"/api/v1/runs/{run.pk}"
    assert started.status_code == 202 and started["Location"] == location
    assert started.json() == client.get(url).json() == {"state": "computing", "run": location}
    assert client.get(url).status_code == 202 and client.get(location).json()["state"] == "waiting"
    execute_effect(run)
    effect = client.get(url).json()
    assert effect["beyond"] == {"gained": 4, "lost": 0} and [user["user"] for user in effect["users"]] == [
        "out"
    ]
    rows = client.get(f"{url}/rows.jsonl").getvalue().decode().splitlines()
    keys = [(row["user"], row["entity"], row["operation"]) for row in map(json.loads, rows)]
    assert keys == sorted(keys) and len(keys) == effect["for"]["gained"] + 4
    beyond = client.get(f"{url}/rows.csv?purpose=beyond").getvalue().decode().splitlines()
    assert len(beyond) == 1 + 4
