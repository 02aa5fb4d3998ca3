"""The tree of the Explorer: expanded levels, paging, filters and visibility."""

import re

import pytest

from authzconsole.web.explorer import page as tree_module
from entities.address import parse_address
from entities.services import ensure_entities
from tests.support.changes import change_grants
from tests.support.pages import page_html

PROGRAM = "program:sales.shop.workflow.daily"


def rows_of(level, depth=0) -> list[tuple[int, str]]:
    """Return (depth, title) of every row in order."""
    return [
        row
        for branch in level.branches
        for row in [(depth, branch.title), *(rows_of(branch.inside, depth + 1) if branch.inside else [])]
    ]


def tree_rows(client, url="/explorer"):
    return rows_of(client.get(url).context["tree"])


def titles_inside(client, url) -> list[str]:
    return [branch.title for branch in client.get(url).context["level"].branches]


@pytest.fixture
def small_levels(monkeypatch):
    """List three rows per level, one of them before the entity at which the tree opens."""
    monkeypatch.setattr(tree_module, "MAX_ROWS", 3)
    monkeypatch.setattr(tree_module, "ROWS_BEFORE", 1)


@pytest.fixture
def streams(cast):
    ensure_entities(states={parse_address(f"stream:sales.s{n}"): "live" for n in range(8)})


def test_the_tree_opens_with_the_namespaces_expanded(browse):
    assert tree_rows(browse("ada")) == [(0, "cdap"), (1, "namespaces"), (2, "hr"), (2, "sales")]


def test_the_tree_is_expanded_down_to_the_requested_entity(browse):
    response = browse("ada").get(f"/explorer?at={PROGRAM}")
    assert rows_of(response.context["tree"]) == [
        (0, "cdap"),
        (1, "namespaces"),
        (2, "hr"),
        (2, "sales"),
        (3, "artifacts"),
        (3, "applications"),
        (4, "shop"),
        (5, "workflow.daily"),
        (3, "datasets"),
    ]
    current = re.findall(
        r'aria-current="page"[^>]*title="([^"]+)"', page_html(response).split('id="explorer"')[1]
    )
    assert current == [PROGRAM]


def test_a_namespace_shows_its_kinds_with_counts(browse):
    level = browse("ada").get("/explorer/inside?in=namespace:sales").context["level"]
    assert [(branch.of, branch.count) for branch in level.branches] == [
        ("artifact", 1),
        ("application", 1),
        ("dataset", 4),
    ]


def test_rows_link_to_their_entity_page_or_filtered_list(browse):
    client = browse("ada")
    text = page_html(client.get(f"/explorer?at={PROGRAM}")).split('id="explorer"')[1]
    urls = set(re.findall(r'href="(/entities/[^"]+)"', text))
    assert f"/entities/{PROGRAM}" in urls and "/entities/namespace:sales?kind=dataset" in urls
    assert {client.get(url).status_code for url in urls} == {200}


def test_long_levels_are_paged_in_order_without_gaps(browse, small_levels, streams):
    client, url, titles = browse("ada"), "/explorer/inside?in=namespace:sales&of=stream", []
    while url:
        level = client.get(url).context["level"]
        assert len(level.branches) <= 3
        titles += [branch.title for branch in level.branches]
        url = level.later_url
    assert titles == [f"s{n}" for n in range(8)]


def test_a_tree_opened_in_the_middle_of_a_long_level_pages_both_ways(browse, small_levels, streams):
    client = browse("ada")
    root = client.get("/explorer?at=stream:sales.s5").context["tree"].branches[0]
    sales = next(branch for branch in root.inside.branches[0].inside.branches if branch.title == "sales")
    level = next(branch for branch in sales.inside.branches if branch.of == "stream").inside
    assert [(branch.title, branch.is_current) for branch in level.branches] == [
        ("s4", False),
        ("s5", True),
        ("s6", False),
        ("s7", False),
    ]
    assert not level.later_url
    before = client.get(level.earlier_url).context["level"]
    assert [branch.title for branch in before.branches] == ["s1", "s2", "s3"] and not before.later_url
    assert titles_inside(client, before.earlier_url) == ["s0"]


def test_the_kind_filter_keeps_containers_that_can_contain_matches(browse):
    client = browse("ada")
    assert titles_inside(client, "/explorer/inside?in=namespace:sales&kind=program") == ["applications"]
    assert titles_inside(client, "/explorer/inside?in=namespace:sales&kind=dataset") == ["datasets"]
    assert tree_rows(client, "/explorer?kind=kerberosprincipal") == [(0, "cdap")]


