"""The pages of plans and of the deletion forecast: access, contents and query counts."""

from datetime import timedelta
from urllib.parse import urlencode

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from entities.address import parse_address
from entities.services import ensure_entities
from grants.change_set import AddGroup, ChangeSet, Include
from grants.evaluation.engine import check
from grants.journal import current_revision
from grants.models import Plan
from grants.plans.apply import apply_plan, inverse_plan
from grants.plans.sources.changes import change_set_plan
from grants.plans.sources.readiness import readiness_plan
from grants.policies.catalogue import GENERATIONS
from grants.policies.question import Question
from tests.support.authors import COMMAND, all_grants, author_named, database_state
from tests.support.cast import SETUP
from tests.support.changes import add_member, change_grants, create_plan_from_changes
from tests.support.pages import page_html, shown_effect_of_plan, text_of, with_effect
from tests.support.reports import create_report

ORDERS = "dataset:sales.orders"
FORECAST = "/forecast/namespace:sales?deleter=dee&generation=final"


@pytest.fixture
def plan(cast):
    orders = parse_address(ORDERS)
    return create_plan_from_changes(
        author=COMMAND,
        grant=[("user:out", orders, "READ"), ("user:dee", orders, "READ")],
        revoke=[("user:ned", orders, "ADMIN")],
    )


@pytest.fixture
def applied_plan(cast):
    plan = create_plan_from_changes(
        author=COMMAND, grant=[("user:out", parse_address("dataset:hr.salaries"), "READ")]
    )
    return apply_plan(author=COMMAND, plan_id=plan.pk)


def test_auditors_see_no_forms(browse, plan, applied_plan):
    for url in ("/plans/", f"/plans/{plan.pk}/", f"/plans/{applied_plan.pk}/", FORECAST):
        text = page_html(browse("aud").get(url)).replace('action="/sign-out" method="post"', "")
        assert 'method="post"' not in text, url


def test_a_plan_shows_its_effect_and_stranded_entities(browse, plan):
    text = text_of(browse("ada").get(f"/plans/{plan.pk}/"))
    for phrase in (
        "1 grant to add",
        "1 grant to revoke",
        "1 item already in place",
        "(no change)",
        "1 entity with fewer than two ADMIN holders",
        "READ on 1 dataset",
        "ADMIN on 1 dataset",
    ):
        assert phrase in text, phrase


def test_a_plan_counts_new_roles_apart_from_new_groups(browse, cast):
    changes = ChangeSet.of(AddGroup("role:readers"), Include("operators", "role:readers"), AddGroup("night"))
    plan = change_set_plan.create(COMMAND, changes)
    text = text_of(browse("ada").get(f"/plans/{plan.pk}/?preview=yes"))
    assert "1 role to add" in text and "1 group to add" in text
    assert "1 new group , 1 new role and 1 new membership together" in text
    text = text_of(browse("ada").get(f"/plans/{apply_plan(author=COMMAND, plan_id=plan.pk).pk}/"))
    assert "1 role added" in text and "1 group added" in text


def test_a_plan_says_that_grants_on_planned_addresses_give_nothing_yet(browse, cast):
    new = parse_address("dataset:sales.new")
    plan = create_plan_from_changes(
        author=COMMAND, grant=[("user:out", new, "READ"), ("user:dee", new, "READ")]
    )
    text = text_of(browse("ada").get(f"/plans/{plan.pk}/?preview=yes"))
    assert "2 grants are on planned addresses: nothing changes until the entities are live." in text


def test_applying_requires_a_reason_and_confirmation_of_stranded_entities(browse, plan):
    client, before = browse("ada"), database_state()
    response = client.post(
        f"/plans/{plan.pk}/apply", shown_effect_of_plan(client, plan) | {"reason": "tidy up"}
    )
    text = page_html(response)
    assert response.status_code == 400 and "Confirm that entities will have" in text and "tidy up" in text
    response = client.post(
        f"/plans/{plan.pk}/apply", shown_effect_of_plan(client, plan) | {"beyond": "yes", "strand": "yes"}
    )
    assert response.status_code == 400 and "the reason is missing" in page_html(response)
    assert database_state() == before
    response = client.post(
        f"/plans/{plan.pk}/apply",
        shown_effect_of_plan(client, plan) | {"beyond": "yes", "strand": "yes", "reason": "tidy up"},
        follow=True,
    )
    assert "is applied: 1 grant, 1 revocation." in page_html(response) and "Undo with a plan" in page_html(
        response
    )


