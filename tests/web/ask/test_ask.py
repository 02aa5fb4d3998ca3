"""The Ask page: validation, answers in all generations, suggestions and permalinks."""

import re

import pytest
from pytest_django.asserts import assertContains, assertNotContains

from authzconsole.web.ask.answers import requirement_root
from authzconsole.web.policies.page import row_url
from entities.address import parse_address
from entities.services import ensure_entities
from entities.vocabulary import KINDS
from grants.evaluation.engine import check
from grants.models import User
from grants.policies.catalogue import FINAL, GENERATIONS
from grants.policies.levels import operations_by_level
from grants.policies.question import Question
from tests.support.cast import DELETED
from tests.support.changes import add_grant
from tests.support.pages import page_html

ORDERS = "dataset:sales.orders"
DELETE = {"operation": "delete", "entity": "namespace:sales"}


def fault_of(response) -> str:
    return response.context["ask"]["fault"]


def test_a_question_is_answered_on_the_same_page(browse):
    response = browse("aud").get(
        "/ask", {"subject": "user:dee", "operation": "read", "generation": "core", "entity": ORDERS}
    )
    assert response.status_code == 200 and response.context["ask"]["answer"].generation == "core"
    text = page_html(response)
    assert all(
        field in text for field in ('value="user:dee"', "<option selected>read</option>", f'value="{ORDERS}"')
    )
    assert browse("aud").get(f"/ask?entity={ORDERS}").context["ask"]["answer"] is None


def test_the_times_and_the_generation_are_further_options_that_open_when_one_is_set(browse):
    url = f"/ask?subject=user:dee&operation=read&entity={ORDERS}"
    options = re.compile(r'<details class="more-fields"( open)?>\s*<summary>More options')
    for more, is_open in (
        ("", False),
        ("&generation=final", False),
        ("&generation=core", True),
        ("&as_of=1", True),
        ("&at=2126-01-01", True),
    ):
        assert bool(options.search(page_html(browse("aud").get(url + more)))[1]) is is_open, more


@pytest.mark.parametrize("subject", ["user:ned", "user:dee", "group:operators", "user:ina"])
@pytest.mark.parametrize("operation", KINDS["namespace"].operations)
def test_the_answers_of_all_generations_match_the_engine(subject, operation, browse):
    ensure_entities(states={parse_address(f"stream:sales.s{number}"): "live" for number in range(20)})
    question = {
        "subject": subject,
        "operation": operation,
        "entity": "namespace:sales",
        "generation": "existing",
    }
    ask = browse("aud").get("/ask", question).context["ask"]
    assert [row["name"] for row in ask["generation_answers"]] == list(GENERATIONS)
    assert [row["name"] for row in ask["generation_answers"] if row["is_current"]] == ["existing"]
    for row in ask["generation_answers"]:
        expected = check(
            Question(*subject.split(":"), operation, parse_address("namespace:sales"), row["name"])
        )
        decision = row["answer"]
        assert (decision.is_permitted, decision.source) == (expected.is_permitted, expected.source)
        assert row["missing_total"] == len(expected.missing_grants or ())
        assert f"generation={row['name']}" in row["url"] and row["url"].startswith("/ask?")
    assert ask["answer"] is ask["generation_answers"][1]["answer"]


def test_an_answer_about_what_is_not_live_says_that_nothing_counts_it_yet(browse):
    add_grant("user:dee", "dataset:sales.later", "READ")
    asked = "/ask?subject=user:dee&operation=read&entity=dataset:sales."
    assertContains(browse("ada").get(f"{asked}later"), "is planned. Effects, plans and reports count")
    assertNotContains(browse("ada").get(f"{asked}orders"), "Effects, plans and reports count")


def test_an_answer_links_to_its_policy(browse):
    client = browse("aud")
    for url in ("/ask?entity=namespace:sales&", "/entities/namespace:sales?"):
        response = client.get(f"{url}subject=user:dee&operation=delete&generation=proposed")
        assert 'href="/policies/?generation=proposed#namespace-delete"' in page_html(response)
        assert (
            row_url(response.context["ask"]["answer"].question)
            == "/policies/?generation=proposed#namespace-delete"
        )
        privilege = client.get(f"{url}subject=user:dee&operation=ADMIN").context["ask"]
        assert row_url(privilege["answer"].question) == "" and privilege["generation_answers"] == []


