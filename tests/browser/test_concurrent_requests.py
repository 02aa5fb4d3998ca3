"""Double clicks, late or failed responses, and the URL after steps in several sections of a page."""

import time

import pytest
from playwright.sync_api import expect

from grants.models import Plan

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

ORDERS = "/entities/dataset:sales.orders"


def test_a_form_submitted_twice_creates_one_plan(page):
    page.goto("/plans/")
    form = page.locator("form[action='/plans/copy']")
    form.locator("[name=source]").fill("user:ned")
    form.locator("[name=target]").fill("user:out")
    # both before a response arrives
    form.evaluate("form => { form.requestSubmit(); setTimeout(() => form.requestSubmit(), 1); }")
    page.wait_for_url("**/plans/*/")
    time.sleep(0.3)
    assert Plan.objects.count() == 1


def test_a_second_submit_is_blocked_until_the_page_is_shown_again(page):
    page.goto("/plans/")
    submit_three_times = """() => {
      const form = document.querySelector("form[action='/plans/copy']");
      const submit = () => form.dispatchEvent(new SubmitEvent("submit", {bubbles: true, cancelable: true}));
      const first = submit(), second = submit();
      dispatchEvent(new PageTransitionEvent("pageshow"));
      return [first, second, submit()];
    }"""
    assert page.evaluate(submit_three_times) == [True, False, True]


def test_each_section_keeps_the_query_of_the_other_sections_in_the_url(page):
    page.goto("/entities/namespace:sales")
    page.locator("#children .chips a[href*='kind=dataset']").click()
    page.wait_for_url("**/namespace:sales?kind=dataset")
    page.locator("#tab-ask").click()
    page.locator("#ask-subject").fill("user:dee")
    page.locator("#ask-operation").select_option("delete")
    page.wait_for_url(lambda url: "operation=delete" in url)
    assert "kind=dataset" in page.url and "subject=user:dee" in page.url
    page.locator("#tab-inside").click()
    expect(page.locator("#children .chips [aria-current]")).to_contain_text("datasets")
    page.locator("#children .chips a").first.click()
    page.wait_for_url(lambda url: "kind=" not in url)
    assert "subject=user:dee" in page.url and "operation=delete" in page.url
    page.locator("#tab-ask").click()
    expect(page.locator("#answer")).to_contain_text("user:dee")
    page.reload()
    expect(page.locator("#answer")).to_contain_text("user:dee")


def test_the_filter_of_the_overview_keeps_the_colour_of_the_chart(page):
    page.goto("/")
    page.get_by_role("link", name="Who sees it").click()
    page.wait_for_url("**/?colour=exposure")
    page.locator("#find").press_sequentially("sa")
    page.wait_for_url("**/?colour=exposure&find=sa")
    expect(page.get_by_role("heading", name="Namespaces", exact=True)).to_be_visible()
    page.get_by_role("link", name="Who can delete it").click()
    page.wait_for_url("**/?find=sa")


def test_a_dialog_keeps_its_input_and_shows_an_error_if_the_request_fails(page):
    page.goto(ORDERS)
    page.locator("#holders [hx-target='#dialog']").first.click()
    page.locator("dialog [name=reason]").fill("no longer needed")
    expect(page.locator("dialog button.main")).to_be_enabled()
    page.route("**/revoke/**", lambda route: route.abort())
    page.route("**/grant/**", lambda route: route.abort())
    page.locator("dialog button.main").click()
    expect(page.locator("dialog [role=alert]")).to_contain_text("The console did not respond.")
    assert page.locator("dialog [name=reason]").input_value() == "no longer needed"


def test_a_dialog_opened_before_another_sign_in_reports_an_expired_form(page):
    page.goto(ORDERS)
    page.locator("#holders [hx-target='#dialog']").first.click()
    page.locator("dialog [name=csrfmiddlewaretoken]").evaluate("field => { field.value = 'x'; }")
    page.locator("dialog button.main").click()
    expect(page.locator("dialog [role=alert]")).to_contain_text("This form was opened before you signed in")


def test_a_branch_and_a_page_that_fail_to_load_can_be_retried(page):
    page.goto("/entities/namespace:sales")
    collapsed = page.locator("#explorer [role=treeitem][aria-expanded=false]").first
    expect(collapsed).to_be_visible()
    href = collapsed.get_attribute("href")
    page.route("**/explorer/inside**", lambda route: route.abort())
    page.route("**/entities/**", lambda route: route.abort())
    branch = page.locator(f"#explorer [role=treeitem][href='{href}']")
    branch.locator(".branch-toggle").click()
    expect(page.locator("#notices")).to_contain_text("The console did not respond.")
    expect(branch).to_have_attribute("aria-expanded", "false")
    assert branch.get_attribute("aria-busy") is None
    current = page.locator("#explorer [aria-current]").get_attribute("href")
    branch.locator(".branch-name").click()
    expect(page.locator(f"#explorer [role=treeitem][href='{current}']")).to_have_attribute(
        "aria-current", "page"
    )
