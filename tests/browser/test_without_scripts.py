"""Pages without scripts, with the keyboard, and at phone width."""

import re

import pytest
from playwright.sync_api import expect

from entities.address import MAX_KEY_LENGTH, parse_address
from entities.services import ensure_entities
from grants.principal_names import MAX_NAME_CHARACTERS
from grants.principals.services import add_user
from tests.support.cast import SETUP
from tests.support.changes import change_grants

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_asking_granting_revoking_and_deleting_work_without_scripts(cast, page_of):
    page = page_of("ada", scripts=False)
    page.goto("/entities/dataset:sales.orders")
    page.locator("#tab-ask").click()
    page.get_by_label("User or group").fill("user:out")
    page.get_by_label("Operation", exact=True).select_option("read")
    page.get_by_role("button", name="Ask").click()
    expect(page.locator("#ask .decision")).to_have_text(
        "Denied: user:out lacks READ on dataset:sales.orders."
    )
    page.get_by_role("link", name="Grant READ on dataset:sales.orders").click()
    expect(page.get_by_label("Principal")).to_have_value("user:out")
    expect(page.get_by_role("button", name="Grant", exact=True)).to_be_disabled()
    page.get_by_role("button", name="Show effect").click()
    expect(page.get_by_text("come with the grants)")).to_be_visible()
    page.get_by_role("button", name="Grant: 11 permissions gained").click()
    expect(page.locator("#notices")).to_contain_text("Granted READ on dataset:sales.orders to user:out.")
    page.get_by_role("link", name="Revoke READ from user:out").click()
    page.get_by_role("button", name="Show effect").click()
    page.get_by_role("button", name="Revoke READ").click()
    expect(page.locator("#notices")).to_contain_text("Revoked READ on dataset:sales.orders from user:out.")
    page.get_by_text("More", exact=True).click()
    page.get_by_role("link", name="Delete dataset").click()
    expect(page.get_by_role("button", name="Delete dataset")).to_be_disabled()
    page.get_by_role("button", name="Show effect").click()
    page.get_by_role("button", name="Delete dataset").click()
    expect(page.locator("#notices")).to_contain_text("dataset:sales.orders was deleted")
    expect(page.locator(".notice.warning")).to_contain_text("leftover grant")


def test_plans_for_selected_entities_and_from_pasted_changes_work_without_scripts(cast, page_of):
    page = page_of("ada", scripts=False)
    page.goto("/entities/namespace:sales")
    page.get_by_label("Select dataset:sales.orders").check()
    page.get_by_label("Select dataset:sales.customers").check()
    expect(page.get_by_label("Select dataset:sales.legacy")).to_be_disabled()
    page.get_by_role("button", name=re.compile("^Plan for .*selected$")).click()
    page.get_by_label("Revoke").check()
    page.get_by_label("ADMIN").check()
    page.get_by_label("Principal", exact=True).fill("user:ned")
    page.get_by_label("dataset:sales.customers").uncheck()
    page.get_by_role("button", name="Create plan").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(
        "Revoke ADMIN from user:ned on 1 selected entity"
    )
    expect(page.locator("#items tbody tr")).to_have_count(1)
    page.goto("/plans/import")
    page.get_by_label("Or paste the changes").fill(
        "verb,principal,entity,privilege\ngive,user:out,dataset:sales.orders,READ\n"
    )
    page.get_by_role("button", name="Create plan").click()
    expect(page.get_by_role("heading", name="1 line to correct")).to_be_visible()
    field = page.get_by_label("Or paste the changes")
    field.fill(field.input_value().replace("give", "grant"))
    page.get_by_role("button", name="Create plan").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Grant 1 from pasted text")