def test_the_state_filter_keeps_containers_with_matches(browse):
    client = browse("ada")
    assert tree_rows(client, "/explorer?state=deleted") == [(0, "cdap"), (1, "namespaces"), (2, "sales")]
    level = client.get("/explorer/inside?in=namespace:sales&state=deleted").context["level"]
    assert [(branch.of, branch.count) for branch in level.branches] == [("dataset", 1)]
    assert titles_inside(client, level.branches[0].load_url) == ["legacy"]
    ensure_entities(states={parse_address("program:sales.shop.spark.old"): "deleted"})
    level = client.get("/explorer/inside?in=namespace:sales&state=deleted").context["level"]
    assert [(branch.of, branch.count) for branch in level.branches] == [("application", 1), ("dataset", 1)]
    assert titles_inside(client, "/explorer/inside?in=application:sales.shop&state=deleted") == ["spark.old"]


def test_ordinary_accounts_keep_containers_without_visible_matches(browse):
    assert tree_rows(browse("dee"), "/explorer?state=planned") == [
        (0, "cdap"),
        (1, "namespaces"),
        (2, "sales"),
    ]


def test_an_ordinary_account_gets_only_visible_entities(browse):
    assert tree_rows(browse("dee"), "/explorer?at=dataset:sales.orders") == [
        (0, "cdap"),
        (1, "namespaces"),
        (2, "sales"),
        (3, "datasets"),
        (4, "legacy"),
        (4, "orders"),
    ]
    assert browse("dee").get("/explorer/inside?in=namespace:sales").context["level"].branches[0].count == 2
    assert titles_inside(browse("dee"), "/explorer/inside?in=namespace:sales&of=artifact") == []
    assert "No visible entities" in page_html(browse("out").get("/explorer"))


def test_the_tree_is_the_same_for_accounts_with_few_and_many_grants(
    browse, monkeypatch, small_levels, streams
):
    change_grants(grant=[("user:dee", f"stream:sales.s{n}", "READ") for n in range(0, 8, 2)])
    urls = ("/explorer?at=stream:sales.s4", "/explorer", "/explorer?at=namespace:sales")
    few = [tree_rows(browse("dee"), url) for url in urls]
    for name in ("FEW_GRANTS", "FEW_GRANTS_INSIDE", "MANY_ROWS"):
        monkeypatch.setattr(f"grants.evaluation.visibility.{name}", 0)
    assert [tree_rows(browse("dee"), url) for url in urls] == few
    assert (4, "s2") in few[0] and (4, "s3") not in few[0]


def test_the_filter_is_added_to_the_url_only_on_the_explorer_page(browse, htmx):
    client = browse("ada")
    for current, is_pushed in (("/explorer?at=namespace:sales", True), ("/entities/namespace:sales", False)):
        headers = htmx("explorer") | {"HX-Current-URL": f"http://testserver{current}"}
        form = page_html(client.get("/explorer?kind=dataset", headers=headers)).split("</form>")[0]
        assert ('hx-push-url="true"' in form) is is_pushed


def test_htmx_gets_the_tree_or_the_detail_alone(browse, htmx):
    client = browse("ada")
    tree_html = page_html(client.get("/explorer?at=namespace:sales", headers=htmx("explorer")))
    assert tree_html.lstrip().startswith('<div id="explorer">') and "<html" not in tree_html
    detail = page_html(client.get("/entities/namespace:sales", headers=htmx("detail")))
    assert (
        detail.lstrip().startswith("<title>namespace:sales")
        and "<html" not in detail
        and 'id="explorer"' not in detail
    )


def test_an_invisible_instance_is_not_linked(cast, browse):
    client = browse("dee")
    assert client.get("/entities/instance:cdap").status_code == 404
    for url in ("/explorer", "/explorer/inside?in=instance:cdap", "/explorer?at=dataset:sales.orders"):
        assert 'href="/entities/instance:cdap' not in page_html(client.get(url))
    assert 'href="/entities/instance:cdap?kind=namespace"' in page_html(browse("ada").get("/explorer"))


def test_the_only_kind_in_a_tree_is_expanded(cast, browse):
    ensure_entities(states={parse_address("kerberosprincipal:etl/host@REALM"): "live"})
    assert tree_rows(browse("ada"), "/explorer?kind=kerberosprincipal") == [
        (0, "cdap"),
        (1, "kerberos principals"),
        (2, "etl/host@REALM"),
    ]


def test_a_text_opens_the_tree_at_the_best_match_that_the_account_sees(browse, cast):
    response = browse("ada").get("/explorer?find=salar&at=namespace:sales")
    assert str(response.context["at"]) == "dataset:hr.salaries" and (4, "salaries") in rows_of(
        response.context["tree"]
    )
    response = browse("dee").get("/explorer?find=salar")
    assert str(response.context["at"]) == "instance:cdap" and "salaries" not in page_html(response)
    assert "No entity that you can see matches “salar”." in page_html(response)
