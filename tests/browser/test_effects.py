"""Pages appear before their effect, with and without scripts, and a change is confirmed only with the effect that is shown."""

import re

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from entities.address import parse_address
from entities.selectors import entity_at
from grants.models import Job, JobState, Plan
from tests.support.changes import add_member, create_plan_from_changes
from tests.support.jobs import execute_effect

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

NAMESPACE = parse_address("namespace:sales")
DELETE = "/lifecycle/delete/namespace:sales"


def delay_effects(page):
    """Hold back the requests of htmx. Return the held ones, which `continue_` sends."""
    held = []
    page.route(
        "**/*",
        lambda route: held.append(route) if route.request.headers.get("hx-request") else route.continue_(),
    )
    return held


def test_the_button_is_enabled_when_the_effect_arrives(page):
    held = delay_effects(page)
    page.goto(DELETE)
    button = page.get_by_role("button", name="Delete namespace")
    expect(page.get_by_text("Computing the effect")).to_be_visible()
    expect(button).to_be_disabled()
    expect(page.get_by_role("button", name="Show effect")).to_have_count(0)
    page.get_by_label("Reason", exact=True).fill("closed")
    held.pop().continue_()
    expect(button).to_be_enabled()
    expect(button).to_have_text(re.compile(r"Delete namespace: \d+ permissions lost"))
    expect(page.get_by_text("Computing the effect")).to_have_count(0)
    expect(page.get_by_label("Reason", exact=True)).to_have_value("closed")
    page.get_by_label("Enter sales to confirm").fill("sales")
    button.click()
    expect(page.locator("#notices")).to_contain_text("namespace:sales was deleted")
    assert not entity_at(NAMESPACE).is_live


def test_a_section_whose_numbers_are_still_loading_stays_readable(cast, page_of, monkeypatch):
    monkeypatch.setattr("grants.access.what_can.MAX_GRANTS_TO_COUNT_AT_ONCE", 1)
    monkeypatch.setattr("authzconsole.web.people.access.ROWS_PER_PAGE", 1)
    page = page_of("ada")
    held = delay_effects(page)
    page.goto("/people/user:dee")
    section = page.locator("#access[aria-busy]")
    expect(section.get_by_text("The entities are being counted.")).to_be_visible()
    # an outdated section fades after 400 ms
    page.wait_for_timeout(700)
    expect(section).to_have_css("opacity", "1")
    for request in held:
        request.continue_()
    expect(section).to_have_count(0)
    expect(page.locator("#visibility .skeleton")).to_have_count(0)
    expect(page.locator("#visibility tbody tr")).not_to_have_count(0)
    expect(page.get_by_text("The entities are being counted.")).to_have_count(0)


def test_a_changed_field_loads_the_effect_again(page):
    page.goto("/grant/dataset:sales.orders?principal=user:out&privilege=READ")
    expect(page.get_by_role("button", name=re.compile(r"^Grant: \d+ permissions gained"))).to_be_enabled()
    first = page.get_by_role("button", name=re.compile("^Grant")).inner_text()
    page.get_by_label("ADMIN").check()
    expect(page.get_by_role("button", name=re.compile("^Grant"))).not_to_have_text(first)
    expect(page.get_by_role("button", name=re.compile(r"^Grant: \d+ permissions gained"))).to_be_enabled()


def test_a_change_of_the_tenant_between_show_and_confirm_is_refused_and_shown(page):
    page.goto(DELETE)
    button = page.get_by_role("button", name=re.compile("^Delete namespace: "))
    first = button.inner_text()
    add_member("out", "operators")
    page.get_by_label("Enter sales to confirm").fill("sales")
    page.get_by_label("Reason", exact=True).fill("closed")
    button.click()
    expect(page.get_by_text("Nothing was changed: the effect of this change has changed")).to_be_visible()
    assert entity_at(NAMESPACE).is_live
    expect(button).not_to_have_text(first)
    expect(page.get_by_label("Reason", exact=True)).to_have_value("closed")


def test_a_plan_is_applied_after_its_effect_has_arrived(page):
    plan = create_plan_from_changes(grant=[("user:ned", parse_address("dataset:sales.orders"), "READ")])
    held = delay_effects(page)
    page.goto(f"/plans/{plan.pk}/")
    button = page.get_by_role("button", name="Apply plan")
    expect(button).to_be_disabled()
    page.get_by_label("Reason", exact=True).fill("the same work")
    held.pop().continue_()
    expect(button).to_be_enabled()
    expect(page.locator("#permissions")).not_to_contain_text("Computing the effect")
    for confirmation in page.get_by_label("as side effects").all():
        confirmation.check()
    button.click()
    expect(page.locator("#notices")).to_contain_text("is applied")
    assert Plan.objects.get().state == "applied"


