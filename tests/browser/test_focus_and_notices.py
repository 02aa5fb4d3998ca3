"""Keyboard use: which element has the focus after each htmx update, and notices are visible in the window."""

import re

import pytest
from playwright.sync_api import expect

from entities.address import parse_address
from entities.services import ensure_entities
from tests.support.cast import SETUP
from tests.support.changes import change_grants

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

ORDERS = "/entities/dataset:sales.orders"


def press_key(page, element, key="Enter"):
    element.focus()
    page.keyboard.press(key)


def is_in_window(notices) -> bool:
    box, height = notices.bounding_box(), notices.page.viewport_size["height"]
    return box is not None and box["y"] >= 0 and box["y"] + box["height"] <= height


def test_the_button_keeps_the_focus_after_a_question(page):
    page.goto(f"{ORDERS}?subject=user:dee")
    with page.expect_response(lambda response: "operation=" in response.url or "generation" in response.url):
        press_key(page, page.locator("#ask").get_by_role("button", name="Ask"))
    expect(page.locator("#ask").get_by_role("button", name="Ask")).to_be_focused()


def test_a_decision_is_announced_and_updates_the_page_title(page):
    page.goto("/ask")
    page.get_by_label("User or group").fill("user:dee")
    page.get_by_label("Entity", exact=True).fill("dataset:sales.orders")
    page.keyboard.press("Tab")
    page.get_by_label("Operation", exact=True).select_option("read")
    press_key(page, page.get_by_role("button", name="Ask"))
    expect(page.locator("#announce")).to_have_text("Permitted: user:dee holds READ on dataset:sales.orders.")
    expect(page).to_have_title("May user:dee read dataset:sales.orders? · Authorization console")


def test_an_error_is_announced_linked_to_its_field_and_keeps_the_focused_field_visible(page):
    page.set_viewport_size({"width": 1280, "height": 420})
    page.goto(ORDERS)
    page.locator("#grant-form-principal").fill("user:stranger")
    # leaving the field closes its suggestions, which would cover the privileges
    page.locator("#grant-form-principal").blur()
    # Enter does nothing before the effect of these values is shown
    with page.expect_response(
        lambda response: "/grant/" in response.url and "privilege=READ" in response.url
    ):
        page.locator("#grant-form").get_by_label("READ").check()
    expect(page.locator("#grant-form").get_by_role("button", name="Grant", exact=True)).to_be_enabled()
    reason = page.locator("#grant-form-reason")
    reason.evaluate("field => { field.scrollIntoView({ block: 'end' }); scrollBy(0, 8); }")
    press_key(page, reason)
    expect(page.locator("#grant-form").get_by_role("alert")).to_contain_text("user:stranger does not exist")
    principal = page.locator("#grant-form-principal")
    expect(principal).to_have_attribute("aria-invalid", "true")
    expect(principal).to_have_accessible_description(re.compile("user:stranger does not exist"))
    expect(reason).to_be_focused()
    expect(reason).to_be_in_viewport(ratio=0.9)


def test_a_dialog_is_named_by_its_heading(page):
    page.goto(ORDERS)
    press_key(page, page.locator("#holders").get_by_role("link", name="Revoke ADMIN from user:ned"))
    expect(page.get_by_role("dialog", name="Revoke ADMIN")).to_be_visible()
    page.keyboard.press("Escape")
    page.goto("/accounts/user:ned")
    press_key(page, page.locator("#change-activity"))
    expect(page.get_by_role("dialog", name="Deactivate user:ned")).to_be_visible()


def test_the_heading_of_a_list_is_focused_after_its_last_page(page):
    ensure_entities(states={parse_address(f"dataset:sales.more_{number}"): "live" for number in range(30)})
    page.goto("/entities/namespace:sales")
    press_key(page, page.locator("#children-next"))
    expect(page.locator("#children-previous")).to_be_visible()
    expect(page.locator("#children-title")).to_be_focused()
    press_key(page, page.locator("#children-previous"))
    expect(page.locator("#children-next")).to_be_visible()
    expect(page.locator("#children-title")).to_be_focused()


def test_opening_a_branch_of_the_visible_entities_focuses_its_heading(page):
    page.goto("/people/user:ned")
    press_key(page, page.locator("#visibility").get_by_role("link", name="Open namespace:sales"))
    expect(page.locator("#visibility .breadcrumbs")).to_contain_text("sales")
    expect(page.locator("#visibility-title")).to_be_focused()