def test_a_stale_plan_says_what_changed_and_can_be_renewed(browse, plan):
    change_grants(author=SETUP, grant=[("user:grp", parse_address(ORDERS), "READ")])
    client, before = browse("ada"), database_state()
    page = page_html(client.get(f"/plans/{plan.pk}/"))
    assert "Changed since it was created: revision" in page and "Apply plan" not in page
    response = client.post(
        f"/plans/{plan.pk}/apply",
        shown_effect_of_plan(client, plan) | {"beyond": "yes", "strand": "yes", "reason": "x"},
    )
    assert response.status_code == 409 and "Changed since it was created: revision" in page_html(response)
    assert database_state() == before
    response = client.post(f"/plans/{plan.pk}/renew", follow=True)
    assert "Apply plan" in page_html(response) and f"plan {plan.pk}" in page_html(response)


def test_undoing_a_plan_creates_an_inverse_plan(browse, plan):
    client, before = browse("ada"), all_grants()
    client.post(
        f"/plans/{plan.pk}/apply",
        shown_effect_of_plan(client, plan) | {"beyond": "yes", "strand": "yes", "reason": "x"},
    )
    assert all_grants() != before
    response = client.post(f"/plans/{plan.pk}/undo", follow=True)
    inverse = response.context["plan"]
    assert inverse.inverse_of_id == plan.pk and all_grants() != before
    client.post(
        f"/plans/{inverse.pk}/apply",
        shown_effect_of_plan(client, inverse) | {"reason": "back", "beyond": "yes"},
    )
    assert all_grants() == before
    assert f"Plan {inverse.pk}</a> undoes it" in page_html(client.get(f"/plans/{plan.pk}/"))


def test_a_discarded_plan_cannot_be_changed(browse, plan):
    client = browse("ada")
    client.post(f"/plans/{plan.pk}/discard")
    discarded = "was already discarded"
    for verb, message in (
        ("apply", discarded),
        ("discard", discarded),
        ("undo", "only an applied plan can be undone"),
    ):
        response = client.post(f"/plans/{plan.pk}/{verb}", {"reason": "x", "strand": "yes"})
        assert response.status_code == 400 and message in page_html(response)


def test_the_forecast_leads_to_a_plan_with_the_missing_grants(browse):
    client, question = (
        browse("ada"),
        Question("user", "dee", "delete", parse_address("namespace:sales"), "final"),
    )
    page = page_html(client.get("/entities/namespace:sales?deleter=dee"))
    assert "/forecast/namespace:sales?deleter=dee" in page
    page = client.get(FORECAST)
    assert page.context["forecast"].verdict == "refused" and page.context["receivers"] == ["user:dee"]
    form = {"namespace": "namespace:sales", "user": "dee", "generation": "final", "principal": "user:dee"}
    plan = client.post("/plans/readiness", form, follow=True).context["plan"]
    assert plan.effect["grants"] == 6 and not check(question).is_permitted
    client.post(
        f"/plans/{plan.pk}/apply",
        shown_effect_of_plan(client, plan) | {"reason": "she takes over", "beyond": "yes"},
    )
    assert check(question).is_permitted
    page = client.get(FORECAST)
    assert page.context["forecast"].verdict == "complete" and page.context["receivers"] == []


def test_the_check_links_back_to_the_plan_that_was_applied_until_it_is_undone(browse):
    client, url = browse("ada"), "/entities/namespace:sales?deleter=dee&tab=ask"
    form = {"namespace": "namespace:sales", "user": "dee", "generation": "final", "principal": "user:dee"}
    plan = client.post("/plans/readiness", form, follow=True).context["plan"]
    assert client.get(url).context["readiness"]["answer"]["plan"] is None
    apply_plan(author=author_named("ada", reason="she takes over"), plan_id=plan.pk)
    assert f'<a href="/plans/{plan.pk}/">Plan {plan.pk}</a> was applied' in page_html(client.get(url))
    assert "Undo with a plan" in page_html(client.get(url))
    assert "Undo with a plan" not in page_html(browse("aud").get(url))
    assert client.get(url.replace("dee", "ned")).context["readiness"]["answer"]["plan"] is None
    inverse = inverse_plan.create(author=COMMAND, plan_id=plan.pk)
    apply_plan(author=author_named("ada", reason="back"), plan_id=inverse.pk)
    assert client.get(url).context["readiness"]["answer"]["plan"] is None


