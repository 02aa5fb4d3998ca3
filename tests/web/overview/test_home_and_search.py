"""The list of namespaces, the search, and suggestions."""

import pytest

from entities.address import parse_address
from entities.models import Entity
from entities.services import ensure_entities
from grants.models import User
from tests.support.pages import page_html


def names(response) -> list[str]:
    return [str(row["address_link"]) for row in response.context["namespaces"]["rows"]]


def rows_of(response) -> list[str]:
    return [str(row["entity"]) for row in response.context["rows"]]


def test_each_account_sees_only_visible_namespaces(browse):
    assert {name: names(browse(name).get("/")) for name in ("ada", "aud", "ned", "grp", "out")} == {
        "ada": ["namespace:hr", "namespace:sales"], "aud": ["namespace:hr", "namespace:sales"], "ned": ["namespace:sales"],
        "grp": ["namespace:sales"], "out": [],
    }


def test_a_namespace_row_counts_contents_and_holders(browse):
    row = browse("aud").get("/").context["namespaces"]["rows"][1]
    assert row["inside"] == [("artifact", "1 artifact", 1), ("application", "1 application", 1), ("program", "1 program", 1),
                             ("dataset", "2 datasets", 2)]
    assert (row["users"], row["groups"], row["report"]) == (3, 1, None)


def test_namespaces_are_filtered_by_name_and_description(browse, htmx):
    Entity.objects.filter(key="hr").update(description="People and pay")
    client = browse("ada")
    assert names(client.get("/?find=PAY")) == ["namespace:hr"]
    part = client.get("/?find=sal", headers=htmx("namespaces"))
    assert names(part) == ["namespace:sales"] and "<html" not in page_html(part)
    assert "No matching namespaces" in page_html(client.get("/?find=zzz"))


def test_an_account_without_grants_is_told_whom_to_ask(browse):
    assert "ask a console administrator" in page_html(browse("out").get("/"))


def test_an_empty_console_says_how_to_import_data(client, db):
    client.force_login(User.objects.create(username="ada", role="administrator", is_principal=False))
    assert "python manage.py import_tenant FILE" in page_html(client.get("/"))


def test_only_administrators_can_start_analyses_and_register(browse):
    offered = {name: "Check all namespaces" in page_html(browse(name).get("/")) for name in ("ada", "aud", "ned")}
    assert offered == {"ada": True, "aud": False, "ned": False}


def test_a_search_finds_what_the_account_may_see(browse):
    found = {name: rows_of(browse(name).get("/search?q=sales.")) for name in ("ada", "dee", "out")}
    assert (len(found["ada"]), found["dee"], found["out"]) == (7, ["dataset:sales.legacy", "dataset:sales.orders"], [])


@pytest.mark.parametrize("most", [0, 1_000])
def test_a_search_shows_nothing_unseen_however_many_match_the_text(most, browse, monkeypatch):
    monkeypatch.setattr("authzconsole.web.shared.entity_search.MAX_CANDIDATES", most)
    found = {name: rows_of(browse(name).get("/search?q=sales")) for name in ("dee", "out")}
    assert found["out"] == [] and found["dee"] == ["namespace:sales", "dataset:sales.legacy", "dataset:sales.orders"]


def test_what_is_called_so_comes_first_then_what_begins_so_then_what_holds_it(browse):
    ensure_entities(states={parse_address(address): "live" for address in (
        "application:hr.orders", "dataset:hr.orders_old", "dataset:hr.all_orders", "artifact:orders.a",
        "program:hr.x.workflow.orders")})
    assert rows_of(browse("ada").get("/search?q=Orders")) == [
        "namespace:orders", "application:hr.orders", "program:hr.x.workflow.orders", "dataset:sales.orders",
        "dataset:hr.orders_old", "dataset:hr.all_orders", "artifact:orders.a"]