def test_the_requirement_tree_names_addresses_and_grants(browse):
    response = browse("ada").get("/ask?subject=user:ned", DELETE | {"subject": "user:ned"})
    text = page_html(response)
    assert "ALL OF" in text and "unmet" not in text
    assert 'ADMIN on <a class="mono" href="/entities/namespace:sales">' in text
    assert re.search(r'ADMIN\s+held by\s+<a class="mono" href="/people/user:ned">user:<wbr>ned</a>', text)


def test_a_requirement_with_alternatives_is_one_node(browse):
    question = {"subject": "user:dee", "operation": "drop", "entity": ORDERS, "generation": "existing"}
    tree = requirement_root(browse("ada").get("/ask", question).context["ask"]["answer"])
    assert tree.requirement == "any" and not tree.is_met and len(tree.parts) > 1


def test_the_permalink_of_an_answer_is_absolute(browse, settings):
    settings.PUBLIC_URL = "https://console.example"
    client = browse("ada")
    ask = client.get("/ask?subject=dee&operation=delete&entity=namespace:sales").context["ask"]
    assert ask["permalink"] == (
        "https://console.example/ask?subject=user:dee&operation=delete&generation=final&entity=namespace:sales"
    )
    section = client.get("/entities/namespace:sales?subject=dee&operation=delete")
    assert section.context["ask"]["ask_page_url"] == ask["permalink"].removeprefix(settings.PUBLIC_URL)
    assert "Open on the Ask page" in page_html(section)
    assert client.get(section.context["ask"]["ask_page_url"]).context["ask"]["answer"].sentence == (
        ask["answer"].sentence
    )


def test_only_administrators_are_offered_a_plan_of_the_missing_grants(browse):
    pages = {
        name: page_html(browse(name).get("/ask", DELETE | {"subject": "user:dee"})) for name in ("ada", "aud")
    }
    assert {name: 'action="/plans/missing"' in page for name, page in pages.items()} == {
        "ada": True,
        "aud": False,
    }
    assert {name: "/grant/" in page for name, page in pages.items()} == {"ada": True, "aud": False}


def test_without_an_operation_every_operation_is_answered(browse):
    client = browse("aud")
    summaries = client.get(f"/ask?subject=user:dee&entity={ORDERS}").context["ask"]["operation_answers"]
    assert [row["name"] for row in summaries] == list(KINDS["dataset"].operations)
    (read,) = [row for row in summaries if row["name"] == "read"]
    assert client.get(read["url"]).context["ask"]["answer"].is_permitted


def test_htmx_gets_only_the_ask_section(browse, htmx):
    text = page_html(browse("aud").get("/ask", DELETE | {"subject": "user:dee"}, headers=htmx("ask")))
    assert 'id="ask"' in text and "<html" not in text and 'id="answer"' in text


def test_an_ordinary_account_can_ask_only_about_itself(browse):
    for url, query in (("/ask", DELETE), ("/entities/namespace:sales", {"operation": "delete"})):
        for subject in ("user:ned", "ned", "user:nobody", "group:operators", "role:x"):
            response = browse("dee").get(url, query | {"subject": subject})
            ask, text = response.context["ask"], page_html(response)
            assert ask["answer"] is None and ask["generation_answers"] == ask["operation_answers"] == []
            assert (
                f"This question is about <code>{subject}</code>. You can only ask about yourself"
                in " ".join(text.split())
            )
            own = browse("dee").get(ask["own_question_url"]).context["ask"]
            assert own["answer"].question.principal == "user:dee" and own["other_subject"] == ""
        for subject in ("", "dee", "user:dee"):
            ask = browse("dee").get(url, query | {"subject": subject}).context["ask"]
            assert ask["answer"].question.principal == "user:dee"


def test_the_form_offers_only_the_operations_of_the_kind(browse, htmx):
    client = browse("aud")

    def operations(url, **headers):
        text = page_html(client.get(url, headers=headers))
        if not headers:
            text = text.split('name="operation"')[1].split("</select>")[0]
        return [option.partition("</option>")[0] for option in text.split("<option>")[1:]]

    by_level, privileges = operations_by_level(FINAL, "dataset"), ["READ", "WRITE", "EXECUTE", "ADMIN"]
    # the weakest level first
    dataset = [name for level in reversed(by_level) for name in by_level[level]] + ["emit-metrics"]
    assert sorted(dataset) == sorted(KINDS["dataset"].operations)
    assert operations("/ask") == privileges
    assert (
        operations(f"/ask?entity={ORDERS}")
        == operations(f"/entities/{ORDERS}?tab=ask")
        == [*dataset, *privileges]
    )
    assert operations(f"/ask?entity={ORDERS}", **htmx("operation")) == [*dataset, *privileges]
    assert operations("/ask?entity=orders", **htmx("operation")) == [*dataset, *privileges]
    assert operations("/ask?entity=dataset:no.such", **htmx("operation")) == privileges
    # an entity that the account may not see looks like a missing one
    text = page_html(browse("dee").get("/ask?entity=dataset:hr.salaries", headers=htmx("operation")))
    assert "truncate" not in text


