"""Short answers for all operations and all generations, and the plan of the missing grants."""

import re
from html import unescape

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from entities.address import parse_address
from entities.services import ensure_entities
from entities.vocabulary import KINDS
from grants.evaluation.engine import check
from grants.models import Plan
from grants.policies.catalogue import GENERATIONS
from grants.policies.question import Question
from tests.support.authors import database_state
from tests.support.cast import DELETED, PLANNED, SALES
from tests.support.pages import page_html, shown_effect_of_plan

SUBJECTS = ("user:ned", "user:dee", "user:grp", "group:operators", "user:ina")
PROGRAM, NAMESPACE = "/entities/program:sales.shop.workflow.daily", "/entities/namespace:sales"


@pytest.mark.parametrize("generation", GENERATIONS)
def test_the_operation_answers_match_the_engine(generation, browse):
    client = browse("aud")
    for address in map(parse_address, (*SALES, PLANNED, DELETED)):
        for subject in SUBJECTS:
            ask = client.get(f"/entities/{address}?subject={subject}&generation={generation}").context["ask"]
            type_, _, name = subject.partition(":")
            decisions = [
                check(Question(type_, name, operation, address, generation))
                for operation in KINDS[address.kind].operations
            ]
            assert [(row["name"], row["is_permitted"]) for row in ask["operation_answers"]] == [
                (decision.question.operation, decision.is_permitted) for decision in decisions
            ]


def test_each_generation_answers_with_its_source(browse):
    ask = browse("aud").get(f"{PROGRAM}?subject=user:grp&operation=start&generation=existing").context["ask"]
    summaries = ask["generation_summaries"]
    assert [row["name"] for row in summaries] == list(GENERATIONS)
    assert [row["name"] for row in summaries if row["is_current"]] == ["existing"]
    target = parse_address("program:sales.shop.workflow.daily")
    for row in summaries:
        question = Question("user", "grp", "start", target, row["name"])
        assert row["is_permitted"] == check(question).is_permitted and row["question"].policy.source
    assert (
        browse("aud").get(f"{PROGRAM}?subject=user:grp&operation=READ").context["ask"]["generation_summaries"]
        == []
    )


def test_answer_summaries_do_not_name_invisible_entities(browse):
    for operation in ("", "delete"):
        for generation in GENERATIONS:
            text = page_html(browse("dee").get(NAMESPACE, {"generation": generation, "operation": operation}))
            assert "customers" not in text and "etl-1.0" not in text


def test_an_invalid_subject_is_explained_once(browse):
    response = browse("aud").get(f"{NAMESPACE}?subject=group:")
    assert (
        response.status_code == 200
        and response.context["ask"]["fault"]
        and response.context["ask"]["operation_answers"] == []
    )


@pytest.mark.parametrize(
    "query", ["subject=nobody", "subject=user:nobody&operation=delete", "subject=group:nobody"]
)
def test_an_unknown_subject_gets_one_notice_and_no_denials(query, browse):
    response = browse("aud").get(f"{NAMESPACE}?{query}")
    ask, text = response.context["ask"], page_html(response)
    assert (ask["unknown_principal"].name, ask["unknown_principal"].suggestions) == ("nobody", [])
    assert (ask["operation_answers"], ask["generation_summaries"], ask["answer"], ask["fault"]) == (
        [],
        [],
        None,
        "",
    )
    assert text.count("named <code>nobody</code>") == 1 and "Denied" not in text


def test_asking_keeps_the_other_url_parameters(browse, htmx):
    rest = "kind=dataset&state=live&find=or&after=dataset:sales.a&holders=2"
    for headers in ({}, htmx("ask")):
        text = page_html(browse("ada").get(f"{NAMESPACE}?subject=user:dee&{rest}", headers=headers))
        form = text.split('<section id="ask"')[1].split("</form>")[0]
        for field in rest.split("&"):
            name, _, value = field.partition("=")
            assert f'<input type="hidden" name="{name}" value="{value}">' in form
        assert 'type="hidden" name="subject"' not in form


@pytest.mark.parametrize(
    "url", [f"{NAMESPACE}?subject=user:dee", f"{NAMESPACE}?subject=user:dee&operation=delete"]
)
def test_the_number_of_queries_does_not_grow_with_the_contents(url, browse):
    client, costs = browse("aud"), []
    for numbers in (range(1), range(1, 60)):
        ensure_entities(states={parse_address(f"dataset:sales.more{n}"): "live" for n in numbers})
        with CaptureQueriesContext(connection) as captured:
            client.get(url, headers={"HX-Request": "true", "HX-Target": "ask"})
        costs.append(len(captured))
    assert costs[0] == costs[1] <= 16


def plan_form(**more) -> dict:
    return {
        "address": "namespace:sales",
        "subject": "user:dee",
        "operation": "delete",
        "generation": "final",
    } | more