def test_the_answer_links_back_to_the_plan_that_permitted_it(browse):
    client, question = browse("ada"), {"subject": "user:out", "operation": "read"}
    plan = client.post("/plans/missing", question | {"address": "dataset:hr.salaries"}, follow=True).context[
        "plan"
    ]
    pages = (
        f"/entities/dataset:hr.salaries?{urlencode(question | {'tab': 'ask'})}",
        f"/ask?{urlencode(question | {'entity': 'dataset:hr.salaries'})}",
    )
    for url in pages:
        assert "was applied" not in page_html(client.get(url))
    apply_plan(author=author_named("ada", reason="she audits"), plan_id=plan.pk)
    for url in pages:
        assert f'<a href="/plans/{plan.pk}/">Plan {plan.pk}</a> was applied' in page_html(client.get(url))
    own = f"/entities/dataset:hr.salaries?{urlencode({'operation': 'read', 'tab': 'ask'})}"
    assert "was applied" not in page_html(browse("out").get(own))


def test_the_side_effects_are_named_beside_the_box_that_confirms_them(browse):
    client = browse("ada")
    add_member("dee", "operators")
    form = {
        "namespace": "namespace:sales",
        "user": "dee",
        "generation": "final",
        "principal": "group:operators",
    }
    plan = client.post("/plans/readiness", form, follow=True).context["plan"]
    page = client.get(with_effect(f"/plans/{plan.pk}/"))
    confirm, effect = page.context["to_confirm"], page.context["permissions"]["whole"]
    assert confirm["confirmation"] == f"Accept {effect.max_side_effects} permissions as side effects"
    assert {"grp"} <= {person["user"] for person in confirm["side_effects"]}
    (phrases,) = {
        tuple(part["phrases"])
        for person in confirm["side_effects"]
        if person["user"] == "grp"
        for part in person["parts"]
    }
    assert phrases[0].startswith("administers ")
    section = client.get(f"{confirm['side_effects_url'].partition('#')[0]}&preview=yes").context[
        "permissions"
    ]
    assert section["is_open"] and section["page"].total == effect.max_side_effects
    assert not any(row.intended for row in section["page"].rows) and not section["attached"]
    csv = next(url for title, url in section["downloads"] if title == "CSV")
    assert len(b"".join(client.get(csv)).splitlines()) == effect.max_side_effects + 1


@pytest.mark.parametrize("generation", [*GENERATIONS, "newest"])
def test_the_forecast_works_for_every_user_and_generation(generation, browse):
    client = browse("aud")
    for user in ("ned", "ina", "a%00b", ""):
        url = f"/forecast/namespace:sales?deleter={user}&generation={generation}"
        assert client.get(url).status_code == 200, user


def test_a_forecast_requires_a_live_namespace(browse):
    text = page_html(browse("ada").get(f"/forecast/{ORDERS}?deleter=ned"))
    assert "is not a namespace" in text


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"source": "user:ned", "target": "user:ned"}, "is both"),
        ({"source": "x", "target": "user:ned"}, "is not a principal"),
        ({"source": "user:ned", "target": "user:dee", "within": "sales"}, "is not an address"),
    ],
)
def test_an_invalid_copy_keeps_the_input(form, message, browse):
    response = browse("ada").post("/plans/copy", form)
    assert response.status_code == 400 and message in page_html(response)
    assert response.context["form"]["target"].value() == form["target"] and not Plan.objects.exists()


def test_htmx_gets_single_sections(browse, plan, htmx):
    for part in ("effects", "items"):
        text = page_html(browse("aud").get(f"/plans/{plan.pk}/", headers=htmx(part)))
        assert f'id="{part}"' in text and "<html" not in text
    text = page_html(browse("aud").get(FORECAST, headers=htmx("undeletable")))
    assert 'id="undeletable"' in text and "<html" not in text


def test_items_are_paged(browse):
    grants = [
        (f"user:{name}", parse_address(f"dataset:sales.d{number:03}"), "READ")
        for name in ("dee", "out")
        for number in range(60)
    ]
    plan = create_plan_from_changes(author=COMMAND, grant=grants)
    positions = []
    for number in (1, 2, 3):
        page = browse("aud").get(f"/plans/{plan.pk}/?items={number}").context["items"]["page"]
        positions += [item.position for item in page.rows]
    assert positions == list(range(1, 121)) and page.total == 120 and not page.next_url


