"""The pages that compare grants before a plan is created, and the list of what a plan does not keep."""

import csv
import io
import json

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils.html import escape

from entities.address import parse_address
from entities.vocabulary import ANY
from grants.change_set import ActivateGeneration
from grants.effects.effect import effect_of
from grants.journal import current_revision
from grants.models import Plan
from grants.plan_items import changes_of_plan
from grants.plans.permission_effect import plan_effect
from grants.plans.regrants.compute import Prefer, create_plan_of_regrants
from grants.plans.regrants.kept_not import kept_not_of_plan
from grants.policies.catalogue import GENERATIONS
from tests.support.authors import COMMAND, database_state
from tests.support.changes import add_member, change_grants
from tests.support.pages import page_html, with_effect
from tests.support.reports import create_report
from tests.web.ask.test_answer_summaries import plan_form

pytestmark = pytest.mark.django_db

SALES = parse_address("namespace:sales")
READINESS = {"namespace": "namespace:sales", "user": "dee", "generation": "final", "preview": "yes"}


def rows_of(page):
    return {choice.value: choice for choice in page.context["choices"]}


def test_the_receivers_of_missing_grants_are_compared_and_nothing_is_stored(browse):
    add_member("dee", "operators")
    client, before = browse("ada"), database_state()
    page = client.get("/plans/readiness", READINESS)
    choices = rows_of(page)
    assert list(choices) == ["user:dee", "group:operators"] and database_state() == before
    assert (
        choices["user:dee"].gained < choices["group:operators"].gained
        and page.context["first"].value == "user:dee"
    )
    for principal, choice in choices.items():
        plan = client.post("/plans/readiness", READINESS | {"principal": principal}, follow=True).context[
            "plan"
        ]
        tally = plan_effect(plan).tally
        assert (choice.grants, choice.gained, choice.lost) == (
            plan.effect["grants"],
            tally.gained_beyond,
            tally.lost_beyond,
        )
        assert choice.kept_not == 0 < choice.kept
    items = Plan.objects.earliest("pk").items.all()
    change_grants(grant=[(item.principal, item.address, item.privilege) for item in items])
    assert "No plan is needed" in page_html(client.get("/plans/readiness", READINESS))


@pytest.mark.parametrize(
    ("url", "form"),
    [
        ("/plans/readiness", {**READINESS, "preview": ""}),
        ("/plans/missing", plan_form(subject="user:out", operation="list")),
    ],
)
def test_the_page_appears_without_its_choices_and_loads_them(browse, htmx, url, form):
    form = {name: value for name, value in form.items() if value}
    first = browse("ada").get(url, form)
    assert "choices" not in first.context and "Computing the effect" in page_html(first)
    assert 'hx-trigger="load"' in page_html(first) and "Create plan" not in page_html(first)
    part = browse("ada").get(url, form, headers=htmx("choices"))
    assert "Create plan" in page_html(part) and "<html" not in page_html(part) and rows_of(part)
    statuses = [
        browse(name).get(url, form, headers=htmx("choices")).status_code for name in ("aud", "ned", "dee")
    ]
    assert statuses == [403, 404, 404]


def test_a_choice_that_is_refused_leads_to_the_page_before(browse, htmx):
    client, form = browse("ada"), READINESS | {"user": "nobody"}
    part = client.get("/plans/readiness", form, headers=htmx("choices"))
    assert part["HX-Redirect"] == "/plans/" and "user:nobody does not exist" in client.html("/plans/")


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"namespace": "sales"}, "is not an address"),
        ({"user": "nobody"}, "user:nobody does not exist"),
        ({"generation": "newest"}, "newest"),
        ({"namespace": "dataset:sales.orders"}, "is not a namespace"),
    ],
)
def test_an_invalid_choice_of_receivers_is_explained(form, message, browse):
    page = browse("ada").get("/plans/readiness", READINESS | form, follow=True)
    assert page.redirect_chain == [("/plans/", 303)] and message in page_html(page)