def test_a_plan_of_the_missing_grants_turns_the_denial_into_a_permit(browse):
    client = browse("ada")
    page = page_html(client.get(f"{NAMESPACE}?subject=user:dee&operation=delete"))
    assert 'action="/plans/missing"' in page
    before, response = database_state()[1:7], client.post("/plans/missing", plan_form())
    plan = Plan.objects.get()
    assert response["Location"] == f"/plans/{plan.pk}/" and database_state()[1:7] == before
    assert plan.title == "Let user:dee delete namespace:sales (final)" and plan.effect["grants"] == 6
    client.post(
        f"/plans/{plan.pk}/apply",
        shown_effect_of_plan(client, plan) | {"reason": "takes over", "beyond": "yes"},
    )
    assert client.get(f"{NAMESPACE}?subject=user:dee&operation=delete").context["ask"]["answer"].is_permitted
    link = re.search(
        '<a href="([^"]*)">Ask again: may user:dee delete namespace:sales\\?</a>',
        page_html(client.get(f"/plans/{plan.pk}/")),
    )
    assert client.get(unescape(link[1])).context["ask"]["answer"].is_permitted
    assert (
        client.post("/plans/missing", plan_form())["Location"] == f"{NAMESPACE}?tab=ask"
        and Plan.objects.count() == 1
    )


@pytest.mark.parametrize("generation", GENERATIONS)
def test_the_plan_contains_all_missing_grants_of_the_answer(generation, browse):
    client, address = browse("ada"), parse_address("namespace:sales")
    ensure_entities(
        states={
            parse_address(f"{kind}:sales.more{n}"): "live"
            for n in range(3)
            for kind in ("stream", "dataset_module")
        }
    )
    for operation in ("delete", "delete-all-streams", "delete-all-dataset-modules", "update", "list"):
        for type_, name in (("user", "dee"), ("user", "ned"), ("group", "operators")):
            missing = check(Question(type_, name, operation, address, generation)).missing_grants or ()
            form = plan_form(subject=f"{type_}:{name}", operation=operation, generation=generation)
            response = client.post("/plans/missing", form)
            if missing:
                plan = Plan.objects.latest("pk")
                items = {(row.principal, row.address, row.privilege) for row in plan.items.all()}
                if "alternatives" in plan.recipe:
                    # of several ways, the plan has the one with the fewest other permissions
                    ways = plan.recipe["alternatives"]
                    assert {f"{privilege} {address}" for _, address, privilege in items} == set(
                        ways[0]["grants"]
                    )
                    assert ways[0]["beyond"] == min(way["beyond"] for way in ways) and len(ways) > 1
                    assert any(
                        {f"{privilege} {address}" for address, privilege in missing} == set(way["grants"])
                        for way in ways
                    )
                else:
                    assert items == {(f"{type_}:{name}", *gap) for gap in missing}
            else:
                assert response["Location"] == f"{NAMESPACE}?tab=ask"
                notice = "No plan was created: nothing is missing that a grant could give."
                assert notice in page_html(client.get(NAMESPACE))


def test_the_plan_of_a_large_namespace_is_written_in_batches(browse):
    client, costs = browse("ada"), []
    for numbers in (range(1), range(1, 1_500)):
        ensure_entities(states={parse_address(f"dataset:sales.more{n}"): "live" for n in numbers})
        with CaptureQueriesContext(connection) as captured:
            assert client.post("/plans/missing", plan_form())["Location"].startswith("/plans/")
        costs.append(len(captured))
    assert Plan.objects.latest("pk").effect["grants"] == 7 + 1_499 and costs[1] <= costs[0] + 20


def test_too_many_missing_grants_for_a_plan_are_refused_before_writing(browse, monkeypatch):
    client = browse("ada")
    for module in ("authzconsole.web.ask.questions", "grants.plans.sources.answer"):
        monkeypatch.setattr(f"{module}.MAX_PLAN_ITEMS", 5)
    page = page_html(client.get(f"{NAMESPACE}?subject=user:dee&operation=delete"))
    assert "A plan can contain at most 5 changes." in page and 'action="/plans/missing"' not in page
    assert 'href="/plans/many?within=namespace:sales&amp;principal=user:dee&amp;privilege=ADMIN"' in page
    monkeypatch.setattr("grants.plans.create._insert_items", lambda *args: pytest.fail("items were written"))
    assert (
        client.post("/plans/missing", plan_form())["Location"] == f"{NAMESPACE}?tab=ask"
        and not Plan.objects.exists()
    )
    assert (
        "No plan was created: 6 grants are missing, but a plan can contain at most 5: plan a bulk change of namespace:sales, "
        "a few kinds at a time."
    ) in page_html(client.get(NAMESPACE))