def test_the_number_of_queries_does_not_grow_with_the_data(browse):
    client = browse("ada")

    def query_counts(numbers):
        addresses = [parse_address(f"dataset:sales.more{number:03}") for number in numbers]
        ensure_entities(states=dict.fromkeys(addresses, "live"))
        change_grants(author=SETUP, grant=[("user:ned", address, "ADMIN") for address in addresses])
        plan = create_plan_from_changes(
            author=COMMAND,
            grant=[("user:out", address, "READ") for address in addresses],
            revoke=[("user:ned", address, "ADMIN") for address in addresses],
        )
        applied_plan = apply_plan(
            author=COMMAND,
            plan_id=readiness_plan.create(
                author=COMMAND,
                namespace=parse_address("namespace:hr"),
                user="dee" if numbers[0] else "ned",
                generation="final",
            ).pk,
        )
        inverse_plan.create(author=COMMAND, plan_id=applied_plan.pk)
        urls = ("/plans/", f"/plans/{plan.pk}/", f"/plans/{applied_plan.pk}/", FORECAST)
        return [query_count(client, url) for url in urls]

    small = query_counts(range(2))
    assert query_counts(range(2, 60)) <= small
    assert small <= [5, 11, 8, 21]


@pytest.fixture
def impact(cast, settings, tmp_path):
    settings.SNAPSHOT_URI = str(tmp_path)
    change_grants(author=SETUP, grant=[("user:out", parse_address("namespace:hr"), "ADMIN")])
    lost = ("out", "dataset:hr.salaries", "drop", True, False)
    return create_report(
        tmp_path,
        {"rows": [], "operations": [], "detail": [lost]},
        analysis="policy-impact",
        summary={},
        revision=current_revision(),
        options={"generation": "existing", "to_generation": "final"},
    )


def test_a_policy_impact_report_leads_to_a_plan_that_keeps_permissions(impact, browse):
    url = f"/plans/policy-impact/{impact.pk}"
    assert url in page_html(browse("ada").get(f"/analyses/{impact.pk}/"))
    assert url not in page_html(browse("aud").get(f"/analyses/{impact.pk}/"))
    assert [browse(name).post(url).status_code for name in ("aud", "ned", "dee")] == [403, 404, 404]
    assert browse("ada").post("/plans/policy-impact/0").status_code == 404
    page = browse("ada").post(url, {"namespace": "hr"}, follow=True)
    assert "can be kept without also giving others: prefer the fewest grants" in page_html(page)
    page = browse("ada").post(url, {"namespace": "hr", "prefer": "fewest"}, follow=True)
    assert (
        "It keeps 1 permission that would be lost." in page_html(page)
        and page.context["plan"].effect["grants"] == 1
    )
    response = browse("ada").post(url, {"user": "nobody"}, follow=True)
    assert "No plan was created: user:nobody does not exist" in page_html(response)


def query_count(client, url) -> int:
    with CaptureQueriesContext(connection) as captured:
        assert client.get(url).status_code == 200
    return len(captured)


def test_a_proposed_plan_and_a_copy_are_limited_to_a_period(browse):
    end = timezone.localtime().replace(tzinfo=None, second=0, microsecond=0) + timedelta(days=40)
    plan = create_plan_from_changes(grant=[("user:out", "dataset:sales.orders", "READ")])
    ada = browse("ada")
    assert "Limit the access to a period" in page_html(ada.get(f"/plans/{plan.pk}/"))
    limited = ada.post(f"/plans/{plan.pk}/renew", {"valid_until": end.isoformat()}, follow=True)
    assert "limited to the period" in page_html(limited) and "Limited: until" in page_html(limited)
    ada.post("/plans/copy", {"source": "user:dee", "target": "user:out", "until_preset": "3-months"})
    first, copied = Plan.objects.order_by("-pk")[1], Plan.objects.latest("pk")
    assert [item.valid_until.replace(tzinfo=None) for item in first.items.all()] == [end]
    assert all(80 < (item.valid_until - timezone.now()).days < 95 for item in copied.items.all())
    plan.refresh_from_db()
    assert plan.state == "discarded"