def test_the_ways_to_permit_a_denied_question_are_compared(browse):
    client, before = browse("ada"), database_state()
    form = plan_form(operation="list", subject="user:out")
    page = client.get("/plans/missing", form | {"preview": "yes"})
    choices = rows_of(page)
    assert len(choices) == len(ANY) and database_state() == before
    assert [choice.gained for choice in page.context["choices"]] == sorted(
        choice.gained for choice in choices.values()
    )
    widest = page.context["choices"][-1]
    plan = client.post("/plans/missing", form | {"way": widest.value}, follow=True).context["plan"]
    assert plan_effect(plan).tally.gained_beyond == widest.gained
    assert [f"{item.privilege} on {item.address}" for item in plan.items.all()] == [widest.value]
    again = client.post("/plans/missing", form | {"way": "READ on namespace:hr"}, follow=True)
    assert "READ on namespace:hr does not permit this any more" in page_html(again)


def test_a_question_with_one_way_shows_it_and_a_permitted_one_nothing(browse):
    page = browse("ada").get("/plans/missing", plan_form(preview="yes"))
    (choice,) = page.context["choices"]
    assert (choice.value, choice.grants) == ("", 6) and choice.title.startswith("6 grants, such as ADMIN on ")
    plan = browse("ada").post("/plans/missing", plan_form(way=""), follow=True).context["plan"]
    assert plan.effect["grants"] == 6
    assert "No plan is needed" in page_html(
        browse("ada").get("/plans/missing", plan_form(subject="user:nobody", preview="yes"))
    )


@pytest.fixture
def impact(cast, settings, tmp_path):
    """A report after which the fewest grants give more than was lost."""
    settings.SNAPSHOT_URI = str(tmp_path)
    change_grants(grant=[("user:out", SALES, privilege) for privilege in ANY])
    plan, regrants = create_plan_of_regrants(
        author=COMMAND, before=GENERATIONS["final"], after=GENERATIONS["existing"]
    )
    lost = sorted((row.user, row.entity, row.operation, True, False) for row in kept_not_of_plan(plan))
    return create_report(
        tmp_path,
        {"rows": [], "operations": [], "detail": lost},
        analysis="policy-impact",
        summary={},
        revision=current_revision(),
        options={"generation": "final", "to_generation": "existing"},
    )


def test_narrowest_and_fewest_regrants_are_compared_and_the_plan_is_the_chosen_one(impact, browse):
    client, before = browse("ada"), database_state()
    url = f"/plans/policy-impact/{impact.pk}"
    choices = rows_of(client.get(with_effect(url)))
    assert list(choices) == [*Prefer] and database_state() == before
    assert (
        choices["narrowest"].gained == 0 < choices["fewest"].gained
        and choices["fewest"].kept > choices["narrowest"].kept
    )
    for prefer, choice in choices.items():
        plan = client.post(url, {"prefer": prefer}, follow=True).context["plan"]
        tally = plan_effect(plan).tally
        assert (choice.grants, choice.kept_not) == (plan.effect["grants"], plan.recipe["kept_not"])
        # the effect also counts operations that have a rule only afterwards
        assert choice.gained <= tally.gained_beyond and choice.lost == tally.lost_beyond == 0
    assert client.get(url, {"user": "nobody", "preview": "yes"}).status_code == 303


def test_the_report_is_validated_once_with_the_choices(impact, browse):
    client, url = browse("ada"), f"/plans/policy-impact/{impact.pk}"
    with CaptureQueriesContext(connection) as queries:
        client.get(with_effect(url))
    checks = [sql for query in queries if "ORDER BY" in (sql := query["sql"]) and "events-seal" in sql]
    # and one for each choice, which reads the report
    assert len(checks) == 1 + len(Prefer)


def gained_and_lost(changes, generation):
    tally = effect_of(changes, generation).tally
    return tally.gained_for + tally.gained_beyond, tally.lost_for + tally.lost_beyond


