"""What the user types is kept: dates, options that arrive while typing, filters, and forms sent before the
Back button or after the session ended.
"""

import pytest
from playwright.sync_api import expect

from authzconsole.models import AccountSession
from grants.models import JournalLine
from tests.support.changes import add_grant, add_member

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_a_typed_date_filters_when_the_field_is_left(page):
    page.goto("/journal/")
    page.locator("#lines-more > summary").click()
    page.locator("#lines-since").focus()
    page.keyboard.type("11162026", delay=60)
    page.wait_for_load_state("networkidle")
    assert "since" not in page.url
    expect(page.locator("#lines-since")).to_have_value("2026-11-16")
    with page.expect_response(lambda response: "since=2026-11-16" in response.url):
        page.locator("#lines-text").focus()
    page.wait_for_url("**/journal/?since=2026-11-16")


def test_a_date_that_is_set_right_after_another_filter_is_kept(page):
    page.goto("/journal/")
    page.locator("#lines-more > summary").click()
    page.locator("#lines-action").select_option("grant")
    page.locator("#lines-since").fill("2026-11-16")
    page.locator("#lines-since").blur()
    page.wait_for_url("**action=grant**since=2026-11-16**")
    expect(page.locator("#lines-since")).to_have_value("2026-11-16")


def test_an_error_of_a_grant_disappears_when_the_input_is_corrected(cast, page_of):
    page = page_of("ada")
    page.goto("/grant/dataset:sales.orders")
    page.get_by_label("Principal").fill("user:nobody")
    page.get_by_role("checkbox", name="READ").check()
    page.wait_for_load_state("networkidle")
    page.get_by_role("button", name="Grant").click()
    fault = page.get_by_role("main").get_by_role("alert")
    expect(fault).to_contain_text("user:nobody does not exist")
    page.get_by_label("Principal").fill("user:out")
    expect(fault).to_have_count(0)


def test_an_operation_that_is_typed_before_the_operations_arrive_is_selected(page):
    page.goto("/ask")
    page.route("**/ask?*", lambda route: (page.wait_for_timeout(300), route.continue_()))
    page.get_by_label("Entity", exact=True).fill("dataset:sales.orders")
    with page.expect_response(lambda response: "/ask?" in response.url):
        page.keyboard.press("Tab")
        page.get_by_label("Operation", exact=True).focus()
        page.keyboard.type("update")
    expect(page.get_by_label("Operation", exact=True)).to_have_value("update")


def test_a_period_is_kept_when_the_user_goes_back_to_the_form(cast, page_of):
    page = page_of("ada")
    page.goto("/people/like?source=grp&target=dee")
    page.get_by_label("Ends").select_option(label="In 3 months")
    page.get_by_role("button", name="Create plan").click()
    page.get_by_role("heading", name="Give user:dee access like user:grp").wait_for()
    page.go_back()
    expect(page.get_by_label("Ends").locator("option:checked")).to_have_text("In 3 months")
    page.goto("/people/like?source=grp&target=dee")
    expect(page.get_by_label("Ends").locator("option:checked")).not_to_have_text("In 3 months")


def test_a_reason_is_kept_when_the_session_ended_before_it_was_sent(cast, page_of):
    page = page_of("out", with_form=True)
    page.goto("/requests/new?entity=dataset:sales.orders&operation=read")
    page.get_by_label("Reason").fill("quarterly close")
    AccountSession.objects.all().delete()
    page.get_by_role("button", name="Send request").click()
    page.get_by_text("Your session ended.").wait_for()
    page.get_by_label("Name").fill("out")
    page.get_by_label("Password").fill("a long enough password")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_label("Reason")).to_have_value("quarterly close")
    page.get_by_role("button", name="Send request").click()
    page.get_by_text("The request waits for its approvers.").wait_for()
    page.goto("/requests/new?entity=dataset:sales.orders&operation=read")
    expect(page.get_by_label("Reason")).to_have_value("")
    assert JournalLine.objects.filter(action="request-create").count() == 1


def test_tab_accepts_the_only_suggestion_of_an_address_field(page):
    page.goto("/ask")
    field = page.get_by_label("Entity", exact=True)
    for text, value in (("customers", "dataset:sales.customers"), ("sales", "sales")):
        field.fill("")
        with page.expect_response(lambda response: "/search?" in response.url):
            page.keyboard.type(text)
        expect(page.locator("#entity-suggestions")).to_be_visible()
        page.keyboard.press("Tab")
        expect(field).to_have_value(value)
        expect(field).not_to_be_focused()
        field.focus()


def test_leaving_a_namespace_out_warns_at_once_while_a_group_still_reaches_it(cast, page_of):
    add_grant("group:operators", "dataset:sales.customers", "READ")
    page = page_of("ada")
    add_member("ned", "operators")
    page.goto("/people/like?source=ned&target=dee")
    warning = page.locator("[data-reach-warning]")
    box = page.locator("[data-check-box]")
    expect(warning).to_be_hidden()
    box.uncheck()
    expect(warning).to_contain_text("Still reached through group:operators")
    page.locator("[data-reaches]").uncheck()
    expect(warning).to_be_hidden()
    page.locator("[data-reaches]").check()
    expect(warning).to_be_visible()
    box.check()
    expect(warning).to_be_hidden()
