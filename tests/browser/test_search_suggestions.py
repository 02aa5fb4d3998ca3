"""Search suggestions: with the keyboard, with the mouse, and at phone width."""

import re
from pathlib import Path

import axe_playwright_python
import pytest
from playwright.sync_api import expect

from tests.support.changes import add_grant

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text()


@pytest.fixture
def field_of(cast, page_of):
    """Return a function: field_of("ada") returns an entity page, its search field and its list of
    suggestions.
    """

    def open_page(name, **options):
        page = page_of(name, **options)
        page.goto("/entities/namespace:sales")
        return page, page.locator("#search"), page.locator("#search-suggestions")

    return open_page


def test_arrow_keys_select_a_result_and_enter_opens_it(field_of):
    page, field, suggestions = field_of("ada")
    page.keyboard.press("/")
    page.keyboard.type("orders")
    expect(suggestions.get_by_role("option")).to_have_count(2)
    expect(field).to_have_attribute("aria-expanded", "true")
    expect(field).to_have_attribute("aria-activedescendant", "search-suggestions-1")
    for _ in range(2):
        page.keyboard.press("ArrowDown")
    expect(field).to_have_attribute("aria-activedescendant", "search-suggestions-1")
    page.keyboard.press("ArrowUp")
    expect(suggestions.get_by_role("option", selected=True)).to_have_text("All results for “orders”")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/entities/dataset:sales.orders$"))


@pytest.mark.parametrize("key", ["/", "Control+k"])
def test_the_palette_starts_an_action_with_the_keyboard(key, field_of):
    page, field, suggestions = field_of("ada")
    page.keyboard.press(key)
    expect(suggestions.get_by_role("option", name="Off-board …")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    page.keyboard.type("off-board de")
    expect(suggestions.get_by_role("option", selected=True)).to_have_text("Off-board dee")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/people/leaving/user:dee$"))


def test_selecting_an_action_without_a_target_continues_the_text(field_of):
    page, field, suggestions = field_of("ada")
    page.keyboard.press("Control+k")
    suggestions.get_by_role("option", name="Grant on …").click()
    expect(field).to_have_value("grant ")
    expect(field).to_be_focused()
    page.keyboard.type("customers")
    expect(suggestions.get_by_role("option", selected=True)).to_have_text("Grant on dataset:sales.customers")


def test_escape_closes_the_palette_and_returns_the_focus(field_of):
    page, field, suggestions = field_of("ada")
    link = page.get_by_role("link", name="Plans").first
    link.focus()
    page.keyboard.press("Control+k")
    expect(suggestions).to_be_visible()
    page.keyboard.press("Escape")
    expect(suggestions).to_be_hidden()
    expect(link).to_be_focused()
    expect(page.locator(".search.palette")).to_have_count(0)


def test_enter_without_a_selected_result_opens_all_results(field_of):
    page, field, suggestions = field_of("ada")
    field.fill("sales")
    expect(suggestions).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.type(".")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/search\?q=sales\.$"))
    expect(page.get_by_role("link", name="dataset:sales.orders")).to_be_visible()


def test_escape_and_blur_close_the_list_without_moving_the_page(field_of):
    page, field, suggestions = field_of("ada")
    title = page.get_by_role("heading", level=1)
    before = title.bounding_box()
    field.fill("sales")
    expect(suggestions).to_be_visible()
    assert title.bounding_box() == before
    page.keyboard.press("Escape")
    expect(suggestions).to_be_hidden()
    expect(field).to_have_value("sales")
    page.keyboard.press("ArrowDown")
    expect(suggestions).to_be_visible()
    page.keyboard.press("Tab")
    expect(suggestions).to_be_hidden()
    field.fill("zzz")
    expect(suggestions).to_have_text("Nothing found for “zzz”")
    field.fill("")
    expect(suggestions).to_be_hidden()


@pytest.mark.parametrize("width", [390, 1280])
def test_a_click_opens_a_result_and_the_list_fits_into_the_window(width, field_of):
    page, field, suggestions = field_of("dee", width=width)
    field.fill("legacy")
    option = suggestions.get_by_role("option").first
    expect(option).to_contain_text("deleted")
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    if width == 390:
        assert suggestions.bounding_box()["width"] == field.bounding_box()["width"]
    option.click()
    expect(page).to_have_url(re.compile("/entities/dataset:sales.legacy$"))


def test_a_late_response_does_not_open_the_list_of_a_field_without_focus(field_of):
    page, field, suggestions = field_of("ada")
    with page.expect_response(re.compile("/search")):
        field.fill("sales")
        page.keyboard.press("Tab")
    expect(page.locator(".htmx-request")).to_have_count(0)
    expect(suggestions).to_be_hidden()


def test_the_question_form_accepts_the_selected_result(page):
    page.goto("/ask")
    field, suggestions = page.get_by_label("Entity", exact=True), page.locator("#entity-suggestions")
    page.get_by_label("User or group").fill("user:dee")
    field.fill("order")
    expect(suggestions.get_by_role("option")).to_have_count(1)
    suggestions.get_by_role("option").click()
    expect(field).to_have_value("dataset:sales.orders")
    expect(field).to_be_focused()
    expect(suggestions).to_be_hidden()
    field.fill("custom")
    expect(suggestions.get_by_role("option")).to_have_count(1)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(field).to_have_value("dataset:sales.customers")
    page.keyboard.press("Enter")
    expect(page.locator("#operation-answers-title")).to_contain_text("dataset:sales.customers")
    expect(page).to_have_url(
        re.compile(r"/ask\?subject=user(:|%3A)dee&.*entity=dataset(:|%3A)sales.customers")
    )


def test_selecting_a_context_address_asks_the_question_immediately(page):
    page.goto("/entities/application:sales.shop?subject=user:dee&operation=deploy")
    page.get_by_label("Artifact (optional)").fill("etl")
    suggestions = page.locator("#ask-artifact-suggestions")
    expect(suggestions.get_by_role("option")).to_have_text("artifact:sales.etl-1.0")
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("artifact=artifact(:|%3A)sales.etl-1.0"))
    expect(page.get_by_label("Artifact (optional)")).to_have_value("artifact:sales.etl-1.0")