def test_the_pages_say_what_the_activation_itself_gives_and_takes_with_and_without_the_plan(impact, browse):
    client, final, activation = (
        browse("ada"),
        GENERATIONS["final"],
        ActivateGeneration(GENERATIONS["existing"]),
    )
    given, taken = gained_and_lost([activation], final)
    assert given and taken
    sentence = (
        f"Activating <code>existing</code> itself gives {given:,} permissions that <code>final</code> denies, "
        f"and removes {taken:,}."
    )
    page = client.get(with_effect(f"/plans/policy-impact/{impact.pk}"))
    list_url = page.context["activation"]["list_url"]
    assert sentence in page_html(page) and f'href="{escape(list_url)}"' in page_html(page)
    assert client.get(with_effect(list_url)).context["permissions"]["page"].total == given
    for prefer, choice in rows_of(page).items():
        response = client.post(f"/plans/policy-impact/{impact.pk}", {"prefer": prefer}, follow=True)
        plan = response.context["plan"]
        assert (choice.given, choice.taken) == gained_and_lost([*changes_of_plan(plan), activation], final)
        assert (
            f"{sentence} With this plan, it gives {choice.given:,} and removes {choice.taken:,}."
            in page_html(response)
        )
    # in another generation than that of the plan, nothing is said that could be read as about this generation
    shown = {
        "final": page_html(client.get(with_effect(f"/plans/{plan.pk}/?generation=final"))),
        "existing": page_html(client.get(with_effect(f"/plans/{plan.pk}/"))),
    }
    tally = plan_effect(plan).tally
    total = tally.gained_for + tally.gained_beyond
    for text in shown.values():
        assert f"Apply plan: {total:,} permissions gained in existing</button>" in text
        assert f"In existing, the plan gives {total:,}" in text
    assert plan_effect(plan, "final").has_effect is ("No decision changes in final." not in shown["final"])
    assert f'/plans/{plan.pk}/?generation=existing">show its effect there' in shown["final"]
    assert "show its effect there" not in shown["existing"]
    # plans of older versions have no counts
    del plan.recipe["activation"]
    plan.save(update_fields=["recipe"])
    text = page_html(client.get(f"/plans/{plan.pk}/"))
    assert "may itself give permissions that <code>final</code> denies." in text and escape(list_url) in text


def test_a_plan_lists_what_it_does_not_keep_on_its_page_and_over_rest(impact, browse, htmx, monkeypatch):
    monkeypatch.setattr("authzconsole.web.plans.plan_pages.ROWS_PER_PAGE", 8)
    plan = Plan.objects.get()
    client, expected = browse("ada"), [row._asdict() for row in kept_not_of_plan(plan)]
    assert len(expected) == plan.recipe["kept_not"] > 16
    page = client.get(f"/plans/{plan.pk}/")
    text = page_html(page)
    assert (
        page.context["kept_not"]["total"] == len(expected)
        and expected[0]["why"] in text
        and "kept_not=2" in text
    )
    second = client.get(f"/plans/{plan.pk}/?kept_not=2", headers=htmx("kept_not"))
    assert [row.why for row in second.context["kept_not"]["page"].rows] == [
        row["why"] for row in expected[8:16]
    ]
    assert "Nothing is listed" in page_html(client.get(f"/plans/{plan.pk}/?kept_not=999"))
    api = f"/api/v1/plans/{plan.pk}/kept-not"
    first = client.get(f"{api}?limit=6").json()
    rest = client.get(api, {"limit": 1_000, "cursor": client.get(f"{api}?limit=6").json()["next"]}).json()
    assert [
        *first["items"],
        *client.get(api, {"limit": 6, "cursor": first["next"]}).json()["items"],
    ] == expected[:12]
    assert rest["items"] == expected[6:] and rest["next"] is None
    lines = b"".join(client.get(f"{api}/rows.jsonl").streaming_content).decode().splitlines()
    table = csv.DictReader(io.StringIO(b"".join(client.get(f"{api}/rows.csv").streaming_content).decode()))
    assert list(map(json.loads, lines)) == list(table) == expected
    assert browse("ned").get(api).status_code == 403
    client.post(f"/plans/{plan.pk}/discard")
    assert client.get(api).status_code == 409 == client.get(f"{api}/rows.csv").status_code
    assert client.get(f"/plans/{plan.pk}/").context["kept_not"] is None
