"""The pages of policies, and activating a generation."""

from datetime import timedelta

import pytest
from django.contrib.messages import get_messages
from django.utils import timezone

from authzconsole.web.shared.times import exact_time, parse_time
from entities.vocabulary import KINDS
from grants.active_generation import active_generation
from grants.jobs import run_job
from grants.journal import current_revision
from grants.models import ActiveGeneration, Job, JournalLine, Plan
from grants.policies.catalogue import GENERATIONS
from tests.support.authors import database_state
from tests.support.changes import add_grant
from tests.support.pages import page_html, post_as_shown, with_effect
from tests.support.reports import create_report


def rows_of(response) -> dict[tuple[str, str], dict]:
    """Return the rows of the page by (kind, operation)."""
    return {
        (table["kind"].name, row["operation"]): row
        for table in response.context["tables"]
        for row in table["rows"]
    }


def test_the_page_shows_what_each_platform_permission_requires_and_each_privilege_gives(browse):
    text = page_html(browse("dee").get("/policies/?generation=cdap65&kind=dataset"))
    assert "Permissions of the platform in cdap65" in text
    for permission in ("STANDARD:GET", "STANDARD:UPDATE", "STANDARD:LIST"):
        assert permission in text
    # those of other kinds are filtered out
    assert "INSTANCE:TETHER" not in text and "any privilege on its parent" in text
    assert "Permissions of the platform" in page_html(browse("dee").get("/policies/?with=cdap65"))
    assert "Permissions of the platform" not in page_html(browse("dee").get("/policies/?generation=final"))


@pytest.mark.parametrize("name", GENERATIONS)
def test_every_operation_is_listed_with_requirement_and_source(name, browse):
    response = browse("dee").get(f"/policies/?generation={name}")
    rows, text = rows_of(response), page_html(response)
    assert list(rows) == [(kind.name, operation) for kind in KINDS.values() for operation in kind.operations]
    for (kind, operation), row in rows.items():
        policy = GENERATIONS[name].policy(kind, operation)
        (cell,) = row["cells"]
        assert (cell["policy"], bool(cell["requirement"]), row["differs"]) == (policy, policy.has_rule, False)
    assert ("no rule: denied" in text) == any(not row["cells"][0]["requirement"] for row in rows.values())


def test_every_row_has_a_unique_id(browse):
    ids = [row["id"] for row in rows_of(browse("dee").get("/policies/?generation=final&with=core")).values()]
    assert "namespace-delete" in ids and len(set(ids)) == len(ids)
    assert '<tr id="namespace-delete"' in page_html(browse("dee").get("/policies/"))


def test_two_generations_are_compared_with_differences_marked(browse):
    client = browse("dee")
    for first in GENERATIONS.values():
        for second in GENERATIONS.values():
            rows = rows_of(client.get(f"/policies/?generation={first.name}&with={second.name}&kind=dataset"))
            marked = {operation for (_, operation), row in rows.items() if row["differs"]}
            assert marked == {
                operation
                for operation in KINDS["dataset"].operations
                if first.policy("dataset", operation).requirement
                != second.policy("dataset", operation).requirement
            }


def test_the_page_can_show_differences_only(browse):
    page = browse("dee").get("/policies/?generation=final&with=core&only=differences")
    rows = rows_of(page)
    assert all(row["differs"] for row in rows.values()) and len(rows) == page.context["differences"]


@pytest.mark.parametrize(
    "query", ["generation=none", "with=final", "with=%00", "kind=nothing", "only=differences"]
)
def test_unknown_parameters_fall_back_to_the_active_generation(query, browse):
    response = browse("dee").get(f"/policies/?{query}")
    assert response.status_code == 200
    assert (
        response.context["generation"] == active_generation() and response.context["other_generation"] is None
    )


def test_only_administrators_see_the_link_that_activates_a_generation(browse):
    has_link = {
        name: "Activate core" in page_html(browse(name).get("/policies/?generation=core"))
        for name in ("ada", "aud", "dee")
    }
    assert has_link == {"ada": True, "aud": False, "dee": False}
    assert browse("ada").get("/policies/none/activate").status_code == 404


