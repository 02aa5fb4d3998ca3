"""Short answers for all operations and all generations, and the plan of the missing grants."""

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
            assert [(summary.name, summary.is_permitted) for summary in ask["operation_answers"]] == [
                (decision.question.operation, decision.is_permitted) for decision in decisions
            ]


def test_each_generation_answers_with_its_source(browse):
    ask = browse("aud").get(f"{PROGRAM}?subject=user:grp&operation=start&generation=existing").context["ask"]
    assert [summary.name for summary in ask["generation_summaries"]] == list(GENERATIONS)
    assert [summary.name for summary in ask["generation_summaries"] if summary.is_current] == ["existing"]
    assert all(summary.source for summary in ask["generation_summaries"])
    for summary in ask["generation_summaries"]:
        target = parse_address("program:sales.shop.workflow.daily")
        assert (
            summary.is_permitted == check(Question("user", "grp", "start", target, summary.name)).is_permitted
        )
    assert (
        browse("aud").get(f"{PROGRAM}?subject=user:grp&operation=READ").context["ask"]["generation_summaries"]
        == []
    )


def test_an_ordinary_account_sees_its_own_operations_without_asking(browse):
    ask = browse("dee").get("/entities/dataset:sales.orders?tab=ask").context["ask"]
    answers = ask["operation_answers"]
    assert {summary.name for summary in answers if summary.is_permitted} >= {"read", "list"} and ask[
        "permitted"
    ] < len(answers)
    assert (
        browse("dee")
        .get("/entities/dataset:sales.orders?subject=user:ned")
        .context["ask"]["operation_answers"]
        == []
    )


def test_answer_summaries_do_not_name_invisible_entities(browse):
    for operation in ("", "delete"):
        for generation in GENERATIONS:
            text = (
                browse("dee")
                .get(NAMESPACE, {"generation": generation, "operation": operation})
                .content.decode()
            )
            assert "customers" not in text and "etl-1.0" not in text


def test_an_answer_summary_links_to_the_full_answer(browse):
    client = browse("aud")
    answers = client.get(f"{NAMESPACE}?subject=user:dee").context["ask"]["operation_answers"]
    (summary,) = [answer for answer in answers if answer.name == "delete"]
    assert client.get(summary.url).context["ask"]["answer"].decision.question.operation == "delete"


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
    ask, text = response.context["ask"], response.content.decode()
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
        text = browse("ada").get(f"{NAMESPACE}?subject=user:dee&{rest}", headers=headers).content.decode()
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
    assert costs[0] == costs[1] <= 14


def plan_form(**more) -> dict:
    return {
        "address": "namespace:sales",
        "subject": "user:dee",
        "operation": "delete",
        "generation": "final",
    } | more


def test_a_plan_of_the_missing_grants_turns_the_denial_into_a_permit(browse):
    client = browse("ada")
    page = client.get(f"{NAMESPACE}?subject=user:dee&operation=delete").content.decode()
    assert 'action="/plans/missing"' in page
    before, response = database_state()[0], client.post("/plans/missing", plan_form())
    plan = Plan.objects.get()
    assert response["Location"] == f"/plans/{plan.pk}/" and database_state()[0] == before
    assert plan.title == "Let user:dee delete namespace:sales (final)" and plan.effect["grants"] == 6
    client.post(f"/plans/{plan.pk}/apply", {"reason": "takes over", "beyond": "yes"})
    assert (
        client.get(f"{NAMESPACE}?subject=user:dee&operation=delete")
        .context["ask"]["answer"]
        .decision.is_permitted
    )
    next_step = client.get(f"/plans/{plan.pk}/").context["next_step"]
    assert next_step["text"] == "Ask again: may user:dee delete namespace:sales?"
    assert client.get(next_step["url"]).context["ask"]["answer"].decision.is_permitted
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
                assert notice in client.get(NAMESPACE).content.decode()


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
    page = client.get(f"{NAMESPACE}?subject=user:dee&operation=delete").content.decode()
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
    ) in client.get(NAMESPACE).content.decode()


def test_only_an_administrator_can_create_a_plan_from_an_answer(browse):
    before = database_state()
    assert [
        browse(name).post("/plans/missing", plan_form()).status_code for name in ("aud", "ned", "out")
    ] == [403, 404, 404]
    assert (
        "/plans/missing"
        not in browse("aud").get(f"{NAMESPACE}?subject=user:dee&operation=delete").content.decode()
    )
    assert browse("ada").post("/plans/missing", plan_form(subject="nonsense:x")).status_code == 303
    assert browse("ada").post("/plans/missing", plan_form(operation="explode")).status_code == 303
    assert browse("ada").post("/plans/missing", plan_form(address="nonsense")).status_code == 404
    assert database_state() == before
