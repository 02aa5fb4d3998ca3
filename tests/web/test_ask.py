"""Asking from anywhere: the question is checked, and the page of the entity answers it."""

import pytest

from tests.cast import DELETED

ORDERS = "dataset:sales.orders"


def faults(response) -> str:
    return response.context["fault"] if response.status_code == 200 else ""


@pytest.mark.parametrize("name", ["ada", "aud", "ned", "dee", "out"])
def test_everybody_may_ask(name, browse):
    response = browse(name).get("/ask")
    assert response.status_code == 200 and not faults(response)
    assert ("May this person or group" in response.content.decode()) == (name in ("ada", "aud"))


def test_a_question_leads_to_its_answer(browse):
    response = browse("aud").get("/ask", {"subject": "user:dee", "operation": "read", "generation": "core", "entity": ORDERS})
    assert (response.status_code, response["Location"]) == (
        303, f"/entities/{ORDERS}?subject=user:dee&operation=read&generation=core#ask")
    answered = browse("aud").get(response["Location"])
    assert answered.context["ask"]["answer"].decision.generation == "core"
    assert browse("aud").get(f"/ask?entity={ORDERS}")["Location"] == f"/entities/{ORDERS}#ask"


def test_an_operation_of_another_kind_is_refused_with_those_that_there_are(browse):
    response = browse("aud").get("/ask", {"subject": "user:dee", "operation": "start", "entity": ORDERS})
    assert faults(response).startswith("`start` is no operation of datasets; there is create, update")
    assert 'value="user:dee"' in response.content.decode() and f'value="{ORDERS}"' in response.content.decode()


def test_a_part_of_an_address_is_enough_to_choose_from(browse):
    response = browse("aud").get("/ask", {"subject": "user:dee", "operation": "read", "entity": "orders"})
    ((address, url),) = response.context["offered"]
    assert address == ORDERS and browse("aud").get(url)["Location"].startswith(f"/entities/{ORDERS}?subject=user:dee")


def test_what_is_called_so_is_offered_before_what_lies_in_it(browse):
    offered = browse("aud").get("/ask", {"subject": "user:dee", "entity": "sales"}).context["offered"]
    assert offered[0][0] == "namespace:sales" and len(offered) > 3 and len(set(offered)) == len(offered)


def test_what_is_not_seen_looks_like_what_does_not_exist_and_is_not_offered(browse):
    client = browse("dee")
    unseen, absent = (faults(client.get("/ask", {"entity": f"dataset:hr.{name}"})) for name in ("salaries", "nothing"))
    assert unseen.replace("salaries", "nothing") == absent != ""
    assert client.get("/ask?entity=salaries").context["offered"] == []
    assert browse("ned").get(f"/ask?entity={ORDERS}").status_code == 303
    assert browse("out").get(f"/ask?entity={ORDERS}").status_code == 200
    assert browse("dee").get(f"/ask?entity={DELETED}").status_code == 303


@pytest.mark.parametrize("text", ["dataset:", "x" * 3_000, "\0", "namespace:sales.orders", "🚢"])
def test_no_text_breaks_it(text, browse):
    assert browse("dee").get("/ask", {"entity": text, "operation": text, "subject": text, "generation": text}).status_code == 200


@pytest.mark.parametrize(("url", "room"), [
    ("/", "Overview"), ("/ask", "Ask"), (f"/entities/{ORDERS}", "Explorer"), ("/search?q=x", "Explorer"), ("/people/", "People"),
    ("/analyses/", "Analyses"), ("/my-access", "My access"),
])
def test_the_navigation_says_where_one_is(url, room, browse):
    assert [shown["title"] for shown in browse("aud").get(url).context["rooms"] if shown["is_current"]] == [room]


def test_who_has_no_explorer_begins_at_the_overview(browse):
    rooms = browse("dee").get(f"/entities/{ORDERS}").context["rooms"]
    assert [shown["title"] for shown in rooms] == ["Overview", "Ask", "My access", "Policies"]
    assert [shown["title"] for shown in rooms if shown["is_current"]] == ["Overview"]