@pytest.mark.parametrize("scripts", [False, True])
def test_a_selection_is_kept_on_the_next_page(cast, scripts, page_of):
    ensure_entities(states={parse_address(f"stream:sales.s{number:03}"): "live" for number in range(60)})
    page = page_of("ada", scripts=scripts)
    page.goto("/entities/namespace:sales?subject=user:dee&tab=inside")
    children = page.locator("#children")
    children.get_by_label("Select dataset:sales.orders").check()
    children.get_by_label("Select dataset:sales.customers").check()
    children.get_by_role("button", name="Next").click()
    expect(children).to_contain_text("2 selected on other pages")
    children.get_by_label("Select stream:sales.s030").check()
    children.get_by_role("button", name="Previous").click()
    expect(children.get_by_label("Select dataset:sales.orders")).to_be_checked()
    expect(children).to_contain_text("1 selected on other pages")
    children.get_by_label("Select dataset:sales.orders").uncheck()
    if scripts:
        children.locator("#children-more > summary").click()
    children.get_by_label("State").select_option("live")
    if not scripts:
        children.get_by_role("button", name="Apply").click()
    expect(page).to_have_url(re.compile("state=live"))
    expect(children.get_by_label("Select dataset:sales.customers")).to_be_checked()
    expect(children.get_by_label("Select dataset:sales.orders")).not_to_be_checked()
    if scripts:
        children.get_by_role("link", name="artifacts").click()
        expect(children.locator("tbody tr")).to_have_count(1)
        children.get_by_role("link", name="Clear", exact=True).click()
        expect(children).to_contain_text("1 selected on other pages")
    expect(page).to_have_url(re.compile("subject=user(:|%3A)dee"))
    children.get_by_role("button", name=re.compile("^Plan for .*selected$")).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Plan for 2 selected")
    expect(page.get_by_label("dataset:sales.customers")).to_be_checked()
    expect(page.get_by_label("stream:sales.s030")).to_be_checked()


def test_a_late_response_does_not_replace_a_newer_one(page):
    page.goto("/entities/namespace:sales")
    children, routes = page.locator("#children"), []
    page.route(lambda url: "state=live" in url and "kind=" not in url, lambda route: routes.append(route))
    children.locator("#children-more > summary").click()
    children.get_by_label("State").select_option("live")
    children.get_by_role("link", name="artifacts").click()
    expect(children.locator("tbody tr")).to_have_count(1)
    assert len(routes) == 1
    routes[0].continue_()
    page.wait_for_load_state("networkidle")
    expect(children.locator("tbody tr")).to_have_count(1)
    expect(page).to_have_url(re.compile("kind=artifact"))


def test_back_returns_to_the_previous_content(page):
    page.goto("/entities/namespace:sales")
    page.locator("#children").get_by_role("link", name="datasets").click()
    expect(page.locator("#children tbody tr")).to_have_count(4)
    page.go_back()
    expect(page.locator("#children tbody tr")).to_have_count(6)
    expect(page.get_by_role("heading", level=1)).to_have_count(1)


def test_asking_the_same_question_twice_adds_one_history_entry(page):
    page.goto("/entities/dataset:sales.orders?subject=user:dee")
    page.get_by_label("Operation", exact=True).select_option("read")
    expect(page.locator("#ask .decision")).to_contain_text("Permitted: user:dee holds READ")
    for _ in range(2):
        with page.expect_response(lambda response: "operation=read" in response.url):
            page.get_by_role("button", name="Ask").click()
        # not by polling with a script text: the content security policy forbids evaluating text
        expect(page.locator(".htmx-request")).to_have_count(0)
    page.go_back()
    expect(page.locator("#operation-answers")).to_contain_text("operations are permitted")
    expect(page.locator("#ask .decision")).to_have_count(0)
    page.go_forward()
    expect(page.locator("#ask .decision")).to_contain_text("Permitted: user:dee holds READ")


