"""The search page, and suggestions for form fields."""

import pytest

from entities.address import parse_address
from entities.services import ensure_entities
from tests.support.pages import page_html


def rows_of(response) -> list[str]:
    return [str(row["entity"]) for row in response.context["rows"]]


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
    assert "the best of the checked matches" in page_html(browse("ada").get("/search?q=orders"))


def test_an_account_with_many_grants_learns_that_no_checked_match_is_visible(browse, monkeypatch):
    monkeypatch.setattr("authzconsole.web.shared.entity_search.MAX_CANDIDATES", 0)
    monkeypatch.setattr("grants.evaluation.visibility.FEW_GRANTS", -1)
    assert "you cannot see any of those that it checked" in page_html(browse("dee").get("/search?q=salar"))


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
        return [option["value"] for option in client.get(f"/suggest/principals?{query}").context["options"]]

    assert options("principal=de") == ["user:dee"]
    assert options("subject=group:op") == ["group:operators"]
    assert "group:operators" in options("principal=o") and "user:out" in options("principal=o")
    assert options("deleter=ne") == ["ned"]
    assert options("principal=%25") == [] and options("principal=%00zzz") == []