def test_examples_lead_to_answers_and_name_only_visible_entities(browse):
    for name in ("aud", "dee"):
        examples = browse(name).get("/ask").context["examples"]
        assert examples
        for _, url in examples:
            ask = browse(name).get(url).context["ask"]
            assert ask["answer"] is not None and ask["fault"] == ""
    assert all(text.startswith("May I ") for text, _ in examples)
    assert browse("out").get("/ask").context["examples"] == []
    assert browse("aud").get(f"/ask?entity={ORDERS}").context["examples"] == []


def test_no_generation_discloses_invisible_entities(browse):
    for operation in ("delete", "delete-all-streams", "list", ""):
        response = browse("dee").get("/ask", DELETE | {"operation": operation})
        text = page_html(response)
        assert (
            response.status_code == 200
            and "customers" not in text
            and "etl-1.0" not in text
            and "of the 5" not in text
        )
    response = browse("dee").get("/ask", DELETE)
    answers = {row["name"]: row["answer"] for row in response.context["ask"]["generation_answers"]}
    assert not answers["final"].missing_grants and not answers["proposed"].missing_grants
    assert "entities that you may not see" in answers["final"].sentence
    assert not answers["final"].is_permitted
    assert 'ADMIN on <span class="mono">namespace:sales</span>' in page_html(response)


def test_an_operation_of_another_kind_is_refused_with_the_valid_ones(browse):
    response = browse("aud").get("/ask", {"subject": "user:dee", "operation": "start", "entity": ORDERS})
    assert fault_of(response).startswith("Datasets have no operation `start`. Try create, update")
    text = page_html(response)
    assert (
        "have no operation <code>start</code>" in text
        and 'value="user:dee"' in text
        and f'value="{ORDERS}"' in text
    )


def test_part_of_an_address_lists_suggestions(browse):
    response = browse("aud").get("/ask", {"subject": "user:dee", "operation": "read", "entity": "order"})
    assert fault_of(response).count("is not an address") == 1 and "no address" not in fault_of(response)
    ((entity, url),) = response.context["suggestions"]
    assert str(entity) == ORDERS and browse("aud").get(url).context["ask"]["answer"].is_permitted


@pytest.mark.parametrize("text", ["orders", "sales.orders"])
def test_a_unique_name_or_key_redirects_to_the_address(text, browse):
    response = browse("aud").get("/ask", {"subject": "dee", "operation": "read", "entity": text})
    assert (response.status_code, response["Location"]) == (
        303,
        f"/ask?subject=dee&operation=read&entity={ORDERS}",
    )
    assert browse("dee").get(f"/ask?entity={text}").status_code == 303


def test_an_ambiguous_name_lists_suggestions(browse, monkeypatch):
    ensure_entities(
        states={parse_address("application:hr.orders"): "live", parse_address("dataset:hr.customers"): "live"}
    )
    response = browse("aud").get("/ask?subject=dee&entity=orders")
    assert [str(entity) for entity, _ in response.context["suggestions"]] == ["application:hr.orders", ORDERS]
    assert browse("dee").get("/ask?entity=orders").status_code == 303
    monkeypatch.setattr("authzconsole.web.shared.entity_search.MAX_CANDIDATES", 1)
    assert browse("aud").get("/ask?subject=dee&entity=customers").status_code == 200


def test_an_invisible_entity_looks_like_a_missing_one(browse):
    client = browse("dee")
    invisible, missing = (
        fault_of(client.get("/ask", {"entity": f"dataset:hr.{name}"})) for name in ("salaries", "nothing")
    )
    assert invisible.replace("salaries", "nothing") == missing != ""
    for text in ("salaries", "hr.salaries", "customers"):
        assert client.get("/ask", {"entity": text}).context["suggestions"] == []
    assert [
        browse(name).get(f"/ask?operation=read&entity={ORDERS}").context["ask"].get("answer") is not None
        for name in ("ned", "out")
    ] == [True, False]
    assert client.get(f"/ask?operation=read&entity={DELETED}").context["ask"]["answer"]