def test_the_activation_page_shows_the_newest_impact_report(browse, settings, tmp_path):
    settings.SNAPSHOT_URI, client = str(tmp_path), browse("ada")
    assert "Impact not analyzed yet" in page_html(client.get("/policies/core/activate"))
    options = {"generation": "final", "to_generation": "core"}
    create_report(
        tmp_path,
        {},
        analysis="policy-impact",
        options={"generation": "core", "to_generation": "final"},
        revision=1,
        summary={"answers_lost": 77},
        finished_at=timezone.now(),
    )
    assert client.get("/policies/core/activate").context["run"] is None
    run = create_report(
        tmp_path,
        {},
        analysis="policy-impact",
        options=options,
        revision=1,
        finished_at=timezone.now(),
        summary={"users_affected": 3, "answers_gained": 4, "answers_lost": 5_000},
    )
    # of a report and an effect with different data, only the effect is shown
    page = client.get("/policies/core/activate")
    text = page_html(page)
    assert page.context["run"] == run and "5,000" not in text and "changes since" in text
    assert "its numbers do not contain these changes. The effect above" in text
    plan = Plan.objects.create(
        title="keep",
        origin="policy-impact",
        recipe={"run": run.pk},
        base_revision=1,
        made_by="ada",
        state="applied",
    )
    assert f'among them <a href="/plans/{plan.pk}/">plan {plan.pk}</a>' in page_html(
        client.get("/policies/core/activate")
    )
    # while the effect is not known, the report is all there is
    settings.EFFECT_MAX_ENTITIES = 1
    assert "5,000" in page_html(client.get(with_effect("/policies/core/activate")))


def test_a_current_report_and_the_effect_are_told_apart(browse, settings, tmp_path):
    settings.SNAPSHOT_URI = str(tmp_path)
    create_report(
        tmp_path,
        {},
        analysis="policy-impact",
        options={"generation": "final", "to_generation": "core"},
        revision=current_revision(),
        finished_at=timezone.now(),
        summary={"users_affected": 3, "answers_gained": 4, "answers_lost": 5_000},
    )
    text = page_html(browse("ada").get("/policies/core/activate"))
    assert "5,000" in text and "Computed now, from the current data:" in text


def test_activating_a_generation_is_journalled_with_its_reason(browse):
    client = browse("ada")
    form = {"from": "final", "reason": "trial in spring"}
    response = client.post("/policies/proposed/activate", form, follow=True)
    assert response.redirect_chain == [("/policies/", 303)] and active_generation().name == "proposed"
    line = JournalLine.objects.latest("revision")
    assert (line.action, line.actor, line.reason) == ("generation-activate", "ada", "trial in spring")
    assert "<code>proposed</code> is the active generation now" in page_html(response)


def test_an_outdated_form_changes_nothing_and_keeps_its_reason(browse):
    client = browse("ada")
    ActiveGeneration.objects.create(pk=1, name="existing")
    before = database_state()
    response = client.post("/policies/core/activate", {"from": "final", "reason": "trial"})
    assert response.status_code == 409 and "another generation was activated in the meantime" in page_html(
        response
    )
    assert (
        'value="trial"' in page_html(response)
        and active_generation().name == "existing"
        and database_state() == before
    )


def test_the_pages_take_a_constant_number_of_queries(browse, django_assert_max_num_queries):
    client = browse("ada")
    for url, max_queries in (("/policies/?generation=final&with=core", 4), ("/policies/core/activate", 24)):
        client.get(url)
        with django_assert_max_num_queries(max_queries):
            client.get(url)


def test_an_activation_is_scheduled_shown_and_cancelled(browse):
    ada = browse("ada")
    form = {"from": "final", "reason": "new rules", "at": "2126-01-02T10:00"}
    refused = post_as_shown(ada, "/policies/core/activate", form)
    assert refused.status_code == 400 and "choose a time in the next 366 days" in page_html(refused).lower()
    at = (timezone.now() + timedelta(days=3)).strftime("%Y-%m-%dT%H:%M")
    scheduled = post_as_shown(ada, "/policies/core/activate", form | {"at": at})
    assert scheduled.status_code == 303
    (notice,) = get_messages(scheduled.wsgi_request)
    assert f"at {exact_time(parse_time(at, is_end=True))}" in str(notice)
    assert active_generation().name == "final"
    for name, url in (("ada", "/"), ("ada", "/policies/"), ("out", "/policies/")):
        page = page_html(browse(name).get(url))
        assert "becomes active at" in page and ("Cancel activation" in page) == (name == "ada" and url != "/")
    for name, status in (("out", 404), ("aud", 403)):
        assert browse(name).post("/policies/scheduled/cancel").status_code == status
    assert "becomes active at" in page_html(ada.get("/policies/"))
    assert ada.post("/policies/scheduled/cancel").status_code == 303
    assert "becomes active at" not in page_html(ada.get("/policies/"))


