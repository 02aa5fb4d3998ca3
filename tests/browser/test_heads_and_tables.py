"""Page heads with a menu, tables as cards in narrow windows, and the first page of the explorer."""

import re

import pytest
from django.test import Client
from playwright.sync_api import expect

from tests.support.changes import add_grant, bearer

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.mark.parametrize("width", [360, 768, 1440])
def test_the_menu_of_a_page_head_fits_into_the_window_and_closes(width, cast, page_of):
    page = page_of("ada", width=width)
    page.goto("/people/user:dee")
    menu, items = page.locator(".head .actions-menu"), page.locator(".head .actions-menu-items")
    expect(page.locator("main .head-actions").first.locator("> .button")).to_have_count(1)
    expect(items).to_be_hidden()
    menu.locator("summary").click()
    expect(items.get_by_role("link", name="Off-board")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    box = items.bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= width
    page.keyboard.press("Escape")
    expect(items).to_be_hidden()
    expect(menu.locator("summary")).to_be_focused()
    menu.locator("summary").click()
    page.get_by_role("heading", level=1).click()
    expect(items).to_be_hidden()


@pytest.mark.parametrize("scripts", [True, False])
def test_the_account_menu_leads_to_the_settings(scripts, cast, page_of):
    page = page_of("dee", scripts=scripts)
    account = page.locator(".sidebar .account")
    expect(account.get_by_role("link", name="Sessions")).to_be_hidden()
    account.locator("summary").click()
    account.get_by_role("link", name="Time zone").click()
    expect(page).to_have_url(re.compile("/time-zone$"))


@pytest.mark.parametrize("url", ["/entities/dataset:sales.orders?tab=access", "/people/user:dee?tab=access"])
def test_the_paths_of_access_fit_in_a_narrow_window(cast, page_of, url):
    add_grant("user:dee", "dataset:sales.orders", "WRITE")
    page = page_of("ada", width=360)
    page.goto(url)
    cell = page.locator("td[data-label='Access and paths']").first
    expect(cell).to_be_visible()
    box = cell.bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 360


def test_rows_are_cards_with_the_names_of_their_columns_in_a_narrow_window(cast, page_of):
    page = page_of("ada", width=360)
    page.goto("/people/")
    row = page.get_by_role("row").filter(has_text="dee")
    cell = row.locator("td[data-label='Console role']")
    expect(cell).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    title, value = row.locator("th").bounding_box(), cell.bounding_box()
    assert value["y"] >= title["y"] + title["height"] and value["x"] == title["x"]
    # nothing is cut off: no cell is wider than the window or than its content needs
    assert page.locator(".stacked").first.evaluate("table => table.scrollWidth <= table.clientWidth")
    page.set_viewport_size({"width": 1440, "height": 900})
    assert row.locator("th").bounding_box()["y"] == pytest.approx(cell.bounding_box()["y"], abs=1)


def test_a_card_has_its_privileges_in_one_line_and_no_empty_columns(cast, page_of):
    page = page_of("ada", width=360)
    page.goto("/people/user:dee")
    expect(page.locator("#visibility .stacked")).to_be_visible()
    cells = page.locator("#visibility tbody tr").first.locator("td.privileges").all()
    boxes = [cell.bounding_box() for cell in cells]
    assert len({box["y"] for box in boxes}) == 1 and all(box["width"] < 40 for box in boxes)
    page.goto("/journal/")
    row = page.locator("#lines tbody tr").filter(has_text="Registered").first
    expect(row.locator("td[data-label=Action]")).to_be_visible()
    expect(row.locator("td[data-label='User or group']")).to_be_hidden()


def test_the_journal_fits_into_a_wide_window(cast, page_of):
    answer = Client().post(
        "/api/v1/groups",
        {"name": "readers"},
        content_type="application/json",
        headers=bearer("ada", "administer"),
    )
    assert answer.status_code == 201
    page = page_of("ada")
    page.goto("/journal/")
    expect(page.locator("#lines")).to_contain_text("token")
    assert page.locator("#lines .scroll").evaluate("block => block.scrollWidth <= block.clientWidth")


def test_without_scripts_a_wide_table_scrolls_in_its_block(cast, page_of):
    page = page_of("ada", scripts=False, width=360)
    page.goto("/people/")
    assert page.locator(".scroll").first.evaluate("block => block.scrollWidth > block.clientWidth")
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_the_explorer_opens_on_the_instance_for_accounts_that_see_it(cast, page_of):
    page = page_of("ada", width=1440)
    page.goto("/explorer")
    expect(page.get_by_role("heading", level=1).last).to_have_text("instance:cdap")
    page = page_of("dee", width=1440)
    page.goto("/explorer")
    expect(page.locator("#detail")).to_contain_text("No entity selected")