def test_where_too_many_match_what_is_written_whole_is_found_and_the_page_says_so(browse, monkeypatch):
    monkeypatch.setattr("authzconsole.web.shared.entity_search.MAX_CANDIDATES", 1)
    ensure_entities(states={parse_address(f"dataset:aaa.orders{number}"): "live" for number in range(9)})
    for text in ("orders", "sales.orders", "dataset:sales.orders"):
        response = browse("ada").get(f"/search?q={text}")
        assert rows_of(response)[0] == "dataset:sales.orders", text
    assert not browse("ada").get("/search?q=orders").context["result"].is_all
    assert "the best of the matches that were ranked" in page_html(browse("ada").get("/search?q=orders"))


def test_who_holds_much_is_told_where_none_of_those_looked_at_is_theirs(browse, monkeypatch):
    monkeypatch.setattr("authzconsole.web.shared.entity_search.MAX_CANDIDATES", 0)
    monkeypatch.setattr("grants.evaluation.visibility.FEW_GRANTS", -1)
    assert "none of those checked is visible to you" in page_html(browse("dee").get("/search?q=salar"))


@pytest.mark.parametrize(("text", "found"), [
    ("or", ["dataset:sales.orders"]), ("OR", ["dataset:sales.orders"]), ("rd", []), ("-", []),
    ("dataset:sales.or", ["dataset:sales.orders"])])
def test_fewer_than_three_letters_find_only_what_begins_so(text, found, browse):
    response = browse("ada").get(f"/search?q={text}")
    assert rows_of(response) == found
    assert ("fewer than three letters" in page_html(response)) == (found == [])


def test_a_field_gets_the_best_of_what_it_finds_as_options(browse, htmx):
    listed = page_html(browse("ada").get("/search?q=sales", headers=htmx("search-suggestions")))
    assert "<html" not in listed and listed.count('role="option"') == 9
    first, then, last = map(listed.index, ("/entities/namespace:sales", "/entities/application:sales.", "All results for"))
    assert first < then < last
    written = page_html(browse("dee").get("/search?entity=legacy", headers=htmx("entity-suggestions")))
    assert 'data-value="dataset:sales.legacy"' in written and "deleted" in written and "All results" not in written
    assert "Nothing found" in page_html(browse("out").get("/search?q=sales", headers=htmx("search-suggestions")))
    assert "option" not in page_html(browse("ada").get("/search", headers=htmx("search-suggestions")))
    assert "<html" in page_html(browse("ada").get("/search?q=sales", headers=htmx("elsewhere")))


@pytest.mark.parametrize("most", [0, 1_000])
def test_a_field_that_takes_one_kind_gets_only_that(most, browse, htmx, monkeypatch):
    monkeypatch.setattr("authzconsole.web.shared.entity_search.MAX_CANDIDATES", most)
    for text in ("sales", "artifact:sales.", "sales.etl-1.0"):
        response = browse("ada").get(f"/search?artifact={text}", headers=htmx("ask-artifact-suggestions"))
        assert set(rows_of(response)) <= {"artifact:sales.etl-1.0"} and (rows_of(response) or most == 0), text
    assert rows_of(browse("ada").get("/search?owner=sales", headers=htmx("ask-owner-suggestions"))) == []


def test_a_search_for_nothing_or_for_bytes_that_are_no_text_finds_nothing(browse):
    for text in ("", "%00", "%FF", "dataset:", "x" * 5_000, "%25", "_", "..", "%F0%9F%9A%A2"):
        assert browse("ada").get(f"/search?q={text}").status_code == 200


def test_principals_are_suggested_by_a_part_of_their_name_and_type(browse):
    client = browse("ada")

    def options(query):
        return client.get(f"/suggest/principals?{query}").context["options"]

    assert options("principal=de") == ["user:dee"]
    assert options("subject=group:op") == ["group:operators"]
    assert "group:operators" in options("principal=o") and "user:out" in options("principal=o")
    assert options("deleter=ne") == ["ned"]
    assert options("principal=%25") == [] and options("principal=%00zzz") == []