@pytest.mark.parametrize("text", ["sales", "zzz"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_open_list_has_no_serious_accessibility_violation(text, scheme, field_of):
    page, field, suggestions = field_of("ada")
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    field.fill(text)
    expect(suggestions).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.evaluate(AXE)
    faults = page.evaluate("""() => axe.run(".topbar", {resultTypes: ["violations"]}).then(result => result.violations.map(
        fault => [fault.impact, fault.id, ...fault.nodes.map(node => node.target.join(" ") + ": " + node.failureSummary)]))""")
    assert [fault for fault in faults if fault[0] in ("serious", "critical")] == []


def test_a_field_for_principals_suggests_names_and_the_operations_follow_the_entity(page):
    page.goto("/ask")
    subject, operation = page.get_by_label("User or group"), page.get_by_label("Operation", exact=True)
    subject.fill("oper")
    suggestions = page.locator("#subject-suggestions")
    expect(suggestions.get_by_role("option")).to_have_text("group:operators")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(subject).to_have_value("group:operators")
    expect(suggestions).to_be_hidden()
    subject.fill("operat")
    expect(suggestions.get_by_role("option")).to_have_count(1)
    # Enter takes the only suggestion and does not send the form
    page.keyboard.press("Enter")
    expect(subject).to_have_value("group:operators")
    expect(page).not_to_have_url(re.compile("subject="))
    subject.fill("nobody.at.all")
    expect(suggestions).to_have_text("No name contains “nobody.at.all”")
    with page.expect_response(re.compile("/suggest/principals")):
        subject.fill("user:dee")
    expect(page.locator(".htmx-request")).to_have_count(0)
    expect(suggestions).to_be_hidden()
    expect(operation.locator("option", has_text="truncate")).to_have_count(0)
    page.get_by_label("Entity", exact=True).fill("dataset:sales.orders")
    page.keyboard.press("Tab")
    operation.select_option("truncate")
    page.get_by_role("button", name="Ask").click()
    expect(page.locator("#answer")).to_contain_text("truncate on dataset:sales.orders")
    expect(page).to_have_url(re.compile("operation=truncate"))


def test_a_click_on_a_candidate_adds_its_name_to_the_field(cast, page_of):
    add_grant("user:out", "namespace:sales", "ADMIN")
    page = page_of("ada")
    page.goto("/people/leaving/user:ned")
    field = page.locator("#stranded-to")
    candidate = page.locator("button[data-fills=stranded-to]", has_text="user:out")
    candidate.click()
    expect(field).to_have_value("user:out")
    expect(field).to_be_focused()
    field.fill("user:dee, ")
    candidate.click()
    candidate.click()
    expect(field).to_have_value("user:dee, user:out")