def test_a_plan_that_keeps_permissions_says_how_many_it_does_not_keep(browse):
    ada, url = browse("ada"), "/policies/core/activate"
    ada.post(url, {"keep": "yes"})
    plan = Plan.objects.get()
    for count, sentence in ((0, "keeps current permissions."), (4, "4 permissions</a>.")):
        Plan.objects.update(recipe=plan.recipe | {"kept_not": count})
        page = page_html(ada.get(url))
        assert sentence in page and ("#kept_not" in page) == (count > 0)


def test_a_plan_that_keeps_permissions_is_created_chosen_and_applied_with_the_activation(browse):
    ada, url = browse("ada"), "/policies/core/activate"
    created = ada.post(url, {"keep": "yes"})
    plan = Plan.objects.get()
    assert created.status_code == 303 and created["Location"] == f"{url}?plan={plan.pk}"
    typed = {"at": "2030-01-02T03:04", "reason": "new rules, as agreed"}
    assert 'name="keep" value="yes" formnovalidate' in page_html(ada.get("/policies/existing/activate"))
    again = ada.get(
        ada.post("/policies/existing/activate", {"keep": "yes", "from": "final", **typed})["Location"]
    )
    assert {name: again.context["form"][name].value() for name in typed} == typed
    page = ada.get(created["Location"])
    assert page.context["form"]["plan"].value() == str(plan.pk) and page.context["keeping_plan"] == plan
    shown = ada.get(with_effect(created["Location"])).context["effect"]
    assert shown["digest"] != ada.get(with_effect(url)).context["effect"]["digest"]
    form = {"from": "final", "plan": plan.pk}
    assert "reason is missing" in page_html(post_as_shown(ada, url, form))
    assert active_generation().name == "final"
    assert "Activate core with this plan" in page_html(ada.get(f"/plans/{plan.pk}/"))
    at = (timezone.now() + timedelta(days=3)).strftime("%Y-%m-%dT%H:%M")
    post_as_shown(ada, url, form | {"reason": "new rules", "at": at})
    assert f'<a href="/plans/{plan.pk}/">plan {plan.pk}</a>' in page_html(ada.get("/policies/"))
    page = page_html(ada.get(f"/plans/{plan.pk}/"))
    assert "It is applied when generation" in page and "Applied with the activation of" in page
    assert (
        'action="/plans/1/apply"' not in page.replace(f"/plans/{plan.pk}/", "/plans/1/")
        and "Discard" not in page
    )
    assert "Cancel activation" in page_html(ada.get(url))
    ada.post("/policies/scheduled/cancel")
    made = post_as_shown(ada, url, form | {"reason": "new rules"})
    assert made.status_code == 303 and made["Location"] == f"/plans/{plan.pk}/"
    plan.refresh_from_db()
    assert active_generation().name == "core" and plan.state == "applied"
    # the form of a plan that was applied in the meantime changes nothing
    assert (
        post_as_shown(ada, "/policies/existing/activate", form | {"from": "core", "reason": "x"}).status_code
        == 400
    )


def test_the_sentences_of_many_people_are_collapsed_below_those_who_lose_most(browse):
    effect = browse("ada").get(with_effect("/policies/core/activate")).context["effect"]
    lost = [person["tally"].lost for person in effect["people"]]
    assert effect["is_collapsed"] and lost == sorted(lost, reverse=True) and lost[0] > 0


def test_the_button_says_when_the_generation_becomes_active(browse):
    ada, url = browse("ada"), "/policies/core/activate"
    at = (timezone.now() + timedelta(days=3)).strftime("%Y-%m-%dT%H:%M")
    htmx = {"HX-Request": "true", "HX-Target": "change-effect"}
    now, later = (page_html(ada.get(url, {"from": "final", "at": time}, headers=htmx)) for time in ("", at))
    assert "Activate core" in now and "at the time above" not in now
    assert (
        f"Schedule core for {exact_time(parse_time(at, is_end=True))}" in later
        and "Activate core" not in later
    )
    # a whole page must be right for browsers without scripts too
    assert "Activate core, now or at the time above" in page_html(ada.get(url))


def test_only_readers_of_all_see_why_an_activation_was_refused(browse):
    ada = browse("ada")
    at = (timezone.now() + timedelta(days=3)).strftime("%Y-%m-%dT%H:%M")
    post_as_shown(ada, "/policies/core/activate", {"from": "final", "reason": "x", "at": at})
    add_grant("user:out", "dataset:hr.salaries", "READ")
    run_job(Job.objects.get(type="generation-activation").pk)
    for name, is_shown in (("ada", True), ("aud", True), ("out", False)):
        assert ("not the one that was shown" in page_html(browse(name).get("/policies/"))) == is_shown
    assert "not the one that was shown" in page_html(ada.get("/"))