def test_an_empty_required_reason_is_marked_and_focused_when_the_effect_arrives_and_enter_applies(page):
    plan = create_plan_from_changes(grant=[("user:ned", parse_address("dataset:sales.orders"), "READ")])
    held = delay_effects(page)
    page.goto(f"/plans/{plan.pk}/")
    reason = page.get_by_label("Reason", exact=True)
    expect(page.get_by_role("button", name="Apply plan")).to_be_disabled()
    expect(reason).not_to_be_focused()
    mark = "getComputedStyle(document.querySelector('label[for=reason]'), '::after').content"
    assert "(required)" in page.evaluate(mark)
    held.pop().continue_()
    expect(reason).to_be_focused()
    assert page.evaluate("scrollY") == 0
    page.keyboard.type("the same work")
    assert "(required)" not in page.evaluate(mark)
    for confirmation in page.get_by_label("as side effects").all():
        confirmation.check()
    reason.press("Enter")
    expect(page.locator("#notices")).to_contain_text("is applied")
    assert Plan.objects.get().state == "applied"


def test_the_arrival_of_an_effect_leaves_the_focus_in_the_field_that_is_edited(page):
    plan = create_plan_from_changes(grant=[("user:ned", parse_address("dataset:sales.orders"), "READ")])
    held = delay_effects(page)
    page.goto(f"/plans/{plan.pk}/")
    page.get_by_text("Limit the access to a period").click()
    field = page.locator("details[open] form :is(input, select):visible").first
    field.focus()
    held.pop().continue_()
    expect(page.get_by_role("button", name="Apply plan")).to_be_enabled()
    expect(field).to_be_focused()


def test_above_the_limits_the_page_requests_the_job_and_shows_its_end(page, settings, sent_tasks):
    settings.EFFECT_MAX_ENTITIES = 1
    page.goto(DELETE)
    button = page.get_by_role("button", name=re.compile("^Delete namespace"))
    expect(page.get_by_text("The worker computes the effect in run")).to_be_visible()
    expect(button).to_be_disabled()
    job = Job.objects.get()
    effect = execute_effect(job)
    expect(button).to_have_text(f"Delete namespace: {effect.tally.total} permissions lost")
    expect(button).to_be_enabled()


def test_a_cancelled_job_is_not_requested_again_and_its_effect_must_be_accepted(page, settings, sent_tasks):
    settings.EFFECT_MAX_ENTITIES = 1
    page.goto(DELETE)
    page.get_by_role("button", name="Cancel computation").click()
    expect(page.get_by_text("The computation was cancelled.")).to_be_visible()
    button = page.get_by_role("button", name="Delete namespace")
    expect(button).to_be_enabled()
    page.get_by_label("Enter sales to confirm").fill("sales")
    button.click()
    assert entity_at(NAMESPACE).is_live and Job.objects.count() == 1
    page.get_by_label("Make the change although its effect is not known").check()
    button.click()
    expect(page.locator("#notices")).to_contain_text("namespace:sales was deleted")


def test_a_job_that_fails_says_why_and_can_be_repeated(page, settings, sent_tasks):
    settings.EFFECT_MAX_ENTITIES = 1
    page.goto(DELETE)
    expect(page.get_by_text("The worker computes the effect in run")).to_be_visible()
    Job.objects.update(state=JobState.FAILED, error="out of memory", finished_at=timezone.now())
    expect(page.get_by_text("The computation failed: out of memory")).to_be_visible()
    page.get_by_role("button", name="Compute the effect").click()
    expect(page.get_by_text("The worker computes the effect in run")).to_be_visible()
    assert Job.objects.count() == 2


@pytest.mark.parametrize(
    ("url", "confirm"),
    [
        (DELETE, "Delete namespace: "),
        ("/people/remove/user:ned", "Remove user: "),
        ("/people/membership?verb=remove&user=grp&group=operators", "Remove from group: "),
        ("/accounts/change/user:ned?change=activity&active=no", "Deactivate account: "),
        ("/policies/existing/activate", "Activate existing, now or at the time above: "),
    ],
)
def test_without_scripts_the_second_page_has_the_effect(cast, page_of, url, confirm):
    page = page_of("ada", scripts=False)
    page.goto(url)
    expect(page.get_by_role("button", name=confirm.removesuffix(": "))).to_be_disabled()
    page.get_by_label("Reason", exact=True).fill("agreed")
    page.get_by_role("button", name="Show effect").click()
    expect(page.get_by_role("button", name=confirm)).to_be_enabled()
    expect(page.get_by_label("Reason", exact=True)).to_have_value("agreed")


def test_without_scripts_a_section_is_shown_by_a_link(cast, page_of):
    page = page_of("ada", scripts=False)
    plan = create_plan_from_changes(grant=[("user:ned", parse_address("dataset:sales.orders"), "READ")])
    page.goto(f"/plans/{plan.pk}/")
    expect(page.get_by_role("button", name="Apply plan")).to_be_disabled()
    page.get_by_role("link", name="Show effect").click()
    expect(page.get_by_role("button", name="Apply plan")).to_be_enabled()