@pytest.mark.parametrize("width", [390, 1280])
def test_no_page_with_the_longest_names_is_wider_than_its_window(cast, width, page_of):
    namespace, user, other = "N" * 100, "p" * MAX_NAME_CHARACTERS, "q" * MAX_NAME_CHARACTERS
    dataset = f"dataset:{namespace}.{'d' * (MAX_KEY_LENGTH - 101)}"
    ensure_entities(states={parse_address(f"namespace:{namespace}"): "live", parse_address(dataset): "live"})
    for name in (user, other):
        add_user(author=SETUP, name=name)
    change_grants(author=SETUP, grant=[(f"user:{user}", parse_address(dataset), "ADMIN")])
    page = page_of("ada", width=width)
    for url in (
        f"/entities/{dataset}",
        f"/people/compare?one={user}&other={other}",
        f"/people/leaving/user:{user}",
        f"/forecast/namespace:{namespace}?deleter={other}",
        f"/plans/many?within=namespace:{namespace}",
        f"/lifecycle/delete/namespace:{namespace}",
        f"/people/user:{user}?in=namespace:{namespace}",
    ):
        page.goto(url)
        assert page.evaluate(
            "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        ), url


def test_the_navigation_unfolds_at_phone_width(cast, page_of):
    page = page_of("ada", width=390)
    expect(page.get_by_role("link", name="Analyses")).to_be_hidden()
    page.get_by_text("Menu", exact=True).click()
    page.get_by_role("link", name="Analyses").click()
    expect(page.get_by_role("heading", name="Analyses")).to_be_visible()


def test_memberships_and_impersonation_work_without_scripts(cast, page_of):
    page = page_of("ada", scripts=False)
    page.goto("/people/group:operators")
    page.get_by_label("User", exact=True).fill("dee")
    page.get_by_role("button", name="Add to group").click()
    expect(page.get_by_text("Gives ")).to_be_visible()
    page.get_by_role("button", name="Add to group:").click()
    expect(page.locator("#notices")).to_contain_text("user:dee is in group:operators now.")
    page.get_by_role("link", name="Remove dee").click()
    page.get_by_role("button", name="Show effect").click()
    page.get_by_role("button", name="Remove from group").click()
    expect(page.locator("#notices")).to_contain_text("user:dee is no longer in group:operators.")
    page.goto("/people/user:dee")
    page.get_by_role("link", name="Open namespace:sales").click()
    expect(page.locator("#visibility tbody tr")).to_have_count(2)
    page.get_by_text("More", exact=True).click()
    page.get_by_role("button", name="See as this user").click()
    expect(page.locator(".impersonation")).to_contain_text("You see the console as user:dee")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#notices")).to_contain_text("as yourself again")


def test_the_visibility_tree_opens_in_place_and_back_closes_it(page):
    page.goto("/people/user:dee")
    page.get_by_role("link", name="Open namespace:sales").click()
    expect(page.locator("#visibility tbody tr")).to_have_count(2)
    page.go_back()
    expect(page.locator("#visibility tbody tr")).to_have_count(1)
    page.goto("/people/user:grp")
    page.get_by_role("link", name="Grants of operators").click()
    expect(page.locator("#grants-title")).to_have_text("Grants of group:operators")
    page.get_by_role("link", name="Remove from operators").click()
    expect(page.get_by_role("dialog").get_by_label("Reason", exact=True)).to_be_focused()
    page.goto("/entities/dataset:sales.orders?subject=user:dee")
    page.locator("#operation-answers").get_by_role("link", name="write").click()
    expect(page.locator("#ask .decision")).to_contain_text("Denied: user:dee lacks WRITE")
    page.get_by_role("button", name="Plan all missing grants").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Let user:dee write dataset:sales.orders")


def test_without_scripts_all_journal_filters_are_shown_at_every_width(cast, page_of):
    for width in (360, 768, 1440):
        page = page_of("aud", scripts=False, width=width)
        page.goto("/journal/")
        for label in ("User or group", "Actor", "Entity", "Action", "Since", "Until"):
            expect(page.get_by_label(label)).to_be_visible()
        expect(page.locator("#lines-more > summary")).to_be_hidden()
    page.get_by_label("Actor").fill("nobody")
    page.get_by_role("button", name="Apply").click()
    expect(page.locator("#lines")).to_contain_text("No matching lines")
    expect(page.get_by_label("Actor")).to_have_value("nobody")


def test_filters_that_are_set_are_chips_that_can_be_removed(cast, page_of):
    for width in (360, 768, 1440):
        page = page_of("aud", width=width)
        page.goto("/journal/")
        expect(page.get_by_label("Actor")).to_be_hidden()
        page.locator("#lines-more > summary").press("Enter")
        page.get_by_label("Actor").fill("nobody")
        page.get_by_label("Actor").press("Enter")
        expect(page.locator("#lines")).to_contain_text("No matching lines")
        chip = page.locator(".chip", has_text="Actor: nobody")
        expect(chip).to_be_visible()
        # the form stays open, with the focus in its field, until it is left
        expect(page.get_by_label("Actor", exact=True)).to_be_focused()
        page.locator("#lines-title").click()
        expect(page.get_by_label("Actor", exact=True)).to_be_hidden()
        chip.get_by_role("button", name="Remove the filter Actor").dispatch_event("click")
        expect(page.locator("#lines tbody tr")).not_to_have_count(0)
        expect(page).to_have_url(re.compile(r"/journal/$"))


def test_clearing_the_last_further_filter_keeps_its_field_visible(cast, page_of):
    page = page_of("aud", width=390)
    page.goto("/journal/?actor=nobody")
    page.locator("#lines-more > summary").click()
    page.get_by_label("Actor", exact=True).fill("")
    page.get_by_label("Actor", exact=True).press("Enter")
    expect(page.locator("#lines tbody tr")).not_to_have_count(0)
    expect(page.get_by_label("Actor", exact=True)).to_be_focused()
    expect(page).to_have_url(re.compile(r"/journal/$"))
