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


def test_an_account_without_grants_is_referred_to_an_administrator(browse):
    assert "ask a console administrator" in page_html(browse("out").get("/"))


def test_an_empty_console_says_how_to_import_data(client, db):
    client.force_login(User.objects.create(username="ada", role="administrator", is_principal=False))
    assert "python manage.py import_tenant FILE" in page_html(client.get("/"))


def test_only_administrators_can_start_analyses_and_register(browse):
    has_form = {name: "Check all namespaces" in page_html(browse(name).get("/")) for name in ("ada", "aud", "ned")}
    assert has_form == {"ada": True, "aud": False, "ned": False}


def test_a_search_returns_only_visible_entities(browse):
    results = {name: rows_of(browse(name).get("/search?q=sales.")) for name in ("ada", "dee", "out")}
    assert (len(results["ada"]), results["dee"], results["out"]) == (7, ["dataset:sales.legacy", "dataset:sales.orders"], [])


@pytest.mark.parametrize("max_candidates", [0, 1_000])
def test_a_search_hides_invisible_entities_for_any_number_of_matches(max_candidates, browse, monkeypatch):
    monkeypatch.setattr("authzconsole.web.shared.entity_search.MAX_CANDIDATES", max_candidates)
    results = {name: rows_of(browse(name).get("/search?q=sales")) for name in ("dee", "out")}
    assert results["out"] == [] and results["dee"] == ["namespace:sales", "dataset:sales.legacy", "dataset:sales.orders"]


def test_exact_names_rank_first_then_prefixes_then_substrings(browse):
    ensure_entities(states={parse_address(address): "live" for address in (
        "application:hr.orders", "dataset:hr.orders_old", "dataset:hr.all_orders", "artifact:orders.a",
        "program:hr.x.workflow.orders")})
    assert rows_of(browse("ada").get("/search?q=Orders")) == [
        "namespace:orders", "application:hr.orders", "program:hr.x.workflow.orders", "dataset:sales.orders",
        "dataset:hr.orders_old", "dataset:hr.all_orders", "artifact:orders.a"]


def test_an_exact_match_is_found_among_too_many_matches(browse, monkeypatch):
    monkeypatch.setattr("authzconsole.web.shared.entity_search.MAX_CANDIDATES", 1)
    ensure_entities(states={parse_address(f"dataset:aaa.orders{number}"): "live" for number in range(9)})
    for text in ("orders", "sales.orders", "dataset:sales.orders"):
        response = browse("ada").get(f"/search?q={text}")
        assert rows_of(response)[0] == "dataset:sales.orders", text
    assert not browse("ada").get("/search?q=orders").context["result"].is_all
    assert "the best of the matches that were ranked" in page_html(browse("ada").get("/search?q=orders"))


def test_an_account_with_many_grants_learns_that_no_checked_match_is_visible(browse, monkeypatch):
    monkeypatch.setattr("authzconsole.web.shared.entity_search.MAX_CANDIDATES", 0)
    monkeypatch.setattr("grants.evaluation.visibility.FEW_GRANTS", -1)
    assert "none of those checked is visible to you" in page_html(browse("dee").get("/search?q=salar"))


@pytest.mark.parametrize(("text", "results"), [
    ("or", ["dataset:sales.orders"]), ("OR", ["dataset:sales.orders"]), ("rd", []), ("-", []),
    ("dataset:sales.or", ["dataset:sales.orders"])])
def test_fewer_than_three_letters_match_only_the_start_of_names(text, results, browse):
    response = browse("ada").get(f"/search?q={text}")
    assert rows_of(response) == results
    assert ("fewer than three letters" in page_html(response)) == (results == [])


def test_a_search_field_lists_the_best_matches_as_options(browse, htmx):
    listed = page_html(browse("ada").get("/search?q=sales", headers=htmx("search-suggestions")))
    assert "<html" not in listed and listed.count('role="option"') == 9
    namespace, application, all_results = map(listed.index, (
        "/entities/namespace:sales", "/entities/application:sales.", "All results for"))
    assert namespace < application < all_results
    suggestions = page_html(browse("dee").get("/search?entity=legacy", headers=htmx("entity-suggestions")))
    assert 'data-value="dataset:sales.legacy"' in suggestions and "deleted" in suggestions and "All results" not in suggestions
    assert "Nothing found" in page_html(browse("out").get("/search?q=sales", headers=htmx("search-suggestions")))
    assert "option" not in page_html(browse("ada").get("/search", headers=htmx("search-suggestions")))
    assert "<html" in page_html(browse("ada").get("/search?q=sales", headers=htmx("elsewhere")))


@pytest.mark.parametrize("max_candidates", [0, 1_000])
def test_a_field_for_one_kind_suggests_only_that_kind(max_candidates, browse, htmx, monkeypatch):
    monkeypatch.setattr("authzconsole.web.shared.entity_search.MAX_CANDIDATES", max_candidates)
    for text in ("sales", "artifact:sales.", "sales.etl-1.0"):
        response = browse("ada").get(f"/search?artifact={text}", headers=htmx("ask-artifact-suggestions"))
        assert set(rows_of(response)) <= {"artifact:sales.etl-1.0"} and (rows_of(response) or max_candidates == 0), text
    assert rows_of(browse("ada").get("/search?owner=sales", headers=htmx("ask-owner-suggestions"))) == []


def test_an_empty_or_malformed_search_does_not_fail(browse):
    for text in ("", "%00", "%FF", "dataset:", "x" * 5_000, "%25", "_", "..", "%F0%9F%9A%A2"):
        assert browse("ada").get(f"/search?q={text}").status_code == 200


def test_principals_are_suggested_by_type_and_part_of_the_name(browse):
    client = browse("ada")

    def options(query):
        return client.get(f"/suggest/principals?{query}").context["options"]

    assert options("principal=de") == ["user:dee"]
    assert options("subject=group:op") == ["group:operators"]
    assert "group:operators" in options("principal=o") and "user:out" in options("principal=o")
    assert options("deleter=ne") == ["ned"]
    assert options("principal=%25") == [] and options("principal=%00zzz") == []