def test_a_grant_far_down_a_page_shows_its_notice_in_the_window_and_keeps_the_focus(page):
    change_grants(
        author=SETUP,
        grant=[
            (f"user:{name}", parse_address("dataset:sales.orders"), "WRITE") for name in ("out", "grp", "ina")
        ],
    )
    page.set_viewport_size({"width": 1280, "height": 420})
    page.goto(ORDERS)
    page.locator("#grant-form-principal").fill("user:out")
    page.locator("#grant-form").get_by_label("READ").check()
    expect(page.locator("#grant-form-send")).to_contain_text("gained")
    press_key(page, page.locator("#grant-form-send"))
    notices = page.locator("#notices")
    expect(notices).to_contain_text("Granted READ on dataset:sales.orders to user:out.")
    assert is_in_window(notices)
    expect(page.locator("#holders").get_by_role("link", name="Revoke READ from user:out")).to_be_visible()
    button = page.locator("#grant-form-send")
    expect(button).to_be_focused()
    over, focused = notices.bounding_box(), button.bounding_box()
    assert focused["y"] + focused["height"] <= over["y"] or focused["x"] + focused["width"] <= over["x"]
    press_key(page, notices.get_by_role("button", name="Close this notice"))
    expect(notices.locator(".notice")).to_have_count(0)
    expect(button).to_be_focused()
    page.locator("#tab-history").click()
    expect(page.locator("#history .change").first).to_contain_text("Granted READ user out")


def test_a_revocation_dialog_names_stranded_entities_and_returns_to_its_section(page):
    page.goto(ORDERS)
    press_key(page, page.locator("#holders").get_by_role("link", name="Revoke ADMIN from user:ned"))
    dialog = page.locator("#dialog")
    expect(dialog).to_contain_text("would have no ADMIN holder")
    press_key(page, dialog.get_by_label("Reason", exact=True))
    expect(page.locator("#notices")).to_contain_text("Revoked ADMIN on dataset:sales.orders from user:ned.")
    expect(
        page.locator("#holders").get_by_role("link", name=re.compile("Revoke ADMIN from user:ned"))
    ).to_have_count(0)
    expect(page.locator("#holders-title")).to_be_focused()
    page.locator("#tab-history").click()
    expect(page.locator("#history .change").first).to_contain_text("Revoked ADMIN user ned")


@pytest.mark.parametrize("verb", ["grant", "revoke"])
def test_a_change_on_a_separate_page_returns_to_the_entity_page(verb, page):
    page.goto(
        f"/{verb}/dataset:sales.orders?principal=user:dee&privilege={'READ' if verb == 'revoke' else 'WRITE'}"
    )
    expect(page.locator("#content button.main")).to_be_enabled()
    press_key(page, page.get_by_label("Reason", exact=True))
    page.wait_for_url(f"**{ORDERS}?tab=access")
    expect(page.locator("#notices")).to_contain_text("user:dee")
    assert is_in_window(page.locator("#notices"))


def test_a_deactivation_is_confirmed_in_a_dialog_with_a_reason(page):
    page.goto("/accounts/user:ned")
    press_key(page, page.locator("#change-activity"))
    dialog = page.locator("#dialog")
    expect(dialog).to_contain_text("6 entities would have fewer than two ADMIN holders: 6 with none.")
    page.keyboard.press("Escape")
    expect(page.locator("#change-activity")).to_be_focused()
    press_key(page, page.locator("#change-activity"))
    dialog.get_by_label("Reason", exact=True).fill("left the company")
    expect(dialog.get_by_role("button", name="Deactivate account")).to_be_enabled()
    press_key(page, dialog.get_by_role("button", name="Deactivate account"))
    expect(page.locator("#notices")).to_contain_text("user:ned is inactive now.")


def test_the_plan_button_is_disabled_without_a_selection_and_shows_its_count(page):
    page.goto("/entities/namespace:sales")
    button = page.locator("#children-plan")
    expect(button).to_be_disabled()
    page.get_by_label("Select dataset:sales.orders").check()
    expect(button).to_have_text("Plan for 1 selected")
    press_key(page, page.get_by_role("button", name="Select all on this page"))
    expect(button).to_have_text("Plan for 4 selected")
    expect(button).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Plan for 4 selected")
    page.go_back()
    expect(page.locator("#children-plan")).to_be_visible()