def test_similar_names_are_suggested_to_accounts_that_see_everything(browse):
    User.objects.create(username="deedee")
    for subject, nearest in (
        ("xyz", []),
        ("dee-dee", ["user:deedee"]),
        ("operator", ["group:operators"]),
        ("group:operators2", ["group:operators"]),
        ("user:operators", ["group:operators"]),
    ):
        ask = browse("aud").get("/ask", DELETE | {"subject": subject}).context["ask"]
        assert [name for name, _ in ask["unknown_principal"].suggestions][:1] == nearest, subject
        assert ask["answer"] is None and ask["operation_answers"] == [] and ask["generation_answers"] == []
    ((_, url),) = ask["unknown_principal"].suggestions
    assert browse("aud").get(url).context["ask"]["answer"].question.principal == "group:operators"
    assert (
        browse("dee").get("/ask", DELETE | {"subject": "operator"}).context["ask"]["unknown_principal"]
        is None
    )


def test_quoted_input_is_escaped_and_formatted_as_code(browse):
    text = page_html(
        browse("aud").get("/ask", {"subject": "user:<b>", "operation": "read", "entity": ORDERS})
    )
    assert "<code>&lt;b&gt;</code>" in text
    text = page_html(browse("aud").get("/ask", {"subject": "x", "entity": "`<script>`x` `"}))
    assert "<script>`" not in text and "<code>&lt;" in text


@pytest.mark.parametrize("text", ["dataset:", "x" * 3_000, "\0", "namespace:sales.orders", "🚢"])
@pytest.mark.parametrize("name", ["dee", "aud"])
def test_no_input_causes_a_server_error(name, text, browse):
    for entity in (text, ORDERS):
        for operation in (text, "read", ""):
            question = {
                "entity": entity,
                "operation": operation,
                "subject": text,
                "generation": text,
                "owner": text,
            }
            assert browse(name).get("/ask", question).status_code == 200


@pytest.mark.parametrize(
    ("url", "area"),
    [
        ("/", "Overview"),
        ("/ask", "Ask"),
        (f"/entities/{ORDERS}", "Explorer"),
        ("/search?q=x", "Explorer"),
        ("/people/", "Users and groups"),
        ("/analyses/", "Analyses"),
        ("/my-access", "My access"),
    ],
)
def test_the_navigation_marks_the_current_area(url, area, browse):
    assert [item["title"] for item in browse("aud").get(url).context["nav_items"] if item["is_current"]] == [
        area
    ]


def test_the_navigation_lists_only_areas_that_the_account_can_open(browse):
    nav_items = browse("dee").get(f"/entities/{ORDERS}").context["nav_items"]
    titles = [item["title"] for item in nav_items]
    assert titles == [
        "Overview",
        "Findings",
        "Explorer",
        "Ask",
        "My access",
        "Requests",
        "Reviews",
        "Policies",
    ]
    assert [item["title"] for item in nav_items if item["is_current"]] == ["Explorer"]
    assert all(browse("dee").get(item["url"]).status_code == 200 for item in nav_items)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"subject": "robot:x"}, "subject"),
        ({"operation": "fly"}, "operation"),
        ({"entity": "dataset:no.such"}, "entity"),
    ],
)
def test_an_error_is_attached_to_its_field(change, field, browse):
    text = page_html(
        browse("ada").get("/ask", {"subject": "user:dee", "operation": "read", "entity": ORDERS} | change)
    )
    inputs = [tag.partition(">")[0] for tag in text.replace("<select ", "<input ").split("<input ")]
    assert [tag for tag in inputs if 'aria-describedby="ask-fault"' in tag] == [
        tag for tag in inputs if f'name="{field}"' in tag
    ]
    assert 'id="ask-fault" role="alert"' in text


@pytest.mark.parametrize("url", ["/ask", f"/entities/{ORDERS}"])
def test_an_inserted_answer_is_announced_to_screen_readers(url, browse, htmx):
    client = browse("ada")
    response = client.get(f"{url}?subject=user:dee&entity={ORDERS}", headers=htmx("ask"))
    ask = response.context["ask"]
    assert (
        ask["announcement"]
        == f"{ask['permitted']} of {len(ask['operation_answers'])} operations are permitted."
    )
    assert f'hx-swap-oob="innerHTML">{ask["announcement"]}</div>' in page_html(response)
    response = client.get(f"{url}?subject=user:dee&operation=read&entity={ORDERS}", headers=htmx("ask"))
    assert '<div id="announce" hx-swap-oob="innerHTML">Permitted: user:dee holds READ' in page_html(response)
