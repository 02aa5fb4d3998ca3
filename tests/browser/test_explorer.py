"""The explorer in a browser: open the tree by mouse and keyboard, with details next to it or on a separate
page on a phone.
"""

import re

import pytest
from playwright.sync_api import expect

from authzconsole.web.explorer import page as explorer_tree
from entities.address import parse_address
from entities.services import ensure_entities

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

SALES = "/entities/namespace:sales"


def tree_item(page, name):
    return page.get_by_role("treeitem", name=name)


def focused_name(page) -> str:
    """Return the name of the focused node of the tree."""
    return page.evaluate("document.activeElement.querySelector('.branch-name')?.textContent ?? ''")


def test_clicking_a_tree_node_opens_its_entity_and_back_returns_to_the_previous_one(page):
    page.goto("/entities/namespace:hr")
    expect(tree_item(page, "hr")).to_have_attribute("aria-current", "page")
    tree_item(page, "sales").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("namespace:sales")
    expect(page).to_have_url(re.compile(f"{SALES}$"))
    expect(page).to_have_title("namespace:sales · Authorization console")
    expect(tree_item(page, "sales")).to_have_attribute("aria-current", "page")
    expect(tree_item(page, "hr")).not_to_have_attribute("aria-current", "page")
    tree_item(page, "applications 1").locator(".branch-toggle").click()
    expect(tree_item(page, "shop")).to_be_visible()
    expect(page).to_have_url(re.compile(f"{SALES}$"))
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_have_text("namespace:hr")


def test_the_tree_can_be_navigated_with_the_keyboard(page):
    page.goto(SALES)
    tree_item(page, "sales").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert focused_name(page) == "applications"
    page.keyboard.press("ArrowRight")
    expect(tree_item(page, "shop")).to_be_visible()
    page.keyboard.press("ArrowRight")
    assert focused_name(page) == "shop"
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("application:sales.shop")
    expect(page.locator("#announce")).to_have_text("application:sales.shop")
    assert focused_name(page) == "shop"
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert focused_name(page) == "applications"
    page.keyboard.press("ArrowLeft")
    expect(tree_item(page, "shop")).to_be_hidden()
    page.keyboard.press("End")
    assert focused_name(page) == "datasets"
    page.keyboard.press("h")
    assert focused_name(page) == "hr"
    page.keyboard.press("Home")
    assert focused_name(page) == "cdap"


def test_further_nodes_replace_the_show_more_line(cast, page_of, monkeypatch):
    monkeypatch.setattr(explorer_tree, "MAX_ROWS", 3)
    ensure_entities(states={parse_address(f"stream:sales.s{n}"): "live" for n in range(8)})
    page = page_of("ada")
    page.goto(SALES)
    tree_item(page, "streams 8").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("treeitem", name="More")).to_be_visible()
    for _ in range(4):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(tree_item(page, "s5")).to_be_visible()
    expect(page.locator(":focus .branch-name")).to_have_text("s3")


def test_filtering_the_tree_by_state_keeps_the_open_entity(page):
    page.goto(SALES)
    tree_item(page, "datasets 4").locator(".branch-toggle").click()
    tree_item(page, "legacy").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("legacy")
    page.locator("#explorer-more > summary").click()
    page.locator("#explorer-state").select_option("deleted")
    expect(tree_item(page, "datasets 1")).to_be_visible()
    expect(tree_item(page, "legacy")).to_have_attribute("aria-current", "page")
    expect(tree_item(page, "orders")).to_have_count(0)


def test_on_a_phone_the_tree_is_folded_on_every_page(cast, page_of):
    page = page_of("ada", width=390)
    page.goto(SALES)
    toggle = page.get_by_role("button", name="Tree")
    expect(toggle).to_have_attribute("aria-expanded", "false")
    expect(page.locator("#explorer [role=tree]")).to_have_count(0)
    toggle.click()
    expect(toggle).to_have_attribute("aria-expanded", "true")
    expect(tree_item(page, "sales")).to_have_attribute("aria-current", "page")
    tree_item(page, "hr").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("namespace:hr")
    expect(page.locator("#tree-pane")).to_be_hidden()


def test_a_folded_tree_stays_folded_on_other_pages(page):
    page.goto(SALES)
    toggle, pane = page.get_by_role("button", name="Tree"), page.locator("#tree-pane")
    expect(pane).to_be_visible()
    toggle.click()
    expect(pane).to_be_hidden()
    page.goto("/entities/namespace:hr")
    expect(pane).to_be_hidden()
    expect(toggle).to_have_attribute("aria-expanded", "false")
    toggle.click()
    page.reload()
    expect(tree_item(page, "hr")).to_be_visible()


def test_tabs_have_urls_that_back_and_the_keyboard_reach(page):
    page.goto(f"{SALES}?kind=dataset")
    page.locator("#tab-access").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#holders")).to_be_visible()
    expect(page).to_have_url(re.compile(f"{SALES}.kind=dataset&tab=access$"))
    expect(page.locator("#tab-access")).to_be_focused()
    expect(page.locator("#tab-access")).to_have_attribute("aria-current", "page")
    page.locator("#tab-history").click()
    expect(page.locator("#history")).to_be_visible()
    page.go_back()
    expect(page.locator("#holders")).to_be_visible()
    expect(page.locator("#tab-access")).to_have_attribute("aria-current", "page")
    page.wait_for_load_state("networkidle")
    page.go_back()
    expect(page.locator("#children tbody tr")).to_have_count(4)


def test_without_scripts_the_tree_is_filtered_by_a_button_and_links_to_pages(cast, page_of):
    page = page_of("ada", scripts=False)
    page.goto("/explorer?at=namespace:sales")
    page.locator("#explorer-kind").select_option("dataset")
    page.get_by_role("button", name="Apply").click()
    expect(tree_item(page, "datasets 4")).to_be_visible()
    tree_item(page, "datasets 4").click()
    expect(page.locator("#children tbody tr")).to_have_count(4)
